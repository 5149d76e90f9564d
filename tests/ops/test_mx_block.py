"""mx_quant_block: one e8m0 byte per 32x32 tile, in the scale layouts of both axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checks import FLOATS, SIZES, assert_bits, assert_same_tensors, below, from_bits, maxima, ops, spread
from hypothesis import given
from hypothesis import strategies as st
from reference import bits, mx

pytestmark = pytest.mark.usefixtures("backend")

RULES = [("e4m3", "floor", 0.0), ("e5m2", "floor", 0.0), ("e1m2", "floor", 0.0), ("e2m1", "floor", 0.0),
         ("e2m1", "dtype_range", 0.0), ("e2m1", "dtype_range", 6.0), ("e2m1", "dtype_range", 7.0)]  # fmt: skip
UNDERFLOWS = ("ocp", "flush_emax", "flush_subnormal")
EVEN = tuple(s for s in SIZES if s % 2 == 0)


def check(x: torch.Tensor, fmt: str = "e4m3", scale_rule: str = "floor", **options: Any) -> None:
    got = ops.mx_quant_block(x, fmt, scale_rule, **options)
    want = mx.mx_quant_block(x, fmt, scale_rule, **options)
    for name, g, w in zip(("data", "scale_row", "scale_col"), got, want, strict=True):
        assert_bits(g, w, name)
    assert got[1].dtype == got[2].dtype == torch.float8_e8m0fnu


@pytest.mark.parametrize("underflow", UNDERFLOWS)
@pytest.mark.parametrize(("fmt", "rule", "dst_max"), RULES)
def test_every_bf16_as_tile_maximum(fmt: str, rule: str, dst_max: float, underflow: str) -> None:
    """65,536 tiles of 32 x 4 elements (columns beyond are absent), as a batch of matrices."""
    rows = below(maxima(65536), np.random.default_rng(1), 16, 8)
    x = rows.reshape(len(rows), 2, 4)
    check(from_bits(x, torch.bfloat16), fmt, rule, dst_max=dst_max, underflow=underflow)


@given(data=st.data())
def test_any_shape_and_dtype(data: st.DataObject) -> None:
    fmt, rule, dst_max = data.draw(st.sampled_from(RULES))
    last = st.sampled_from(EVEN if fmt in ("e2m1", "e1m2") else SIZES)
    shape = [
        *data.draw(st.lists(st.sampled_from([0, 1, 3]), max_size=1)),
        data.draw(st.sampled_from(SIZES)),
        data.draw(last),
    ]
    x = spread(shape, data.draw(st.sampled_from(FLOATS)), data.draw(st.integers(0, 1000)))
    check(x, fmt, rule, dst_max=dst_max, underflow=data.draw(st.sampled_from(UNDERFLOWS)))


def test_every_element_of_a_tile_may_hold_the_maximum() -> None:
    for row, column in ((0, 0), (31, 31), (31, 0), (0, 31), (17, 5), (32, 40), (63, 63)):
        x = torch.full((64, 64), 2.0**-10)
        x[row, column] = 3.0e4
        _, scale_row, scale_col = (t.view(torch.uint8) for t in ops.mx_quant_block(x, "e4m3", "floor"))
        tile = (row // 32, column // 32)
        assert (scale_row[row, 0, tile[1]], scale_col[0, column, tile[0]]) == (133, 133)
        assert int((scale_row == 133).sum()) == int((scale_col == 133).sum()) == 32


def test_a_nan_poisons_its_tile_only() -> None:
    x = torch.ones(64, 96, dtype=torch.bfloat16)
    x[40, 70] = float("nan")
    data, scale_row, scale_col = (t.view(torch.uint8) for t in ops.mx_quant_block(x, "e4m3", "floor"))
    assert (data[32:, 64:] == 0).all()
    assert (data[:32] != 0).all()
    assert (data[:, :64] != 0).all()
    assert (scale_row == 0xFF).nonzero().tolist() == [[row, 1, 0] for row in range(32, 64)]
    assert (scale_col == 0xFF).nonzero().tolist() == [[0, column, 1] for column in range(64, 96)]


def test_one_tile_serves_both_matmul_directions() -> None:
    """The same codes dequantize to the same values along either axis."""
    x = spread((70, 130), torch.bfloat16, 2, specials=False)
    data, scale_row, scale_col = ops.mx_quant_block(x, "e4m3", "floor")
    by_row = ops.mx_dequant(data, scale_row, -1, "e4m3", torch.float32)
    by_column = ops.mx_dequant(data, scale_col, -2, "e4m3", torch.float32)
    assert_bits(by_row, bits.storage_bits(by_column))


def test_any_stride() -> None:
    base = spread((131, 98), torch.bfloat16, 3)
    for view in (base.mT, base[:, ::7], base[::3], base[5:-3, 7:-9], base[:1].expand(70, -1)):
        assert_same_tensors(
            ops.mx_quant_block(view, "e4m3", "floor"), ops.mx_quant_block(view.contiguous(), "e4m3", "floor")
        )
        check(view)


@pytest.mark.usefixtures("restore_threads")
def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    x = spread((3, 301, 260), torch.bfloat16, 4)
    torch.set_num_threads(1)
    want = ops.mx_quant_block(x, "e5m2", "floor")
    for threads in (2, 3, 7):
        torch.set_num_threads(threads)
        assert_same_tensors(ops.mx_quant_block(x, "e5m2", "floor"), want)


def fails(call: Any, *parts: str) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        call()
    for part in ("mx_quant_block", *parts):
        assert part in str(caught.value)


def test_what_the_reference_does_not_have_is_an_error() -> None:
    x = torch.ones(64, 64)
    fails(lambda: ops.mx_quant_block(x, "e4m3", "rceil"), "rceil", "floor")
    fails(lambda: ops.mx_quant_block(x, "e1m2", "dtype_range"), "dtype_range", "e1m2")
    fails(lambda: ops.mx_quant_block(x, "e2m1", "dtype_range", dst_max=9.0), "dst_max", "9", "6", "7")
    fails(lambda: ops.mx_quant_block(x[0], "e4m3", "floor"), "[64]")
    fails(lambda: ops.mx_quant_block(x.double(), "e4m3", "floor"), "float64", "bfloat16")
    fails(lambda: ops.mx_quant_block(x[:, :33], "e2m1", "floor"), "33", "even")
