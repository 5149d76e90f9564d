"""FP4 (e2m1, e1m2) in every MX op: packing, three roundings, dtype_range, products of packed operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checks import (
    FLOATS,
    SIZES,
    all_values,
    assert_bits,
    assert_grouped_product,
    assert_product,
    assert_same_tensors,
    below,
    e8m0,
    from_bits,
    maxima,
    ops,
    random_scales,
    spread,
)
from hypothesis import given
from hypothesis import strategies as st
from reference import bits, matmul, minifloat, mx

pytestmark = pytest.mark.usefixtures("backend")

FP4 = ("e2m1", "e1m2")
RULES = [("e2m1", "floor", 0.0), ("e2m1", "dtype_range", 0.0), ("e2m1", "dtype_range", 7.0), ("e1m2", "floor", 0.0)]
DST_MAX = (0.0, 6.0, 6.5, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0)
ROUNDINGS = ("rint", "round", "floor")
UNDERFLOWS = ("ocp", "flush_emax", "flush_subnormal")
EVEN = tuple(s for s in SIZES if s % 2 == 0)


def check(x: torch.Tensor, axis: int = -1, fmt: str = "e2m1", scale_rule: str = "floor", **options: Any) -> None:
    data, scale = ops.mx_quant(x, axis, fmt, scale_rule, **options)
    want_data, want_scale = mx.mx_quant(x, axis, fmt, scale_rule, **options)
    assert data.dtype == torch.uint8
    assert_bits(scale, want_scale, "scale")
    assert_bits(data, want_data)


@pytest.mark.parametrize("fmt", FP4)
def test_all_16_codes_decode_low_nibble_first(fmt: str) -> None:
    every_byte = np.arange(256, dtype=np.uint8)[:, None]
    got = ops.mx_dequant(torch.from_numpy(every_byte), e8m0(np.full((256, 1, 2), 127)), -1, fmt, torch.float32)
    want = minifloat.FORMATS[fmt].decode(np.concatenate([every_byte & 0xF, every_byte >> 4], axis=1))
    assert_bits(got, bits.round_to_dtype_bits(want, torch.float32))


def test_byte_0x21_is_a_half_then_one() -> None:
    """Field report BC-094."""
    data = torch.tensor([[0x21]], dtype=torch.uint8)
    assert ops.mx_dequant(data, e8m0(np.array([[[127, 0]]])), -1, "e2m1", torch.float32).tolist() == [[0.5, 1.0]]


@pytest.mark.parametrize("out_dtype", FLOATS)
@pytest.mark.parametrize("fmt", FP4)
def test_every_code_under_every_scale_byte(fmt: str, out_dtype: torch.dtype) -> None:
    data = np.arange(256, dtype=np.uint8)[None].repeat(256, axis=0).reshape(256, 16, 16).transpose(1, 0, 2).reshape(-1, 16)
    scale = np.zeros((len(data), 1, 2), dtype=np.int64)
    scale[:, 0, 0] = np.tile(np.arange(256), 16)
    got = ops.mx_dequant(torch.from_numpy(data.copy()), e8m0(scale), -1, fmt, out_dtype)
    assert_bits(got, mx.mx_dequant(data, scale, -1, fmt, out_dtype))


@pytest.mark.parametrize("underflow", UNDERFLOWS)
@pytest.mark.parametrize(("fmt", "rule", "dst_max"), RULES)
def test_every_bf16_as_block_maximum(fmt: str, rule: str, dst_max: float, underflow: str) -> None:
    x = from_bits(below(np.arange(65536), np.random.default_rng(1), 16, 16), torch.bfloat16)
    check(x, -1, fmt, rule, dst_max=dst_max, underflow=underflow)


@pytest.mark.parametrize("dst_max", DST_MAX)
def test_dtype_range_of_every_bf16_and_fp16_maximum(dst_max: float) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        x = from_bits(below(maxima(65536), np.random.default_rng(2), 16, 8), dtype)
        check(x, -1, "e2m1", "dtype_range", dst_max=dst_max)
        check(from_bits(bits.storage_bits(x).T, dtype), -2, "e2m1", "dtype_range", dst_max=dst_max)


@pytest.mark.parametrize("dst_max", [0.0, 7.0, 9.0])
@pytest.mark.parametrize("axis", [-1, -2])
def test_dtype_range_of_fp32_truncates_the_maximum_on_the_last_axis_and_rounds_it_on_others(
    axis: int, dst_max: float
) -> None:
    rng = np.random.default_rng(3)
    mantissas = np.array([0x3FFFFF, 0x407FFF, 0x408000, 0x408001, 0x40FFFF, 0x607FFF, 0x608000, 0x610000, 0x7FFFFF, 0])
    pattern = (np.arange(256)[:, None] << 23 | mantissas).reshape(-1)
    rows = below(pattern, rng, 32, 8)
    check(from_bits(rows if axis == -1 else rows.T, torch.float32), axis, "e2m1", "dtype_range", dst_max=dst_max)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("fmt", "top"), [("e2m1", 4.0), ("e1m2", 1.0)])
def test_every_value_rounds_as_asked_under_scale_one(fmt: str, top: float, rounding: str, dtype: torch.dtype) -> None:
    """A block maximum in [top, 2 top) has the floor byte 127."""
    every = all_values(torch.bfloat16 if dtype == torch.float32 else dtype)
    fit = every[every.float().abs() < 2 * top].to(dtype)
    if dtype == torch.float32:
        # bf16 values and their neighbours in fp32, one ulp either way: ties and what lies beside them.
        pattern = fit.view(torch.int32)
        near = torch.cat([pattern, pattern + 1, (pattern & 0x7FFFFFFF).clamp(min=1) - 1]).view(torch.float32)
        fit = near[near.abs() < 2 * top]
    elements = torch.nn.functional.pad(fit, (0, -len(fit) % 31)).view(-1, 31)
    x = torch.cat([torch.full((len(elements), 1), top, dtype=dtype), elements], dim=1)
    _, scale = ops.mx_quant(x, -1, fmt, "floor", rounding=rounding)
    assert (scale.view(torch.uint8)[..., 0] == 127).all()
    check(x, -1, fmt, "floor", rounding=rounding)


def test_values_just_above_a_midpoint_of_the_subnormal_range_round_up() -> None:
    """Field report BC-008."""
    above = float(np.nextafter(np.float32(0.25), np.float32(1)))
    values = [4.0, 0.25, above, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
    want = [4.0, 0.0, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    x = torch.tensor([values + [-v for v in values]])
    data, scale = ops.mx_quant(x, -1, "e2m1", "floor")
    got = ops.mx_dequant(data, scale, -1, "e2m1", torch.float32)
    assert got.tolist() == [want + [-w for w in want]]
    assert torch.signbit(got[0, 9:]).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("fmt", FP4)
def test_floor_of_products_that_underflow_in_the_multiplication(fmt: str, dtype: torch.dtype) -> None:
    """bf16 is multiplied in bf16: -2^-134 and below become -0, which floors to -0, and not to the first step down."""
    exponents = np.arange(-149, -100)
    tiny = np.concatenate([-np.exp2(exponents.astype(float)), -1.5 * np.exp2(exponents.astype(float))])
    for top in (2.0**1, 2.0**10, 2.0**20, 2.0**100, 1.5 * 2.0**103):
        if dtype == torch.float16 and top > 2.0**15:
            continue
        elements = np.concatenate([np.full(1, top), tiny, np.zeros(1)])
        elements = np.concatenate([elements, np.zeros(-len(elements) % 31)])[1:]
        elements = np.concatenate([elements, np.zeros(-len(elements) % 31)]).reshape(-1, 31)
        rows = np.concatenate([np.full((len(elements), 1), top), elements], axis=1)
        x = from_bits(bits.round_to_dtype_bits(rows, dtype), dtype)
        check(x, -1, fmt, "floor", rounding="floor")
        check(x, -1, fmt, "floor", rounding="rint")


@given(data=st.data())
def test_any_shape_axis_and_dtype(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from([0, 1, 3, 31, 33, 64, 65]), max_size=3).filter(lambda s: np.prod(s) < 5000))
    shape = [*shape, data.draw(st.sampled_from(EVEN))]
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    fmt, rule, dst_max = data.draw(st.sampled_from(RULES))
    x = spread(shape, data.draw(st.sampled_from(FLOATS)), data.draw(st.integers(0, 1000)))
    options: dict[str, Any] = {
        "rounding": data.draw(st.sampled_from(ROUNDINGS)),
        "underflow": data.draw(st.sampled_from(UNDERFLOWS)),
    }
    check(x, axis, fmt, rule, dst_max=dst_max, **options)


@given(data=st.data())
def test_dual_any_shape(data: st.DataObject) -> None:
    shape = [*data.draw(st.lists(st.sampled_from([1, 2]), max_size=1)), data.draw(st.sampled_from(SIZES))]
    shape.append(data.draw(st.sampled_from(EVEN)))
    fmt, rule, dst_max = data.draw(st.sampled_from(RULES))
    options: dict[str, Any] = {
        "rounding": data.draw(st.sampled_from(ROUNDINGS)),
        "underflow": data.draw(st.sampled_from(UNDERFLOWS)),
    }
    x = spread(shape, data.draw(st.sampled_from(FLOATS)), data.draw(st.integers(0, 1000)))
    got = ops.mx_quant_dual(x, fmt, rule, dst_max=dst_max, **options)
    want = mx.mx_quant_dual(x, fmt, rule, dst_max=dst_max, **options)
    for name, g, w in zip(("data_row", "scale_row", "data_col", "scale_col"), got, want, strict=True):
        assert_bits(g, w, name)


GROUPED = [*RULES, ("e2m1", "dtype_range", 9.5), ("e1m2", "dtype_range", 0.0), ("e1m2", "dtype_range", 1.875),
           ("e1m2", "dtype_range", 3.0)]  # fmt: skip


@pytest.mark.parametrize(("fmt", "rule", "dst_max"), GROUPED)
@pytest.mark.parametrize("underflow", UNDERFLOWS)
def test_grouped(fmt: str, rule: str, dst_max: float, underflow: str) -> None:
    """e1m2 takes dtype_range here, and only here (dst_max 0 is 1.75)."""
    x = from_bits(np.random.default_rng(4).integers(0, 65536, (150, 2000)), torch.bfloat16)
    x = torch.where(torch.isfinite(x), x, torch.zeros_like(x))
    offs = [20, 20, 74, 150]
    got = ops.mx_quant_grouped(x, torch.tensor(offs), fmt, rule, dst_max=dst_max, underflow=underflow)
    want = mx.mx_quant_grouped(x, offs, fmt, rule, dst_max=dst_max, underflow=underflow)
    assert_bits(got[1], want[1], "scale")
    assert_bits(got[0], want[0])


@pytest.mark.parametrize("axis", [-1, -2])
def test_any_stride(axis: int) -> None:
    base = spread((131, 98), torch.bfloat16, 5)
    for view in (base[:130].mT, base[:, ::7], base[::3], base[5:-3, 7:-9], base[:1].expand(70, -1)):
        assert_same_tensors(
            ops.mx_quant(view, axis, "e2m1", "floor"), ops.mx_quant(view.contiguous(), axis, "e2m1", "floor")
        )
        check(view, axis)


@given(data=st.data())
def test_dequant_any_shape_and_axis(data: st.DataObject) -> None:
    shape = [data.draw(st.sampled_from([1, 2, 33, 64])), data.draw(st.sampled_from(SIZES)), data.draw(st.sampled_from(EVEN))]
    axis = data.draw(st.integers(-3, 2))
    scale_shape = [-(-s // 64) if i == axis % 3 else s for i, s in enumerate(shape)]
    codes = np.random.default_rng(6).integers(0, 256, (*shape[:-1], shape[-1] // 2), dtype=np.uint8)
    scale = random_scales([*scale_shape, 2], 7, 0, 255)
    fmt, out_dtype = data.draw(st.sampled_from(FP4)), data.draw(st.sampled_from(FLOATS))
    got = ops.mx_dequant(torch.from_numpy(codes), scale, axis, fmt, out_dtype)
    assert_bits(got, mx.mx_dequant(codes, bits.storage_bits(scale), axis, fmt, out_dtype))


def packed(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def values(data: torch.Tensor, scale: torch.Tensor, axis: int, fmt: str) -> np.ndarray:
    return mx.dequantize_values(bits.storage_bits(data), bits.storage_bits(scale), axis, fmt)


@pytest.mark.parametrize(("m", "k", "n"), [(5, 64, 6), (33, 4, 2), (1, 96, 64), (64, 300, 34), (3, 1000, 8)])
@pytest.mark.parametrize("fmts", [("e2m1", "e2m1"), ("e1m2", "e1m2"), ("e2m1", "e1m2")])
def test_matmul_follows_the_defined_order_to_the_bit(m: int, k: int, n: int, fmts: tuple[str, str]) -> None:
    x1, x2 = packed((m, k // 2), 1), packed((k, n // 2), 2)
    s1, s2 = random_scales((m, -(-k // 64), 2), 3), random_scales((-(-k // 64), n, 2), 4)
    want = values(x1, s1, -1, fmts[0]), values(x2, s2, -2, fmts[1])
    for out_dtype in FLOATS:
        got = ops.mx_quant_matmul(x1, x2, s1, s2, out_dtype=out_dtype, x1_fmt=fmts[0], x2_fmt=fmts[1])
        assert_product(got, matmul.matmul(*want, None, out_dtype), *want)


def test_matmul_of_quantized_operands() -> None:
    x, w = spread((30, 130), torch.bfloat16, 1, specials=False), spread((130, 18), torch.bfloat16, 2, specials=False)
    x1, s1 = ops.mx_quant(x, -1, "e2m1", "dtype_range")
    x2, s2 = ops.mx_quant(w, -2, "e2m1", "dtype_range")
    got = ops.mx_quant_matmul(x1, x2, s1, s2, x1_fmt="e2m1", x2_fmt="e2m1")
    a, b = values(x1, s1, -1, "e2m1"), values(x2, s2, -2, "e2m1")
    assert_product(got, matmul.matmul(a, b), a, b)


def test_grouped_matmul_split_m() -> None:
    offs = [10, 10, 40]
    x1, x2 = packed((50, 35), 1), packed((3, 70, 8), 2)
    s1, s2 = random_scales((50, 2, 2), 3), random_scales((3, 2, 16, 2), 4)
    got = ops.mx_grouped_matmul(x1, x2, s1, s2, torch.tensor(offs), "m", x1_fmt="e2m1", x2_fmt="e2m1")
    a, b = values(x1, s1, -1, "e2m1"), values(x2, s2, -2, "e2m1")
    assert_grouped_product(got, matmul.grouped_matmul_m(a, b, offs, torch.bfloat16), a, b, offs)


def fails(call: Any, *parts: str) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


def test_an_odd_last_dimension_cannot_be_packed() -> None:
    x = torch.ones(64, 33)
    fails(lambda: ops.mx_quant(x, -1, "e2m1", "floor"), "mx_quant", "33", "even")
    fails(lambda: ops.mx_quant(x, 0, "e2m1", "floor"), "mx_quant", "33", "even")
    fails(lambda: ops.mx_quant_dual(x, "e2m1", "floor"), "mx_quant_dual", "33", "even")
    fails(lambda: ops.mx_quant_grouped(x, torch.tensor([64]), "e2m1", "floor"), "mx_quant_grouped", "33", "even")


def test_combinations_that_the_reference_does_not_have_are_errors() -> None:
    x = torch.ones(64, 64)
    fails(lambda: ops.mx_quant(x, -1, "e2m1", "rceil"), "rceil", "e2m1", "dtype_range")
    fails(lambda: ops.mx_quant(x, -1, "e1m2", "dtype_range"), "dtype_range", "e1m2")
    fails(lambda: ops.mx_quant_dual(x, "e1m2", "dtype_range"), "dtype_range", "e1m2")
    for dst_max in (5.9, 12.5, -1.0, float("nan")):
        fails(lambda dst_max=dst_max: ops.mx_quant(x, -1, "e2m1", "dtype_range", dst_max=dst_max), "dst_max", "6", "12")
    fails(lambda: ops.mx_quant_grouped(x, torch.tensor([64]), "e1m2", "dtype_range", dst_max=6.0), "dst_max", "3.5")
    data, scale = ops.mx_quant(x, -1, "e2m1", "floor")
    fails(lambda: ops.mx_dequant(data, scale), "fmt")


def test_fp4_does_not_mix_with_fp8_nor_split_k() -> None:
    x4, s4 = ops.mx_quant(torch.ones(64, 64), -1, "e2m1", "floor")
    x8, s8 = ops.mx_quant(torch.ones(64, 64), -2, "e4m3")
    fails(lambda: ops.mx_quant_matmul(x4, x8, s4, s8, x1_fmt="e2m1"), "mx_quant_matmul", "e2m1", "e4m3")
    offs = torch.tensor([64])
    g4, gs4 = ops.mx_quant_grouped(torch.ones(64, 64), offs, "e2m1", "floor")
    fails(lambda: ops.mx_grouped_matmul(g4.t(), g4, gs4, gs4, offs, "k", x1_fmt="e2m1", x2_fmt="e2m1"), "k", "e2m1")
