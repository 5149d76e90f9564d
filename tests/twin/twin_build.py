"""C++ programs on the twin, compiled by the tests: its own sources once a session, then one program at a time."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
CPP = Path(__file__).parent / "cpp"
FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1", "-ffp-contract=off")


class CompileError(Exception):
    """What the compiler said."""


def compile_cpp(*arguments: object, first: Path | None = None) -> None:
    """Run g++. Headers are looked up in `first`, which may hold a changed copy of csrc/ascend, and then in csrc."""
    folders = [folder for folder in (first, CSRC, CSRC / "twin") if folder is not None]
    command = ["g++", *FLAGS, *(f"-I{folder}" for folder in folders), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise CompileError(done.stderr)


def compile_all(sources: dict[Path, Path], *flags: str, first: Path | None = None) -> None:
    """Compile each source to its object, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda item: compile_cpp(*flags, "-c", item[0], "-o", item[1], first=first), sources.items()))


def twin_objects(folder: Path) -> list[Path]:
    """Build the twin into `folder`, or find it there: safe for several processes at once.

    Several sources as one take a third of the time that they take one by one; those of the cube share names.
    """
    together = [path for path in sorted(CSRC.glob("twin/*.cpp")) if not path.name.startswith("cube_")]
    sources = [folder / "machine.cpp", *sorted(CSRC.glob("twin/cube_*.cpp"))]
    objects = [folder / f"{source.stem}.o" for source in sources]
    with FileLock(folder / "lock"):
        if not (folder / "done").exists():
            sources[0].write_text("".join(f'#include "twin/{path.name}"\n' for path in together))
            compile_all(dict(zip(sources, objects, strict=True)))
            (folder / "done").touch()
    return objects
