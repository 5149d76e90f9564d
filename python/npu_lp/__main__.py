"""``python -m npu_lp COMMAND``."""

import argparse
import sys


def _environment(_: argparse.Namespace) -> None:
    from npu_lp import env

    env.main()


def main(arguments: list[str] | None = None) -> None:
    """Run a command; see --help."""
    parser = argparse.ArgumentParser(prog="python -m npu_lp", description="Tools of npu_lp.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    env = commands.add_parser("env", help="print versions, backends and the processor, to paste into a bug report")
    env.set_defaults(run=_environment)
    parsed = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    parsed.run(parsed)


if __name__ == "__main__":
    main()
