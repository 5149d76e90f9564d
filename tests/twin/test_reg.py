"""The register API of the twin: its own C++ tests, and what must not compile."""

import subprocess

import pytest
from twin_build import CPP, CompileError, compile_cpp


@pytest.mark.parametrize(
    "name", ["test_reg_memory", "test_reg_compute", "test_reg_cast", "test_reg_cast_floats", "test_reg_call"]
)
def test_reg(name, twin, tmp_path):
    program = tmp_path / name
    compile_cpp(CPP / f"{name}.cpp", *twin, "-o", program, "-pthread")
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures" in done.stdout


REFUSED = {
    "half to fp8": ("Cast<fp8_e4m3fn_t, half, kRint>(e4m3, h, mask);", "no Cast between these types"),
    "half to fp4": ("Cast<fp4x2_e2m1_t, half, kRint>(e2m1, h, mask);", "no Cast between these types"),
    "fp32 to fp4": ("Cast<fp4x2_e2m1_t, float, kRint>(e2m1, f, mask);", "no Cast between these types"),
    "fp8 rounded up": ("Cast<fp8_e4m3fn_t, float, kCeil>(e4m3, f, mask);", "does not have that roundMode"),
    "fp8 without layout": ("Cast<fp8_e4m3fn_t, float, kNoLayout>(e4m3, f, mask);", "needs layoutMode"),
    "another type named": ("Add<half>(f, f, f, mask);", "the named type must be the registers'"),
    "mixed registers": ("Add(f, h, f, mask);", "no matching function"),
    "logic on floats": ("And(f, f, f, mask);", "takes integer registers"),
    "bf16 times a scalar": ("Muls(b, b, 2.0f, mask);", "does not have this element type"),
    "bf16 reduced": ("Reduce<ReduceType::MAX>(b, b, mask);", "does not have these element types"),
    "a pair from a single distribution": ("LoadAlign<float, LoadDist::DIST_NORM>(f, f, p);", "into two registers"),
    "a pointer of another type": ("LoadAlign(h, p);", "the pointer's type must be the register's"),
}
PROGRAM = """
#include "twin/kernel_operator.h"
using namespace AscendC;
using namespace AscendC::Reg;
constexpr CastTrait kRint = {RegLayout::ZERO, SatMode::SAT, MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr CastTrait kCeil = {RegLayout::ZERO, SatMode::SAT, MaskMergeMode::ZEROING, RoundMode::CAST_CEIL};
constexpr CastTrait kNoLayout = {RegLayout::UNKNOWN, SatMode::SAT, MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
void kernel([[maybe_unused]] float* p) {
  [[maybe_unused]] RegTensor<half> h;
  [[maybe_unused]] RegTensor<float> f;
  [[maybe_unused]] RegTensor<bfloat16_t> b;
  [[maybe_unused]] RegTensor<fp8_e4m3fn_t> e4m3;
  [[maybe_unused]] RegTensor<fp4x2_e2m1_t> e2m1;
  [[maybe_unused]] MaskReg mask;
#if LINE == -1
  Cast<fp8_e4m3fn_t, float, kRint>(e4m3, f, mask);
#endif
%s
}
"""


def test_what_the_unit_lacks_does_not_compile(tmp_path):
    source = tmp_path / "refused.cpp"
    prefix = PROGRAM.split("%s")[0]
    first = prefix.count("\n") + 2
    source.write_text(PROGRAM % "\n".join(["#if LINE == 0", *(f"Reg::{code}" for code, _ in REFUSED.values()), "#endif"]))
    compile_cpp("-fsyntax-only", "-DLINE=-1", source)
    with pytest.raises(CompileError) as refused:
        compile_cpp("-fsyntax-only", "-DLINE=0", source)
    said = str(refused.value)
    for number, (name, (_, message)) in enumerate(REFUSED.items(), first):
        assert f"refused.cpp:{number}:" in said, f"{name} compiles"
        assert message in said, f"{name}: {said[:3000]}"
