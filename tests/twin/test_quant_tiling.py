"""Tilings of the vector kernels, as a C++ program: they are C++ and need neither torch nor the twin."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_quant_tiling(tmp_path: Path) -> None:
    program = tmp_path / "test_quant_tiling"
    flags = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'csrc'}")
    source = Path(__file__).parent / "cpp" / "test_quant_tiling.cpp"
    done = subprocess.run(["g++", *flags, source, "-o", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert " 0 failures" in done.stdout
