"""The matmul kernels on the twin, against a plain reference whose sums are exact: every format, transposition, output,
split, ragged size and number of cores, in program order and in shuffled order, without a report."""

import subprocess

import pytest
from twin_build import CPP, CSRC, compile_all, compile_cpp


@pytest.fixture(scope="module")
def program(twin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("matmul")
    sources = [CPP / name for name in ("test_matmul.cpp", "matmul_cases.cpp")]
    sources += [CSRC / "ascend" / name for name in ("host/twin_launch.cpp", "tiling/matmul_tiling.cpp")]
    launch = CSRC / "ascend/launch/matmul.cpp"
    objects = {source: folder / f"{source.stem}.o" for source in [*sources, launch]}
    compile_all(objects)
    compile_cpp(*objects.values(), *twin, "-o", folder / "test_matmul", "-pthread")
    return folder / "test_matmul"


@pytest.mark.parametrize("seed", [11, 12])
def test_random_products(program, seed):
    done = subprocess.run([program, "150", str(seed)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "150 cases, 0 failures" in done.stdout
