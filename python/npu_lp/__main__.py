"""``python -m npu_lp COMMAND``."""

import argparse
import sys


def _environment(_: argparse.Namespace) -> None:
    from npu_lp import env

    env.main()


def _recipes(_: argparse.Namespace) -> None:
    from npu_lp import recipes

    print(recipes.table())


def main(arguments: list[str] | None = None) -> None:
    """Run a command; see --help."""
    parser = argparse.ArgumentParser(prog="python -m npu_lp", description="Tools of npu_lp.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    env = commands.add_parser("env", help="print versions, backends and the processor, to paste into a bug report")
    env.set_defaults(run=_environment)
    recipes = commands.add_parser("recipes", help="print every recipe: which modules, which config, which matmuls")
    recipes.set_defaults(run=_recipes)
    from npu_lp.twin import cli

    cli.add_commands(commands)
    parsed = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    parsed.run(parsed)


if __name__ == "__main__":
    main()
