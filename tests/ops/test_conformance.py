"""python -m npu_lp.conformance: the golden cases, and files that are wrong in ways a person would make."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from npu_lp.conformance import CaseError, Outcome, load, replay
from npu_lp.conformance.__main__ import main

pytestmark = pytest.mark.usefixtures("backend")

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def golden(golden_cases_file: Path) -> dict[str, Any]:
    return json.loads(golden_cases_file.read_text())


def write(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "cases.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def only(golden: dict[str, Any], case_id: str) -> dict[str, Any]:
    """A file of one case, which a test may change."""
    case = next(c for c in golden["cases"] if c["id"] == case_id)
    return {"basis_meaning": golden["basis_meaning"], "cases": [copy.deepcopy(case)]}


def test_no_golden_case_fails(golden_cases_file: Path) -> None:
    results = [replay(case, CPU) for case in load(golden_cases_file).cases]
    assert len(results) == 96
    assert [(r.case.id, r.details) for r in results if r.outcome is Outcome.FAILED] == []


def test_the_command_prints_the_totals_and_succeeds(golden_cases_file: Path) -> None:
    command = [sys.executable, "-m", "npu_lp.conformance", str(golden_cases_file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    numbers = [int(word) for word in last.replace(",", "").split() if word.isdigit()]
    assert last == f"{numbers[0]} passed, {numbers[1]} failed, {numbers[2]} not implemented"
    assert sum(numbers) == 96
    for basis in ("evidence", "kernel-reading", "mixed", "inference", "device-printed"):
        assert basis in done.stdout


@pytest.mark.parametrize("output", ["y", "mxscale"])
def test_one_changed_byte_is_found_and_shown(
    golden: dict[str, Any], output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = only(golden, "mx8-f-odd-blocks")
    expected = content["cases"][0]["expected"][output]
    hex_le = expected["hex_le"]
    expected["hex_le"] = hex_le[:2] + "11" + hex_le[4:]
    assert main([str(write(tmp_path, content))]) == 1
    printed = capsys.readouterr().out
    position = "[0, 1]" if output == "y" else "[0, 0, 1]"
    assert f"{position} expected 11 got {hex_le[2:4]}" in printed
    assert "mx8-f-odd-blocks" in printed
    assert content["cases"][0]["note"] in printed
    assert printed.strip().endswith("0 passed, 1 failed, 0 not implemented")


def test_bytes_that_the_device_leaves_unwritten_are_not_compared(golden: dict[str, Any], tmp_path: Path) -> None:
    content = only(golden, "mx8-f-ones")
    expected = content["cases"][0]["expected"]
    expected["mxscale"]["hex_le"] = "77cc"
    assert main([str(write(tmp_path, content))]) == 0
    expected["mxscale"]["hex_le"] = "77cd"
    assert main([str(write(tmp_path, content))]) == 1


def test_rows_listed_as_written_are_compared_and_others_are_not(golden: dict[str, Any], tmp_path: Path) -> None:
    content = only(golden, "grp-empty-mid")
    expected = content["cases"][0]["expected"]
    hex_le = expected["mxscale"]["hex_le"]
    assert hex_le[8:16] == "cccccccc"
    expected["mxscale"]["hex_le"] = hex_le[:8] + "11" + hex_le[10:]
    assert main([str(write(tmp_path, content))]) == 0
    expected["mxscale"]["hex_le"] = "11" + hex_le[2:]
    assert main([str(write(tmp_path, content))]) == 1


def test_a_wrong_shape_is_a_failure_that_shows_both(
    golden: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = only(golden, "mx8-f-ones")
    content["cases"][0]["expected"]["y"]["shape"] = [32, 1]
    assert main([str(write(tmp_path, content))]) == 1
    assert "shape [1, 32], expected [32, 1]" in capsys.readouterr().out


def test_type_codes_and_names_mean_the_same(golden: dict[str, Any], tmp_path: Path) -> None:
    for code in (24, 292, "torch.float8_e4m3fn"):
        content = only(golden, "mx8-f-ones")
        content["cases"][0]["args"]["dst_type"] = code
        assert main([str(write(tmp_path, content))]) == 0


def test_an_op_that_refuses_a_recorded_call_fails_the_case(
    golden: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = only(golden, "mx8-f-ones")
    content["cases"][0]["args"]["axis"] = 7
    assert main([str(write(tmp_path, content))]) == 1
    assert "axis" in capsys.readouterr().out


def test_an_unknown_op_is_not_implemented_and_named(
    golden: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = only(golden, "mx8-f-ones")
    content["cases"][0]["op"] = "npu_swiglu_quant"
    assert main([str(write(tmp_path, content))]) == 0
    printed = capsys.readouterr().out
    assert "npu_swiglu_quant" in printed
    assert "0 passed, 0 failed, 1 not implemented" in printed


def test_a_substring_selects_by_id_and_op(golden_cases_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(golden_cases_file), "-k", "grp-", "-v"]) == 0
    printed = capsys.readouterr().out
    assert "grp-ragged" in printed
    assert "5 passed" in printed
    assert main([str(golden_cases_file), "-k", "npu_grouped_dynamic"]) == 0
    assert "5 passed" in capsys.readouterr().out


def break_hex(content: dict[str, Any]) -> None:
    content["cases"][0]["inputs"]["input"]["hex_le"] = "80"


def break_digits(content: dict[str, Any]) -> None:
    content["cases"][0]["inputs"]["input"]["hex_le"] = "zz" * 64


def break_dtype(content: dict[str, Any]) -> None:
    content["cases"][0]["inputs"]["input"]["dtype"] = "float128"


def break_shape(content: dict[str, Any]) -> None:
    content["cases"][0]["expected"]["y"]["shape"] = [1, "32"]


def break_input_name(content: dict[str, Any]) -> None:
    content["cases"][0]["inputs"] = {"data": content["cases"][0]["inputs"]["input"]}


def break_output_name(content: dict[str, Any]) -> None:
    del content["cases"][0]["expected"]["mxscale"]


def break_dst_type(content: dict[str, Any]) -> None:
    content["cases"][0]["args"]["dst_type"] = "torch.float7"


def break_scale_alg(content: dict[str, Any]) -> None:
    content["cases"][0]["args"]["scale_alg"] = 9


def break_op(content: dict[str, Any]) -> None:
    del content["cases"][0]["op"]


def break_count(content: dict[str, Any]) -> None:
    content["count"] = 2


def break_uniqueness(content: dict[str, Any]) -> None:
    content["cases"].append(content["cases"][0])


def break_words(content: dict[str, Any]) -> None:
    content["cases"][0]["inputs"]["input"] = "a tensor of ones"


@pytest.mark.parametrize(
    ("breakage", "parts"),
    [
        (break_hex, ["mx8-f-ones", "needs 64 bytes", "holds 1"]),
        (break_digits, ["mx8-f-ones", "hex"]),
        (break_dtype, ["mx8-f-ones", "float128", "bfloat16"]),
        (break_shape, ["mx8-f-ones", "shape"]),
        (break_input_name, ["mx8-f-ones", "input", "data"]),
        (break_output_name, ["mx8-f-ones", "mxscale"]),
        (break_dst_type, ["mx8-f-ones", "torch.float7", "torch.float8_e4m3fn"]),
        (break_scale_alg, ["mx8-f-ones", "scale_alg", "9"]),
        (break_op, ["mx8-f-ones", "op"]),
        (break_count, ["count 2", "1 cases"]),
        (break_uniqueness, ["two cases", "mx8-f-ones"]),
        (break_words, ["mx8-f-ones", "a tensor of ones"]),
    ],
)
def test_a_malformed_case_is_an_error_that_names_it(
    golden: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], breakage: Any, parts: list[str]
) -> None:
    content = only(golden, "mx8-f-ones")
    breakage(content)
    assert main([str(write(tmp_path, content))]) == 2
    message = capsys.readouterr().err
    for part in parts:
        assert part in message


@pytest.mark.parametrize(("text", "part"), [("{", "not JSON"), ("[]", '"cases"'), ('{"cases": []}', "no case")])
def test_a_file_that_holds_no_cases_is_an_error(
    text: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(write(tmp_path, text))]) == 2
    assert part in capsys.readouterr().err


def test_a_missing_file_a_substring_without_match_and_an_unknown_device_are_errors(
    golden_cases_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "nothing.json")]) == 2
    assert "nothing.json" in capsys.readouterr().err
    assert main([str(golden_cases_file), "-k", "xyzzy"]) == 2
    assert "xyzzy" in capsys.readouterr().err
    assert main([str(golden_cases_file), "--device", "abacus"]) == 2
    assert "abacus" in capsys.readouterr().err


def test_load_raises_for_callers_of_the_module(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="no list"):
        load(write(tmp_path, "{}"))
