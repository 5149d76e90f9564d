"""The machine under the twin: its own C++ tests, compiled with the system's compiler, which the build needs anyway."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("memory", "order", "shuffle", "launch", "gm_races", "queue", "data_copy", "tensor")
FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", f"-I{ROOT / 'csrc'}")


def compile_cpp(*arguments):
    done = subprocess.run(["g++", *FLAGS, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """The machine as one object file: its sources together take a third of the time that they take one by one."""
    folder = tmp_path_factory.mktemp("machine")
    together = folder / "machine.cpp"
    together.write_text("".join(f'#include "twin/{name}.cpp"\n' for name in SOURCES))
    compile_cpp("-O1", "-c", together, "-o", folder / "machine.o")
    return folder / "machine.o"


@pytest.mark.parametrize("name", ["test_machine", "test_machine_memory", "test_machine_modes"])
def test_machine(name, machine, tmp_path):
    program = tmp_path / name
    compile_cpp("-O0", Path(__file__).parent / "cpp" / f"{name}.cpp", machine, "-o", program, "-pthread")
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures" in done.stdout
