"""The timing model alone, on records made by hand (cpp/timing_records.h): known answers, and what was measured on a 950PR.

The measurements are those of the reference ascend950-costs.md, sections 2.4, 3.5 and 4.1.
"""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[2]
_COSTS = (_ROOT / "csrc/twin/timing/costs.h").read_text()

Result = dict[str, Any]
Runner = Callable[..., Result]


@pytest.fixture(scope="session")
def timing(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a function that runs one case of cpp/test_timing.cpp, with costs changed by keyword."""
    program = tmp_path_factory.mktemp("timing") / "test_timing"
    sources = [_ROOT / "tests/twin/cpp/test_timing.cpp", *sorted((_ROOT / "csrc/twin/timing").glob("*.cpp"))]
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", f"-I{_ROOT / 'csrc'}"]
    subprocess.run(["g++", *flags, *map(str, sources), "-o", str(program)], check=True)

    def run(case: str, **costs: float) -> Result:
        arguments = [f"{name}={value}" for name, value in costs.items()]
        output = subprocess.run([program, *arguments, case], check=True, capture_output=True, text=True).stdout
        result: Result = json.loads(output)
        return result

    return run


@pytest.mark.parametrize(("case", "microseconds"), [("empty1", 1.455), ("empty32", 1.589), ("empty64", 2.160)])
def test_empty_kernels_take_what_was_measured(timing: Runner, case: str, microseconds: float) -> None:
    assert timing(case)["us"] == pytest.approx(microseconds, rel=1e-3)


@pytest.mark.parametrize(
    ("case", "microseconds"),
    [("copy_128B", 881.1), ("copy_8KB", 206.0), ("copy_128KB", 185.7), ("nd2nz_128", 241.6), ("nd2nz_512", 187.2)],
)
def test_copies_of_302_mb(timing: Runner, case: str, microseconds: float) -> None:
    result = timing(case)
    assert result["us"] * result["MTE2"] == pytest.approx(microseconds, rel=0.10)
    assert result["hbm_read"] == result["gm_read"] == 2 * 12288**2


@pytest.mark.parametrize(("case", "microseconds"), [("copy_quarters", 354.95), ("nd2nz_quarters", 390.3)])
def test_what_fits_into_l2_is_read_from_it(timing: Runner, case: str, microseconds: float) -> None:
    result = timing(case)
    assert result["us"] == pytest.approx(microseconds, rel=0.10)
    assert 0.66 < result["l2_hit"] / result["gm_read"] <= 0.75


def test_vector_functions_of_gelu(timing: Runner) -> None:
    result = timing("gelu_vector")
    assert result["us"] * result["VECTOR"] == pytest.approx(65, rel=0.10)


def test_mmads_follow_each_other_at_one_fractal_a_cycle(timing: Runner) -> None:
    result = timing("mmads", mmad_overhead=0, prologue_cube=0)
    assert result["fractals"] == 100 * 1024
    # From the launch of one block: issue of the first, 102400 cycles, the latency of the last.
    assert result["us"] == pytest.approx(1.455 + (15 + 102400 + 25) / 1650, abs=1e-3)


def test_one_buffer_serialises_and_two_overlap(timing: Runner) -> None:
    costs = {"prologue_cube": 0.0, "scalar_issue": 0.0, "scalar_flag": 0.0}
    load, flag, mmad, head = 65536 / 256 + 40, 15, 512 + 8, 25
    one = timing("one_buffer", **costs)["us"] - 1.455
    two = timing("two_buffers", **costs)["us"] - 1.455
    assert one * 1650 == pytest.approx(100 * (load + flag + mmad + head) + 99 * flag, rel=1e-3)
    assert two * 1650 == pytest.approx(load + flag + 100 * mmad + head, rel=1e-3)


def test_a_flag_that_is_never_set_is_an_error_with_its_place(timing: Runner) -> None:
    assert timing("never_set")["error"] == "never_set, block 0 never ends: MTE1 waits at kernel.h:12"


@pytest.mark.parametrize(
    ("case", "microseconds", "tolerance"),
    [
        ("fp16_8192", 2572.0, 0.03),
        ("mxfp4_8192", 681.06, 0.15),
        ("mxfp8_2048", 38.3, 0.15),
        ("mxfp8_4096", 187.9, 0.15),
        ("mxfp8_8192", 1474.9, 0.15),
        ("mxfp8_6144", 602.0, 0.15),  # no parameter was fitted to this one
    ],
)
def test_matmuls_tiled_as_published(timing: Runner, case: str, microseconds: float, tolerance: float) -> None:
    assert timing(case)["us"] == pytest.approx(microseconds, rel=tolerance)


def test_the_unit_flag_hides_the_fixpipe(timing: Runner) -> None:
    with_flag, without = timing("fp16_8192"), timing("fp16_8192_flag")
    # 32 tiles of 1677 cycles, of which the next tile's first copies hide nothing.
    assert without["us"] - with_flag["us"] == pytest.approx(32 * 1677 / 1650, rel=0.25)
    assert with_flag["CUBE"] == pytest.approx(0.99, abs=0.015)


def test_every_cost_has_a_known_tag_and_lies_in_its_range() -> None:
    rows = re.findall(r'X\((\w+), ([\d.]+), "([^"]+)", "([^"]+)", "([^"]+)",', _COSTS)
    assert len(rows) == _COSTS.count("  X(") > 40
    for name, value, _unit, bounds, tag in rows:
        assert tag in {"stated", "stated-other", "simulated", "measured", "derived", "assumption", "fitted"}, name
        low, _, high = bounds.partition("-")
        assert float(low) <= float(value) <= float(high or low), name
