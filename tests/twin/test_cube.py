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


# Combinations of types that the hardware does not have stop the compiler, not the kernel.
WRONG_TYPES = {
    "MmadMx multiplies fp8": "MmadMx(c, LocalTensor<half>(), LocalTensor<half>(), MmadParams());",
    "MmadMx multiplies fp8 with fp8 or fp4 with fp4": "MmadMx(c, a, LocalTensor<fp4x2_e2m1_t>(), MmadParams());",
    "Mmad does not have": "Mmad(c, LocalTensor<hifloat8_t>(), b, MmadParams());",
    "LoadData with scales": "LoadData(LocalTensor<half>(), LocalTensor<half>(), LocalTensor<fp8_e8m0_t>(), "
    "LoadData2DParamsV2(), LoadData2DMxParams());",
    "Fill takes": "Fill(LocalTensor<uint8_t>(), InitConstValueParams<uint8_t>());",
    "the twin models Fixpipe into": "Fixpipe(GlobalTensor<int8_t>(), c, FixpipeParamsArch3510<>());",
    "a copy to the bias table": "DataCopy(c, LocalTensor<bfloat16_t>(), DataCopyParams());",
}


@pytest.mark.parametrize("message", WRONG_TYPES)
def test_types(message, tmp_path):
    source = tmp_path / "wrong.cpp"
    source.write_text(
        '#include "twin/cube.h"\nusing namespace AscendC;\n'
        "void kernel(LocalTensor<float> c, LocalTensor<fp8_e4m3fn_t> a, LocalTensor<fp8_e5m2_t> b) {\n"
        f"  {WRONG_TYPES[message]}\n  (void)c, (void)a, (void)b;\n}}\n"
    )
    done = subprocess.run(["g++", *FLAGS, "-fsyntax-only", source], capture_output=True, text=True)
    assert done.returncode != 0
    assert f"static assertion failed: {message}" in done.stderr
