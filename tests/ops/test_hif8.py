"""HiFloat8: quantization per tensor, token and channel, the way back, and the matmuls with fp32 scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checks import FLOATS, SIZES, assert_bits, assert_product, assert_same_tensors, below, from_bits, ops, spread
from hypothesis import given
from hypothesis import strategies as st
from reference import bits, fp32_scaled, hif8, matmul

pytestmark = pytest.mark.usefixtures("backend")

GRANULARITIES = ("tensor", "token", "channel")
DST_MAX = (0.0, 15.0, 56.0, 224.0, 32768.0)


def check(x: torch.Tensor, dst_max: float = 0.0, granularity: str = "tensor") -> None:
    data, scale = ops.hif8_quant(x, dst_max, granularity)
    want_data, want_scale = fp32_scaled.hif8_quant(x, dst_max, granularity)
    assert (data.dtype, scale.dtype) == (torch.uint8, torch.float32)
    assert_bits(scale, want_scale, "scale")
    assert_bits(data, want_data)


@pytest.mark.parametrize("dst_max", DST_MAX)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_16_bit_value_as_maximum_of_a_row_and_of_a_column(dtype: torch.dtype, dst_max: float) -> None:
    x = from_bits(below(np.arange(65536), np.random.default_rng(1), 16, 16), dtype)
    check(x, dst_max, "token")
    check(x.t(), dst_max, "channel")


@pytest.mark.parametrize("dtype", FLOATS)
def test_under_scale_one_every_value_has_the_code_of_the_cast(dtype: torch.dtype) -> None:
    """The maximum 32768 and dst_max 0 give scale 1."""
    v = np.concatenate([bits.fp32_values(np.arange(65536, dtype=np.uint32) << 16), hif8.DECODE_TABLE])
    v = v[np.isfinite(v) & (np.abs(v) <= 32768.0)]
    x = from_bits(bits.round_to_dtype_bits(np.append(v, 32768.0), dtype), dtype)
    data, scale = ops.hif8_quant(x)
    assert scale.tolist() == [1.0]
    assert_bits(data, hif8.encode(bits.values(x)))


@given(data=st.data())
def test_any_shape_granularity_and_dtype(data: st.DataObject) -> None:
    granularity = data.draw(st.sampled_from(GRANULARITIES))
    least = 1 if granularity == "tensor" else 2
    shape = data.draw(st.lists(st.sampled_from(SIZES), min_size=least, max_size=3).filter(lambda s: np.prod(s) <= 30_000))
    x = spread(shape, data.draw(st.sampled_from(FLOATS)), data.draw(st.integers(0, 1000)), specials=False)
    check(x, data.draw(st.sampled_from(DST_MAX)), granularity)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("special", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_inf_show_in_the_scale_and_the_codes_are_zero(special: float, granularity: str) -> None:
    x = torch.ones(6, 40)
    x[2, 3] = special
    check(x, 0.0, granularity)
    data, scale = ops.hif8_quant(x, 0.0, granularity)
    assert not torch.isfinite(scale).all()
    assert data[2, 3] == 0


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_zeros_have_scale_zero_and_codes_zero(granularity: str) -> None:
    data, scale = ops.hif8_quant(torch.zeros(6, 40), 0.0, granularity)
    assert (scale == 0).all()
    assert (data == 0).all()


def test_every_length_and_odd_offset() -> None:
    """Field report BC-049."""
    base = spread((300,), torch.bfloat16, 2, specials=False)
    for length in range(1, 131):
        for offset in (0, 1, 3):
            check(base[offset : offset + length], 224.0)


@pytest.mark.parametrize("position", [0, 31, 32, 4095, 4096, 65535])
def test_an_outlier_anywhere_in_a_long_row_sets_the_scale(position: int) -> None:
    x = torch.full((3, 65536), 2.0**-6)
    x[1, position] = 1e4
    for granularity in ("tensor", "token"):
        _, scale = ops.hif8_quant(x, 0.0, granularity)
        assert float(scale.max()) == float(np.float32(1e4) * np.float32(1 / 32768))
        check(x, 0.0, granularity)


def test_any_stride_and_number_of_threads(restore_threads: None) -> None:
    base = spread((301, 290), torch.bfloat16, 3, specials=False)
    for granularity in GRANULARITIES:
        for view in (base.mT, base[:, ::2], base[::3], base[5:-3, 7:-9], base[:1].expand(70, -1)):
            torch.set_num_threads(1)
            want = ops.hif8_quant(view.contiguous(), 0.0, granularity)
            for threads in (1, 2, 7):
                torch.set_num_threads(threads)
                assert_same_tensors(ops.hif8_quant(view, 0.0, granularity), want)


def test_flush_to_zero_of_the_caller_changes_no_bit() -> None:
    x = from_bits(np.random.default_rng(0).integers(0, 0x0300, (40, 40)), torch.bfloat16)
    want = [ops.hif8_quant(x, 0.0, g) for g in GRANULARITIES]
    try:
        assert torch.set_flush_denormal(True)
        got = [ops.hif8_quant(x, 0.0, g) for g in GRANULARITIES]
    finally:
        torch.set_flush_denormal(False)
    for g, w in zip(got, want, strict=True):
        assert_same_tensors(g, w)


def every_code_pair(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.resize(np.arange(256, dtype=np.uint8), count))


@pytest.mark.parametrize("out_dtype", FLOATS)
def test_dequantization_of_every_code(out_dtype: torch.dtype) -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(16, 16)
    for granularity, shape in (("tensor", (1,)), ("token", (16,)), ("channel", (16,))):
        scale = torch.from_numpy(np.exp2(np.random.default_rng(4).normal(size=shape) * 20).astype(np.float32))
        per_element = {"tensor": scale, "token": scale[:, None], "channel": scale}[granularity]
        got = ops.hif8_dequant(codes, scale, granularity, out_dtype)
        with np.errstate(invalid="ignore"):
            product = bits.fl32(hif8.decode(codes.numpy()) * bits.values(per_element))
        assert_bits(got, bits.round_to_dtype_bits(product, out_dtype))


def codes(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Random finite codes."""
    finite = np.array([c for c in range(256) if np.isfinite(hif8.DECODE_TABLE[c])], dtype=np.uint8)
    return torch.from_numpy(finite[np.random.default_rng(seed).integers(0, len(finite), shape)])


def scalar(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float32)


@pytest.mark.parametrize("truncate", [None, True, False])
@pytest.mark.parametrize(("m", "k", "n"), [(5, 70, 9), (1, 300, 1), (33, 600, 65), (3, 0, 4), (0, 40, 5), (64, 31, 2)])
def test_matmul_follows_the_defined_order_to_the_bit(m: int, k: int, n: int, truncate: bool | None) -> None:
    x1, x2 = codes((m, k), 1), codes((k, n), 2)
    s1, s2 = scalar(1.2345678), scalar(0.007654321)
    for out_dtype in FLOATS:
        got = ops.hif8_quant_matmul(x1, x2, s1, s2, out_dtype=out_dtype, truncate_scale=truncate)
        want = matmul.scaled_hif8_matmul(
            hif8.decode(x1.numpy()), hif8.decode(x2.numpy()), bits.values(s1), bits.values(s2),
            None, out_dtype, truncate is not False,
        )  # fmt: skip
        factor = bits.values(s1) * bits.values(s2)
        assert_product(got, want, hif8.decode(x1.numpy()), hif8.decode(x2.numpy()), factor=factor)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("per_row", [True, False])
@pytest.mark.parametrize("per_column", [True, False])
def test_scales_of_rows_and_columns_and_bias_are_applied_one_after_the_other(
    per_row: bool, per_column: bool, with_bias: bool
) -> None:
    """x2's scale first, then x1's, then bias, each rounded to fp32, and nothing is truncated."""
    if not (per_row or per_column or with_bias):
        return  # that is the fixed-function path of the test above
    x1, x2 = codes((33, 300), 1), codes((300, 20), 2)
    rng = np.random.default_rng(3)
    s1 = torch.from_numpy(np.exp2(rng.normal(size=33 if per_row else 1)).astype(np.float32))
    s2 = torch.from_numpy(np.exp2(rng.normal(size=20 if per_column else 1)).astype(np.float32))
    bias = spread((20,), torch.float32, 3, specials=False) if with_bias else None
    for out_dtype in FLOATS:
        got = ops.hif8_quant_matmul(x1, x2, s1, s2, bias=bias, out_dtype=out_dtype)
        want = matmul.scaled_hif8_matmul(
            hif8.decode(x1.numpy()), hif8.decode(x2.numpy()), bits.values(s1)[:, None], bits.values(s2),
            None if bias is None else bits.values(bias), out_dtype,
        )  # fmt: skip
        assert_product(
            got, want, hif8.decode(x1.numpy()), hif8.decode(x2.numpy()),
            factor=bits.values(s1)[:, None] * bits.values(s2), bias=None if bias is None else bits.values(bias),
        )  # fmt: skip


OFFSETS = [[0, 0, 64], [10, 10, 74, 100], [0, 0, 0], [31, 63, 127, 128]]


def grouped_scales(groups: int, per_group: tuple[bool, bool]) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(groups)
    sizes = [groups if each else 1 for each in per_group]
    first, second = (torch.from_numpy(np.exp2(rng.normal(size=n)).astype(np.float32)) for n in sizes)
    return first, second


def of_group(scale: torch.Tensor, group: int) -> np.ndarray:
    return bits.values(scale[group : group + 1] if len(scale) > 1 else scale)


@pytest.mark.parametrize("truncate", [None, False])
@pytest.mark.parametrize("per_group", [(False, True), (True, True), (False, False)])
@pytest.mark.parametrize("offs", OFFSETS)
@pytest.mark.parametrize("split", ["m", "k"])
def test_grouped_matmul_is_one_matmul_per_group(
    split: str, offs: list[int], per_group: tuple[bool, bool], truncate: bool | None
) -> None:
    groups, rows = len(offs), offs[-1] + 20
    s1, s2 = grouped_scales(groups, per_group)
    if split == "m":
        x1, x2 = codes((rows, 70), 1), codes((groups, 70, 12), 2)
    else:
        x1, x2 = codes((rows, 24), 1).t(), codes((rows, 12), 2)
    got = ops.hif8_grouped_matmul(x1, x2, s1, s2, torch.tensor(offs), split, torch.float32, truncate_scale=truncate)
    outside = np.ones(tuple(got.shape), dtype=bool)
    a, b = hif8.decode(x1.numpy()), hif8.decode(x2.numpy())
    for group, (start, end) in enumerate(zip([0, *offs[:-1]], offs, strict=True)):
        if end > start:
            x, w = (a[start:end], b[group]) if split == "m" else (a[:, start:end], b[start:end])
            part = matmul.scaled_hif8_matmul(
                x, w, of_group(s1, group), of_group(s2, group), None, torch.float32, truncate is not False
            )
            here = slice(start, end) if split == "m" else group
            assert_product(got[here], part, x, w, factor=of_group(s1, group) * of_group(s2, group))
            outside[here] = False
    assert (bits.storage_bits(got)[outside] == 0).all(), "rows of no group, and results of empty ones, are zeros"


def test_grouped_matmul_does_not_read_unused_rows() -> None:
    """NaN codes after the last offset and in the weights of empty groups give zeros."""
    x1, x2 = codes((90, 64), 1), codes((3, 64, 20), 2)
    x1[60:] = hif8.NAN_CODE
    x2[1] = hif8.NAN_CODE
    got = ops.hif8_grouped_matmul(x1, x2, scalar(1.0), scalar(1.0), torch.tensor([20, 20, 60]), "m")
    assert (got[60:] == 0).all()
    assert not torch.isnan(got).any()
    wgrad = ops.hif8_grouped_matmul(x1.t(), x1, scalar(1.0), scalar(1.0), torch.tensor([20, 20, 60]), "k")
    assert (wgrad[1] == 0).all()
    assert not torch.isnan(wgrad).any()


def test_the_scale_product_is_cut_to_ten_bits_by_default_and_only_there() -> None:
    one = torch.full((1, 1), 0x08, dtype=torch.uint8)
    s1, s2 = scalar(1.0), scalar(1.0 + 2.0**-12)
    assert float(ops.hif8_quant_matmul(one, one, s1, s2, out_dtype=torch.float32)) == 1.0
    kept = ops.hif8_quant_matmul(one, one, s1, s2, out_dtype=torch.float32, truncate_scale=False)
    assert float(kept) == 1.0 + 2.0**-12
    biased = ops.hif8_quant_matmul(one, one, s1, s2, bias=torch.zeros(1), out_dtype=torch.float32)
    assert float(biased) == 1.0 + 2.0**-12


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 4, 0), (2, 0, 3), (0, 0, 0)])
@pytest.mark.parametrize("batch", [(), (2,), (0,)])
def test_nothing_to_multiply(shape: tuple[int, int, int], batch: tuple[int, ...]) -> None:
    m, k, n = shape
    x1, x2 = torch.zeros(*batch, m, k, dtype=torch.uint8), torch.zeros(*batch, k, n, dtype=torch.uint8)
    for s1, s2 in ((torch.ones(*batch, m), torch.ones(*batch, n)), (torch.ones(1), torch.ones(1))):
        for bias in (None, torch.full((n,), 3.0)):
            y = ops.hif8_quant_matmul(x1, x2, s1, s2, bias, torch.float32)
            assert torch.equal(y, torch.full((*batch, m, n), 0.0 if bias is None else 3.0))


def test_transposed_views_and_batches_give_the_bits_of_contiguous_copies() -> None:
    x1, x2 = codes((3, 33, 70), 1), codes((70, 40), 2)
    s1, s2 = scalar(0.3), scalar(3.0)
    want = ops.hif8_quant_matmul(x1, x2, s1, s2)
    got = ops.hif8_quant_matmul(x1.mT.contiguous().mT, x2.mT.contiguous().mT, s1, s2)
    assert_same_tensors((got,), (want,))
    for i in range(3):
        assert_same_tensors((want[i],), (ops.hif8_quant_matmul(x1[i], x2, s1, s2),))


def fails(call: Any, *parts: str) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


def test_bad_arguments() -> None:
    x = torch.ones(8, 16)
    fails(lambda: ops.hif8_quant(x, -1.0), "hif8_quant", "dst_max", "-1")
    fails(lambda: ops.hif8_quant(x, 40000.0), "hif8_quant", "dst_max", "40000", "32768")
    fails(lambda: ops.hif8_quant(x, 0.0, "row"), "hif8_quant", "row", "tensor", "token", "channel")
    fails(lambda: ops.hif8_quant(x[0], 0.0, "channel"), "hif8_quant", "channel")
    fails(lambda: ops.hif8_quant(x.double()), "hif8_quant", "float64", "bfloat16")
    x1, x2 = codes((4, 8), 1), codes((8, 5), 2)
    one = scalar(1.0)
    fails(lambda: ops.hif8_quant_matmul(x1, x2[:7], one, one), "hif8_quant_matmul", "8", "7")
    fails(lambda: ops.hif8_quant_matmul(x1.float(), x2, one, one), "hif8_quant_matmul", "x1", "float32", "uint8")
    fails(lambda: ops.hif8_quant_matmul(x1, x2, one.double(), one), "x1_scale", "float64", "float32")
    fails(lambda: ops.hif8_quant_matmul(x1, x2, one, torch.ones(3)), "x2_scale", "[3]")
    fails(lambda: ops.hif8_quant_matmul(x1, x2, one, one, bias=torch.ones(4)), "bias", "4", "5")
    fails(lambda: ops.hif8_quant_matmul(x1, x2, one, one, bias=torch.ones(5), truncate_scale=True), "truncate_scale")
    offs = torch.tensor([3, 2])
    fails(lambda: ops.hif8_grouped_matmul(x1, x2[None].expand(2, 8, 5), one, one, offs), "offs", "3", "2")
