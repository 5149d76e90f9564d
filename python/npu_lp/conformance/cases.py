"""The file format of conformance cases, and tensors made from their bytes.

A file is an object with `cases` (a list) and, optionally, `count`, `format` and `basis_meaning`. A case has `id`, `op`,
`args`, `inputs`, `expected` and `basis`; a tensor is {"dtype", "shape", "hex_le"}: the raw little-endian bytes of a
C-contiguous array. A few tensors are given in words ("ones e4m3 [1,256]"), see `tensor_from_words`.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

# Name in the file -> (dtype that holds the bytes, format of the codes where the dtype alone does not tell).
DTYPES: dict[str, tuple[torch.dtype, str | None]] = {
    "bfloat16": (torch.bfloat16, None),
    "float16": (torch.float16, None),
    "float32": (torch.float32, None),
    "float8_e4m3fn": (torch.float8_e4m3fn, "e4m3"),
    "float8_e5m2": (torch.float8_e5m2, "e5m2"),
    "uint8(e8m0)": (torch.float8_e8m0fnu, None),
    "uint8(2xfp4)": (torch.uint8, "fp4"),
    "uint8(hif8)": (torch.uint8, "hif8"),
    "uint8": (torch.uint8, None),
    "int8": (torch.int8, None),
    "int32": (torch.int32, None),
    "int64": (torch.int64, None),
}

UNWRITTEN = 0xCC


class CaseError(ValueError):
    """The file, or one case in it, is not in the format; the message says where and what is expected."""


@dataclass(frozen=True)
class Case:
    """One recorded call."""

    id: str
    op: str
    args: dict[str, Any]
    inputs: dict[str, Any]
    expected: dict[str, Any]
    basis: str
    note: str = ""

    def input(self, *names: str) -> Any:
        """The input under the first of these names that the case has."""
        return self._one_of(self.inputs, "inputs", names)

    def output(self, *names: str) -> Any:
        """The expectation under the first of these names that the case has."""
        return self._one_of(self.expected, "expected", names)

    def _one_of(self, values: dict[str, Any], where: str, names: tuple[str, ...]) -> Any:
        for name in names:
            if name in values:
                return values[name]
        raise CaseError(f"case {self.id}: {where} has no {' or '.join(names)}; it has {sorted(values)}")


@dataclass(frozen=True)
class CaseFile:
    """All cases of a file, and what its marks mean."""

    path: Path
    cases: list[Case]
    basis_meaning: dict[str, str] = field(default_factory=dict)


def load(path: Path) -> CaseFile:
    """Reads and checks a file of cases; CaseError names the first thing that is wrong."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaseError(f"cannot read {path}: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CaseError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        raise CaseError(f'{path} has no list "cases" at its top level')
    cases = [_case(path, i, entry) for i, entry in enumerate(content["cases"])]
    if "count" in content and content["count"] != len(cases):
        raise CaseError(f"{path} says count {content['count']} but holds {len(cases)} cases: is it cut short?")
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise CaseError(f"{path} holds two cases with the id {case.id!r}")
        seen.add(case.id)
    meaning = content.get("basis_meaning", {})
    return CaseFile(path, cases, meaning if isinstance(meaning, dict) else {})


def _case(path: Path, index: int, entry: Any) -> Case:
    name = entry.get("id", f"number {index}") if isinstance(entry, dict) else f"number {index}"
    types = {"id": str, "op": str, "args": dict, "inputs": dict, "expected": dict, "basis": str}
    for key, kind in types.items():
        if not isinstance(entry, dict) or not isinstance(entry.get(key), kind):
            words = {str: "a string", dict: "an object"}[kind]
            raise CaseError(f'{path}: case {name} has no "{key}" that is {words}')
    case = Case(**{key: entry[key] for key in types}, note=str(entry.get("note", "")))
    for group in ("inputs", "expected"):
        for key, value in entry[group].items():
            if isinstance(value, dict):
                raw_bytes(case, f"{group}.{key}", value)  # every tensor of the file is checked before any case runs
    return case


def raw_bytes(case: Case, name: str, value: Any) -> tuple[torch.Tensor, list[int], torch.dtype, str | None]:
    """Bytes (uint8, 1-D), shape, storage dtype and format of a tensor of the file."""
    where = f"case {case.id}, {name}"
    if not isinstance(value, dict) or not {"dtype", "shape", "hex_le"} <= value.keys():
        raise CaseError(f"{where}: expected an object with dtype, shape and hex_le, got {value!r:.80}")
    if value["dtype"] not in DTYPES:
        raise CaseError(f"{where}: unknown dtype {value['dtype']!r}; known are {', '.join(DTYPES)}")
    dtype, fmt = DTYPES[value["dtype"]]
    shape = value["shape"]
    if not isinstance(shape, list) or not all(isinstance(d, int) and d >= 0 for d in shape):
        raise CaseError(f"{where}: shape must be a list of sizes, got {shape!r:.80}")
    try:
        content = bytes.fromhex(value["hex_le"])
    except (ValueError, TypeError) as error:
        raise CaseError(f"{where}: hex_le is not a string of hex digits: {error}") from error
    needed = math.prod(shape) * dtype.itemsize
    if len(content) != needed:
        raise CaseError(f"{where}: {value['dtype']} {shape} needs {needed} bytes, hex_le holds {len(content)}")
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
    return flat, shape, dtype, fmt


def tensor(case: Case, name: str, value: Any) -> torch.Tensor:
    """The tensor that a case gives as bytes, or in words."""
    if isinstance(value, str):
        return tensor_from_words(case, name, value)
    flat, shape, dtype, _ = raw_bytes(case, name, value)
    return flat.view(dtype).view(shape)


def stored_format(case: Case, name: str, value: Any) -> str | None:
    """e4m3, e5m2, fp4 or hif8 where the case's dtype says so."""
    if isinstance(value, str):
        return {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}.get(tensor(case, name, value).dtype)
    return raw_bytes(case, name, value)[3]


_FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def tensor_from_words(case: Case, name: str, text: str) -> torch.Tensor:
    """Tensors that a case describes instead of listing their bytes.

    ones e4m3 [1,256] | e4m3 [32,3] ones | e4m3 [K=32,M=2].t(), ones | expert e filled with e+1, e4m3 [3,64,1] |
    bytes 127 [4,1,2] | (2,3,2): row 1 = [127,0] (all other rows 0; a size may be a formula that ends in "=size")
    """
    fp8, dims = r"(?P<fmt>e4m3|e5m2)", r"\[(?P<dims>[A-Z=\d,\s]*)\]"
    for form in (rf"ones {fp8} {dims}", rf"{fp8} {dims}(?P<t>\.t\(\),)? ones"):
        if match := re.fullmatch(form, text):
            ones = torch.ones(_numbers(match["dims"])).to(_FP8[match["fmt"]])
            return ones.t() if match.groupdict().get("t") else ones
    if match := re.fullmatch(rf"expert e filled with e\+1, {fp8} {dims}", text):
        sizes_list = _numbers(match["dims"])
        fill = torch.arange(1, sizes_list[0] + 1, dtype=torch.float32).view(-1, *[1] * (len(sizes_list) - 1))
        return fill.expand(sizes_list).contiguous().to(_FP8[match["fmt"]])
    if match := re.fullmatch(rf"bytes (?P<byte>\d+) {dims}", text):
        filled = torch.full(_numbers(match["dims"]), int(match["byte"]), dtype=torch.uint8)
        return filled.view(torch.float8_e8m0fnu)
    if match := re.fullmatch(r"\((?P<dims>[^)]*)\): row (?P<row>\d+) = \[(?P<bytes>[\d,\s]+)\]", text):
        shape = [_numbers(part)[-1] for part in match["dims"].split(",")]
        rows = torch.zeros(shape, dtype=torch.uint8)
        rows[int(match["row"])] = torch.tensor(_numbers(match["bytes"]), dtype=torch.uint8)
        return rows.view(torch.float8_e8m0fnu)
    raise CaseError(f"case {case.id}, {name}: cannot read {text!r}; known forms: {tensor_from_words.__doc__}")
