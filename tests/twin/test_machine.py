"""The machine under the twin: its own C++ tests, compiled with the system's compiler, which the build needs anyway."""

import subprocess

import pytest
from twin_build import CPP, compile_cpp


@pytest.mark.parametrize("name", ["test_machine", "test_machine_memory", "test_machine_modes"])
def test_machine(name, twin, tmp_path):
    program = tmp_path / name
    compile_cpp("-O0", CPP / f"{name}.cpp", *twin, "-o", program, "-pthread")
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures" in done.stdout
