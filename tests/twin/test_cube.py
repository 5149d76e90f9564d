"""The cube side of the twin: its C++ tests, compiled with the system's compiler."""

import subprocess

import pytest
from twin_build import CPP, CompileError, compile_all, compile_cpp


def test_cube(twin, tmp_path):
    objects = {CPP / f"{name}.cpp": tmp_path / f"{name}.o" for name in ("test_cube", "test_cube_checks")}
    compile_all(objects)
    program = tmp_path / "test_cube"
    compile_cpp(*objects.values(), *twin, "-o", program, "-pthread")
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
    with pytest.raises(CompileError, match=f"static assertion failed: {message}"):
        compile_cpp("-fsyntax-only", source)
