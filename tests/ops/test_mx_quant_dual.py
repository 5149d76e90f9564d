"""mx_quant_dual: both axes from one read of x."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checks import FLOATS, SIZES, assert_bits, assert_same_tensors, below, from_bits, ops, spread
from hypothesis import given
from hypothesis import strategies as st
from reference import mx

pytestmark = pytest.mark.usefixtures("backend")

FP8 = ("e4m3", "e5m2")
RULES = ("floor", "rceil")
UNDERFLOWS = ("ocp", "flush_emax", "flush_subnormal")
NAMES = ("data_row", "scale_row", "data_col", "scale_col")


def check(x: torch.Tensor, fmt: str = "e4m3", scale_rule: str = "rceil", **options: Any) -> None:
    got = ops.mx_quant_dual(x, fmt, scale_rule, **options)
    want = mx.mx_quant_dual(x, fmt, scale_rule, **options)
    for name, tensor, array in zip(NAMES, got, want, strict=True):
        assert_bits(tensor, array, name)


@pytest.mark.parametrize("underflow", UNDERFLOWS)
@pytest.mark.parametrize("scale_rule", RULES)
@pytest.mark.parametrize("fmt", FP8)
def test_every_bf16_as_block_maximum_of_either_axis(fmt: str, scale_rule: str, underflow: str) -> None:
    rows = below(np.arange(65536), np.random.default_rng(1), 16, 8)
    check(from_bits(rows, torch.bfloat16), fmt, scale_rule, underflow=underflow)
    check(from_bits(rows.T, torch.bfloat16), fmt, scale_rule, underflow=underflow)


@pytest.mark.parametrize("scale_rule", RULES)
@pytest.mark.parametrize("fmt", FP8)
@pytest.mark.parametrize("dtype", FLOATS)
def test_equals_two_single_axis_calls(dtype: torch.dtype, fmt: str, scale_rule: str) -> None:
    for shape in ((130, 97), (1, 1), (33, 64), (2, 3, 65, 95)):
        x = spread(shape, dtype, 1)
        got = ops.mx_quant_dual(x, fmt, scale_rule)
        single = (*ops.mx_quant(x, -1, fmt, scale_rule), *ops.mx_quant(x, -2, fmt, scale_rule))
        assert_same_tensors(got, single)


@given(data=st.data())
def test_any_shape_and_dtype(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from(SIZES), min_size=2, max_size=2))
    shape = data.draw(st.lists(st.sampled_from([0, 1, 3]), max_size=2)) + shape
    dtype = data.draw(st.sampled_from(FLOATS))
    fmt, rule = data.draw(st.sampled_from(FP8)), data.draw(st.sampled_from(RULES))
    underflow = data.draw(st.sampled_from(UNDERFLOWS))
    check(spread(shape, dtype, data.draw(st.integers(0, 1000))), fmt, rule, underflow=underflow)


@pytest.mark.parametrize("dtype", FLOATS)
def test_any_stride(dtype: torch.dtype) -> None:
    base = spread((140, 97), dtype, 2)
    for view in (
        base.mT,
        base[:, ::2],
        base[::3],
        base[5:-3, 7:-9],
        base[:1].expand(70, -1),
        base[:, :1].expand(-1, 40),
    ):
        assert_same_tensors(ops.mx_quant_dual(view), ops.mx_quant_dual(view.contiguous()))
        check(view)


def test_a_nan_poisons_only_its_row_block_and_its_column_block() -> None:
    x = torch.ones(64, 64, dtype=torch.bfloat16)
    x[40, 10] = float("nan")
    _, scale_row, _, scale_col = ops.mx_quant_dual(x)
    row, col = scale_row.view(torch.uint8), scale_col.view(torch.uint8)
    assert (row == 0xFF).nonzero().tolist() == [[40, 0, 0]]
    assert (col == 0xFF).nonzero().tolist() == [[0, 10, 1]]


@pytest.mark.usefixtures("restore_threads")
def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    x = spread((3, 301, 260), torch.bfloat16, 3)
    torch.set_num_threads(1)
    want = ops.mx_quant_dual(x)
    for threads in (2, 3, 7):
        torch.set_num_threads(threads)
        assert_same_tensors(ops.mx_quant_dual(x), want)


def test_flush_to_zero_of_the_caller_changes_no_bit() -> None:
    x = from_bits(np.random.default_rng(0).integers(0, 0x0500, (96, 70)), torch.bfloat16)
    want = [ops.mx_quant_dual(x, fmt, rule) for fmt in FP8 for rule in RULES]
    try:
        assert torch.set_flush_denormal(True)
        got = [ops.mx_quant_dual(x, fmt, rule) for fmt in FP8 for rule in RULES]
    finally:
        torch.set_flush_denormal(False)
    for g, w in zip(got, want, strict=True):
        assert_same_tensors(g, w)
