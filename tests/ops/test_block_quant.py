"""block_quant and block_quant_matmul: FP8 with fp32 scales per rectangular block (1x128 and 128x128)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checks import FLOATS, SIZES, assert_bits, assert_same_tensors, below, from_bits, ops, random_codes, spread
from hypothesis import given
from hypothesis import strategies as st
from reference import bits, fp32_scaled, hif8, matmul
from reference.minifloat import FORMATS

pytestmark = pytest.mark.usefixtures("backend")

FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
FMTS = ("e4m3", "e5m2", "hif8")
BLOCKS = [(1, 128), (128, 128), (64, 64), (1, 64), (256, 192)]


def check(x: torch.Tensor, row: int, col: int, fmt: str, **options: Any) -> None:
    data, scale = ops.block_quant(x, row, col, fmt, **options)
    want_data, want_scale = fp32_scaled.block_quant(x, row, col, fmt, **options)
    assert (data.dtype, scale.dtype) == (FP8.get(fmt, torch.uint8), torch.float32)
    assert_bits(scale, want_scale, "scale")
    assert_bits(data, want_data)


def finite(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    x = spread(shape, dtype, seed)
    return torch.where(torch.isfinite(x), x, torch.ones_like(x))


@pytest.mark.parametrize("fmt", FMTS)
def test_every_finite_bf16_as_block_maximum(fmt: str) -> None:
    pattern = np.arange(65536)
    pattern = pattern[(pattern & 0x7F80) != 0x7F80]
    check(from_bits(below(pattern, np.random.default_rng(1), 16, 16), torch.bfloat16), 1, 128, fmt)


@given(data=st.data())
def test_any_shape_block_and_dtype(data: st.DataObject) -> None:
    sizes = st.sampled_from([*SIZES, 127, 128, 129, 257])
    shape = (*data.draw(st.lists(st.sampled_from([1, 2]), max_size=1)), data.draw(sizes), data.draw(sizes))
    row, col = data.draw(st.sampled_from(BLOCKS))
    x = finite(shape, data.draw(st.sampled_from(FLOATS)), data.draw(st.integers(0, 100)))
    check(x, row, col, data.draw(st.sampled_from(FMTS)))


@pytest.mark.parametrize("fmt", FMTS)
def test_zero_blocks_have_scale_zero_and_codes_zero(fmt: str) -> None:
    x = torch.zeros(130, 260)
    x[128:] = 1.0
    data, scale = ops.block_quant(x, 128, 128, fmt)
    assert scale[0].tolist() == [0.0, 0.0, 0.0]
    assert (data.view(torch.uint8)[:128] == 0).all()
    assert (scale[1] > 0).all()


def test_min_scale_limits_the_scale() -> None:
    """The scale is at most 1 / min_scale, as the device has it."""
    for min_scale in (0.5, 1.0, 1e3, 1e6):
        check(finite((40, 200), torch.bfloat16, 3), 1, 128, "e4m3", min_scale=min_scale)


def test_overflow_saturates_with_a_fixed_and_with_a_dynamic_scale() -> None:
    """Field report BC-035: one policy. min_scale 1 keeps the scale at 1 or below, so that 1e9 lies out of range."""
    x = torch.tensor([[1e9, -1e9]])
    for fmt, codes in (("e4m3", [0x7E, 0xFE]), ("e5m2", [0x7B, 0xFB]), ("hif8", [0x6E, 0xEE])):
        for min_scale in (0.0, 1.0):
            data, scale = ops.block_quant(x, 1, 128, fmt, min_scale=min_scale)
            assert data.view(torch.uint8).tolist() == [codes]
            assert (float(scale) == 1.0) == (min_scale == 1.0)
            check(x, 1, 128, fmt, min_scale=min_scale)


@pytest.mark.parametrize("dst_max", [0.0, 15.0, 56.0, 224.0, 32768.0])
def test_hif8_takes_the_maxima_of_the_reference(dst_max: float) -> None:
    check(finite((70, 300), torch.bfloat16, 4), 1, 128, "hif8", dst_max=dst_max)


def test_any_stride_and_number_of_threads(restore_threads: None) -> None:
    base = finite((300, 290), torch.bfloat16, 5)
    torch.set_num_threads(1)
    for view in (base.mT, base[:, ::2], base[::3], base[5:-3, 7:-9], base[:1].expand(140, -1)):
        want = ops.block_quant(view.contiguous(), 128, 128, "e4m3")
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            assert_same_tensors(ops.block_quant(view, 128, 128, "e4m3"), want)


def values(data: torch.Tensor, fmt: str) -> np.ndarray:
    codes = bits.storage_bits(data)
    return hif8.decode(codes) if fmt == "hif8" else FORMATS[fmt].decode(codes)


@pytest.mark.parametrize("rows", [1, 128])
@pytest.mark.parametrize(("m", "k", "n"), [(5, 128, 7), (130, 300, 140), (1, 1, 1), (3, 700, 256), (4, 0, 5), (0, 64, 9)])
@pytest.mark.parametrize("out_dtype", FLOATS)
def test_matmul_adds_one_scaled_partial_sum_per_128(m: int, k: int, n: int, rows: int, out_dtype: torch.dtype) -> None:
    rng = np.random.default_rng(m + k + n)
    x1, x2 = random_codes((m, k), torch.float8_e4m3fn, 1), random_codes((k, n), torch.float8_e4m3fn, 2)
    s1 = torch.from_numpy(np.exp2(rng.normal(size=(-(-m // rows), -(-k // 128)))).astype(np.float32))
    s2 = torch.from_numpy(np.exp2(rng.normal(size=(-(-k // 128), -(-n // 128)))).astype(np.float32))
    got = ops.block_quant_matmul(x1, x2, s1, s2, out_dtype=out_dtype)
    want = matmul.block_scaled_matmul(values(x1, "e4m3"), values(x2, "e4m3"), bits.values(s1), bits.values(s2), out_dtype)
    assert_bits(got, want)


def test_matmul_of_quantized_operands_is_near_the_product() -> None:
    """DeepSeek-V3's recipe: activations 1x128, weights 128x128. Each operand errs by at most 2^-4 of its element."""
    a, b = torch.randn(33, 400), torch.randn(400, 150)
    x1, s1 = ops.block_quant(a, 1, 128, "e4m3")
    x2, s2 = ops.block_quant(b, 128, 128, "e4m3")
    got = ops.block_quant_matmul(x1, x2, s1, s2, out_dtype=torch.float32).double()
    bound = (2 * 2.0**-4 + 2.0**-8) * (a.abs().double() @ b.abs().double()) + 1e-2
    assert ((got - a.double() @ b.double()).abs() <= bound).all()


def fails(call: Any, *parts: str) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


def test_bad_arguments() -> None:
    x = torch.ones(130, 260)
    fails(lambda: ops.block_quant(x, 3, 128, "e4m3"), "block_quant", "3", "128")
    fails(lambda: ops.block_quant(x, 1, 100, "e4m3"), "block_quant", "100", "128")
    fails(lambda: ops.block_quant(x, 1, 128, "e2m1"), "block_quant", "e2m1", "e4m3")
    fails(lambda: ops.block_quant(x, 1, 128, "e4m3", dst_max=15.0), "dst_max", "hif8")
    fails(lambda: ops.block_quant(x, 1, 128, "hif8", dst_max=16.0), "dst_max", "16", "224")
    fails(lambda: ops.block_quant(x, 1, 128, "e4m3", min_scale=-1.0), "min_scale", "-1")
    fails(lambda: ops.block_quant(x[0], 1, 128, "e4m3"), "block_quant", "[260]")
    x1, s1 = ops.block_quant(x, 1, 128, "e4m3")
    x2, s2 = ops.block_quant(x.t(), 128, 128, "e4m3")
    fails(lambda: ops.block_quant_matmul(x1, x2, s1[:, :2], s2), "block_quant_matmul", "x1_scale", "[130, 2]")
    fails(lambda: ops.block_quant_matmul(x1, x2, s1, s2.t()[:1]), "block_quant_matmul", "x2_scale")
    fails(lambda: ops.block_quant_matmul(x1, x2[:100], s1, s2), "260", "100")
    fails(lambda: ops.block_quant_matmul(x1, x2, s1.double(), s2), "float64", "float32")
