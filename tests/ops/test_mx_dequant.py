"""mx_dequant: every code under every scale byte, and the way back from mx_quant along any axis."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from checks import FLOATS, SIZES, assert_bits, e8m0, from_bits, ops, random_codes, random_scales, spread
from hypothesis import given
from hypothesis import strategies as st
from reference import bits, mx

pytestmark = pytest.mark.usefixtures("backend")

FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
ML_DTYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def check(data: torch.Tensor, scale: torch.Tensor, axis: int, fmt: str, out_dtype: torch.dtype) -> None:
    got = ops.mx_dequant(data, scale, axis, fmt, out_dtype)
    assert got.dtype == out_dtype
    want = mx.mx_dequant(bits.storage_bits(data), bits.storage_bits(scale), axis, fmt, out_dtype)
    assert_bits(got, want)


@pytest.mark.parametrize("fmt", FP8)
def test_every_code_under_scale_one_is_what_ml_dtypes_says(fmt: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    got = ops.mx_dequant(from_bits(codes[:, None], FP8[fmt]), e8m0(np.full((256, 1, 2), 127)), -1, fmt, torch.float32)
    want = codes.view(ML_DTYPES[fmt]).astype(np.float32)
    finite = ~np.isnan(want)
    np.testing.assert_array_equal(got.numpy()[:, 0][finite].view(np.uint32), want[finite].view(np.uint32))
    assert torch.isnan(got[:, 0][torch.from_numpy(~finite)]).all()


@pytest.mark.parametrize("out_dtype", FLOATS)
@pytest.mark.parametrize("fmt", FP8)
def test_every_code_under_every_scale_byte(fmt: str, out_dtype: torch.dtype) -> None:
    """256 codes down, 256 bytes across, blocks along either axis: bytes 0, 254 and 255 (NaN) included."""
    codes = np.repeat(np.arange(256)[:, None], 256, axis=1)
    scale = np.zeros((4, 256, 2), dtype=np.int64) + np.arange(256)[None, :, None]
    check(from_bits(codes, FP8[fmt]), e8m0(scale), 0, fmt, out_dtype)
    check(from_bits(codes.T, FP8[fmt]), e8m0(np.swapaxes(scale, 0, 1)), 1, fmt, out_dtype)


@given(data=st.data())
def test_any_shape_and_axis(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3).filter(lambda s: np.prod(s) <= 40_000))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    fmt = data.draw(st.sampled_from(sorted(FP8)))
    scale_shape = list(shape)
    scale_shape[axis] = -(-shape[axis] // 64)
    codes = random_codes(shape, FP8[fmt], 1, finite=False)
    check(codes, random_scales([*scale_shape, 2], 2, 0, 255), axis, fmt, data.draw(st.sampled_from(FLOATS)))


def test_any_stride_of_data_and_scale() -> None:
    data, scale = ops.mx_quant(spread((2, 70, 96), torch.bfloat16, 3), -1)
    want = ops.mx_dequant(data, scale, -1, "e4m3", torch.float32)
    got = ops.mx_dequant(data.mT, scale.transpose(-3, -2), -2, "e4m3", torch.float32)
    assert_bits(got, bits.storage_bits(want.mT))
    got = ops.mx_dequant(data[:, ::2], scale[:, ::2], -1, "e4m3", torch.float32)
    assert_bits(got, bits.storage_bits(want[:, ::2]))


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("fmt", FP8)
def test_quantizing_a_dequantized_tensor_again_gives_the_same_values(fmt: str, axis: int) -> None:
    """Values that the format holds exactly survive (the scale may move, when the largest code was small)."""
    x = spread((96, 130), torch.float32, 4, specials=False)
    first = ops.mx_dequant(*ops.mx_quant(x, axis, fmt, "floor"), axis, fmt, torch.float32)
    again = ops.mx_dequant(*ops.mx_quant(first, axis, fmt, "floor"), axis, fmt, torch.float32)
    assert_bits(again, bits.storage_bits(first))


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize(("fmt", "relative"), [("e4m3", 2.0**-4), ("e5m2", 2.0**-3)])
def test_error_under_rceil_is_half_a_unit_in_the_last_place(fmt: str, relative: float, axis: int) -> None:
    x = spread((64, 64), torch.bfloat16, 5, specials=False)
    data, scale = ops.mx_quant(x, axis, fmt, "rceil")
    error = (ops.mx_dequant(data, scale, axis, fmt, torch.float32).double() - x.double()).abs()
    unit = mx.scale_of_elements(bits.storage_bits(scale), axis % 2, 64).astype(np.float64)
    smallest = {"e4m3": 2.0**-10, "e5m2": 2.0**-17}[fmt]
    bound = torch.maximum(x.double().abs() * relative, torch.from_numpy(smallest * np.exp2(unit - 127)))
    assert (error <= bound).all()
