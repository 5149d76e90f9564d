"""The cube side of the twin: its C++ tests, compiled with the system's compiler."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TWIN = ROOT / "csrc" / "twin"
MACHINE = ("memory", "order", "shuffle", "launch", "gm_races", "queue", "data_copy", "tensor")
FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1", "-ffp-contract=off", f"-I{ROOT / 'csrc'}")


def compile_cpp(*arguments):
    done = subprocess.run(["g++", *FLAGS, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cube")
    together = folder / "machine.cpp"
    together.write_text("".join(f'#include "twin/{name}.cpp"\n' for name in MACHINE))
    tests = [Path(__file__).parent / "cpp" / name for name in ("test_cube.cpp", "test_cube_checks.cpp")]
    sources = [*tests, together, *sorted(TWIN.glob("cube_*.cpp"))]
    objects = [folder / f"{source.stem}.o" for source in sources]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda source, to: compile_cpp("-c", source, "-o", to), sources, objects))
    compile_cpp(*objects, "-o", folder / "test_cube", "-pthread")
    return folder / "test_cube"


def test_cube(program):
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures" in done.stdout
