"""One output of a case: what was expected, what came, and where they differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from npu_lp.conformance.cases import UNWRITTEN, Case, CaseError, raw_bytes

SHOWN = 6


@dataclass(frozen=True)
class Comparison:
    """An output by name, and why it is wrong (None if it is right)."""

    output: str
    mismatch: str | None


def _elements(t: torch.Tensor) -> torch.Tensor:
    """[elements, bytes] of a tensor in C order."""
    return t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).view(-1, t.element_size())


def _position(flat: int, shape: list[int]) -> list[int]:
    position = []
    for size in reversed(shape):
        position.append(flat % size)
        flat //= size
    return position[::-1]


def _hex(element: torch.Tensor) -> str:
    """The bytes of one little-endian element as a number."""
    return bytes(reversed(element.tolist())).hex()


def compare(case: Case, output: str, got: torch.Tensor, *, written_rows: list[int] | None = None) -> Comparison:
    """Compares got with expected[output] byte by byte.

    An element whose bytes are all 0xCC is one that the device leaves unwritten, and is not compared. Where the case
    lists the rows that the device writes, those rows are compared whole, and no others.
    """
    flat, shape, dtype, _ = raw_bytes(case, output, case.output(output))
    want = flat.view(-1, dtype.itemsize)
    if list(got.shape) != shape:
        return Comparison(output, f"shape {list(got.shape)}, expected {shape}")
    if got.element_size() != dtype.itemsize:
        return Comparison(output, f"dtype {got.dtype}, expected {dtype}")
    if written_rows is None:
        compared = (want != UNWRITTEN).any(dim=1)
    else:
        if not all(0 <= row < shape[0] for row in written_rows):
            raise CaseError(f"case {case.id}: written rows {written_rows} do not all lie in {output} of shape {shape}")
        compared = torch.zeros(shape[0], dtype=torch.bool)
        compared[written_rows] = True
        compared = compared.repeat_interleave(math.prod(shape[1:]))
    return _describe(output, _elements(got), want, shape, compared)


def _describe(output: str, got: torch.Tensor, want: torch.Tensor, shape: list[int], compared: torch.Tensor) -> Comparison:
    different = ((got != want).any(dim=1) & compared).nonzero()[:, 0].tolist()
    if not different:
        return Comparison(output, None)
    first = ", ".join(f"{_position(i, shape)} expected {_hex(want[i])} got {_hex(got[i])}" for i in different[:SHOWN])
    more = ", ..." if len(different) > SHOWN else ""
    return Comparison(output, f"{len(different)} of {int(compared.sum())} elements differ: {first}{more}")


def same(output: str, got: torch.Tensor, want: torch.Tensor) -> Comparison:
    """Compares two tensors that were both computed: shape and bytes."""
    if got.shape != want.shape or got.element_size() != want.element_size():
        return Comparison(output, f"{got.dtype} {list(got.shape)}, expected {want.dtype} {list(want.shape)}")
    elements = _elements(want)
    everything = torch.ones(len(elements), dtype=torch.bool)
    return _describe(output, _elements(got), elements, list(want.shape), everything)


def holds(output: str, condition: bool, otherwise: Callable[[], str] | str) -> Comparison:
    """A statement about outputs that is not a comparison of bytes."""
    if condition:
        return Comparison(output, None)
    return Comparison(output, otherwise if isinstance(otherwise, str) else otherwise())


def all_equal(output: str, got: torch.Tensor, value: float) -> Comparison:
    """Every element of got has this value."""
    wrong = (got.float() != value).nonzero().tolist()
    return holds(output, not wrong, lambda: f"{len(wrong)} elements are not {value}, first at {wrong[0]}")
