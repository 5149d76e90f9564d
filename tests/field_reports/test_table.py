"""docs/field_reports.md answers every report of the categories that the library must not repeat."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "field_reports.md"
IDS = {
    "numerics": (1, 6, 8, 9, 10, 24, 26, 28, 29, 30),
    "NaN, Inf, zero": (35, 36, 37, 39),
    "shapes and padding": (45, 48, 49),
    "layout and strides": (52, 54),
    "empty groups": (57, 58, 59),
    "autograd": (64, 67, 68, 70),
    "dtype": (110,),
}
REPORTS = [f"BC-{number:03d}" for numbers in IDS.values() for number in numbers]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def rows() -> dict[str, list[str]]:
    """Each report's cells: symptom, and tests or reason."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| BC-")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len({row[0] for row in cells}) == len(cells), "a report has two rows"
    return {row[0]: row[1:] for row in cells}


@cache
def names(path: Path) -> frozenset[str]:
    """Test functions of a file, and Class::method."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for cls in tree.body:
        if isinstance(cls, ast.ClassDef):
            found |= {f"{cls.name}::{node.name}" for node in cls.body if isinstance(node, ast.FunctionDef)}
    return frozenset(found)


@pytest.mark.parametrize("report", REPORTS)
def test_each_report_has_a_symptom_and_tests_that_exist_or_a_reason(report: str) -> None:
    symptom, answer = rows()[report]
    tests = _TEST.findall(answer)
    assert len(symptom.split()) >= 3
    assert tests or len(answer.split()) >= 8, f"{report}: neither a test nor a sentence"
    assert "tests/" not in _TEST.sub("", answer), f"{report}: a test that is not written `tests/file.py::name`"
    for file, name in tests:
        assert name in names(ROOT / file), f"{report}: {file} has no {name}"


def test_every_test_that_carries_a_report_s_number_is_in_the_table() -> None:
    table = rows()
    for name in names(Path(__file__).with_name("test_field_reports.py")):
        if name.startswith("test_"):
            report = f"BC-{name.split('_')[2]}"
            assert name in table[report][1], f"{name} is not in the row of {report}"
