"""mx_to_block: MXFP4 with one scale per 32 elements of a row to FP8 with one scale per 32x32 tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checks import assert_bits, e8m0, ops, spread
from hypothesis import given
from hypothesis import strategies as st
from reference import minifloat, mx

pytestmark = pytest.mark.usefixtures("backend")

PAIRS = [("e2m1", "e4m3"), ("e2m1", "e5m2"), ("e1m2", "e4m3"), ("e1m2", "e5m2")]
OFFSET = {("e2m1", "e4m3"): 6, ("e2m1", "e5m2"): 13, ("e1m2", "e4m3"): 8, ("e1m2", "e5m2"): 15}


def check(data: np.ndarray, scale: np.ndarray, fmt_from: str, fmt_to: str) -> int:
    got = ops.mx_to_block(torch.from_numpy(data), e8m0(scale), fmt_from, fmt_to, nan_as_number=True)
    want = mx.mx_to_block(data, scale.astype(np.uint8), fmt_from, fmt_to)
    for name, g, w in zip(("data", "scale_row", "scale_col"), got[:3], want[:3], strict=True):
        assert_bits(g, w, name)
    count = int(got[3])
    assert count == want[3]
    return count


def every_code(rows: int) -> np.ndarray:
    """Rows of 32 elements: each of the 16 codes twice."""
    return np.tile(np.array([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE], dtype=np.uint8), (rows, 2))


@pytest.mark.parametrize(("fmt_from", "fmt_to"), PAIRS)
def test_every_code_under_every_pair_of_scale_bytes(fmt_from: str, fmt_to: str) -> None:
    """A batch of tiles: the first row has byte a, the others byte b, for pairs over the whole range (255 as a number)."""
    choices = np.unique(np.concatenate([np.arange(0, 20), np.arange(0, 255, 8), np.arange(110, 130), [253, 254, 255]]))
    first, rest = (a.reshape(-1) for a in np.meshgrid(choices, choices))
    scale = np.zeros((len(first), 3, 1, 2), dtype=np.int64)
    scale[:, 0, 0, 0] = first
    scale[:, 1:, 0, 0] = rest[:, None]
    check(np.tile(every_code(3), (len(first), 1, 1)), scale, fmt_from, fmt_to)


def test_a_nan_scale_makes_its_tile_nan_unless_asked_to_be_read_as_a_number() -> None:
    """Field report BC-024: NaN stays NaN. The device's kernel loses it (golden case m2b-nan-scale)."""
    scale = np.full((64, 2, 2), 127)
    scale[5, 0, 1] = 255
    data = torch.from_numpy(np.tile(every_code(64), (1, 4)))
    converted, scale_row, scale_col, _ = ops.mx_to_block(data, e8m0(scale), "e2m1", "e4m3")
    assert (scale_row.view(torch.uint8) == 255).nonzero().tolist() == [[row, 0, 1] for row in range(32)]
    assert (scale_col.view(torch.uint8) == 255).nonzero().tolist() == [[0, column, 0] for column in range(32, 64)]
    values = ops.mx_dequant(converted, scale_row, -1, "e4m3", torch.float32)
    assert torch.isnan(values[:32, 32:64]).all()
    assert int(torch.isnan(values).sum()) == 1024


def zero_free_bound(fmt_from: str, fmt_to: str) -> int:
    """Largest spread of row bytes that keeps every code exact: the smallest step of one, times 2^-spread, in the other."""
    smallest_from = minifloat.FORMATS[fmt_from].decode(np.array([1]))[0]
    smallest_to = minifloat.FORMATS[fmt_to].decode(np.array([1]))[0]
    return int(OFFSET[fmt_from, fmt_to] + np.log2(smallest_from / smallest_to))


@pytest.mark.parametrize(("fmt_from", "fmt_to"), PAIRS)
def test_a_small_spread_is_exact_and_a_larger_one_is_counted(fmt_from: str, fmt_to: str) -> None:
    """Field report BC-024."""
    bound = zero_free_bound(fmt_from, fmt_to)
    for spread_ in (0, 1, bound - 3, bound, bound + 1, bound + 2, 20, 27):
        scale = np.full((32, 1, 2), 127)
        scale[7, 0, 0] = 127 - spread_
        scale[:, 0, 1] = 0
        inexact = check(every_code(32), scale, fmt_from, fmt_to)
        assert (inexact == 0) == (spread_ <= bound)


@pytest.mark.parametrize(("fmt_from", "fmt_to"), PAIRS)
def test_converted_values_equal_the_originals_when_nothing_is_counted(fmt_from: str, fmt_to: str) -> None:
    x = torch.randn(70, 96, generator=torch.Generator().manual_seed(0))
    data, scale = ops.mx_quant(x, -1, fmt_from, "floor")
    converted, scale_row, scale_col, inexact = ops.mx_to_block(data, scale, fmt_from, fmt_to)
    assert int(inexact) == 0
    want = ops.mx_dequant(data, scale, -1, fmt_from, torch.float32)
    assert torch.equal(ops.mx_dequant(converted, scale_row, -1, fmt_to, torch.float32), want)
    assert torch.equal(ops.mx_dequant(converted, scale_col, -2, fmt_to, torch.float32), want)


@given(
    rows=st.sampled_from([1, 31, 32, 33, 65, 96]), columns=st.sampled_from([2, 30, 32, 34, 64, 66, 130]),
    batch=st.sampled_from([(), (1,), (3,)]), pair=st.sampled_from(PAIRS), seed=st.integers(0, 1000),
)  # fmt: skip
def test_any_shape(rows: int, columns: int, batch: tuple[int, ...], pair: tuple[str, str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (*batch, rows, columns // 2), dtype=np.uint8)
    scale = rng.integers(100, 130, (*batch, rows, -(-columns // 64), 2))
    check(data, scale, *pair)


def test_any_stride() -> None:
    data, scale = ops.mx_quant(spread((140, 98), torch.bfloat16, 1, specials=False), -1, "e2m1", "floor")
    want = ops.mx_to_block(data[::2].contiguous(), scale[::2].contiguous(), "e2m1", "e4m3")
    got = ops.mx_to_block(data[::2], scale[::2], "e2m1", "e4m3")
    assert all(torch.equal(g.view(torch.uint8), w.view(torch.uint8)) for g, w in zip(got[:3], want[:3], strict=True))
    assert int(got[3]) == int(want[3])


def fails(call: Any, *parts: str) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        call()
    for part in ("mx_to_block", *parts):
        assert part in str(caught.value)


def test_bad_arguments() -> None:
    data, scale = ops.mx_quant(torch.ones(64, 64), -1, "e2m1", "floor")
    fails(lambda: ops.mx_to_block(data, scale, "e4m3", "e5m2"), "e4m3", "e2m1")
    fails(lambda: ops.mx_to_block(data, scale, "e2m1", "e2m1"), "e2m1", "e4m3")
    fails(lambda: ops.mx_to_block(data.float(), scale, "e2m1", "e4m3"), "float32", "uint8")
    fails(lambda: ops.mx_to_block(data, scale[:32], "e2m1", "e4m3"), "[32, 1, 2]", "[64, 1, 2]")
    fails(lambda: ops.mx_to_block(data, scale.view(torch.uint8), "e2m1", "e4m3"), "float8_e8m0fnu")
    fails(lambda: ops.mx_to_block(data[0], scale[0], "e2m1", "e4m3"), "[32]")
