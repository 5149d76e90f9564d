"""mx_quant_matmul: the defined order to the bit, exact sums, a derived bound of float64, views, batches, all sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from checks import FLOATS, assert_bits, assert_product, e8m0, from_bits, on_twin, ops, random_codes, random_scales, spread
from hypothesis import given
from hypothesis import strategies as st
from reference import bits, matmul, mx

pytestmark = pytest.mark.usefixtures("backend")

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
NAME = {E4M3: "e4m3", E5M2: "e5m2"}
SIZES = (0, 1, 2, 7, 31, 32, 33, 63, 64, 65, 96)
DEPTHS = (0, 1, 5, 31, 32, 33, 64, 95, 255, 256, 257, 300, 512, 515)

Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def pairs(length: int) -> int:
    return -(-length // 64)


def operands(
    m: int, k: int, n: int, seed: int = 0, dtypes: tuple[torch.dtype, torch.dtype] = (E4M3, E4M3),
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()), low: int = 120, high: int = 134,
) -> Operands:  # fmt: skip
    """Random codes x1 [.., M, K], x2 [.., K, N] and random scales, a different byte per block."""
    return (
        random_codes((*batch[0], m, k), dtypes[0], seed),
        random_codes((*batch[1], k, n), dtypes[1], seed + 1),
        random_scales((*batch[0], m, pairs(k), 2), seed + 2, low, high),
        random_scales((*batch[1], pairs(k), n, 2), seed + 3, low, high),
    )


def values(x1: torch.Tensor, x2: torch.Tensor, s1: torch.Tensor, s2: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    a = mx.dequantize_values(bits.storage_bits(x1), bits.storage_bits(s1), -1, NAME[x1.dtype])
    b = mx.dequantize_values(bits.storage_bits(x2), bits.storage_bits(s2), -2, NAME[x2.dtype])
    return a, b


def check(args: Operands, bias: torch.Tensor | None = None, out_dtype: torch.dtype = torch.bfloat16) -> None:
    got = ops.mx_quant_matmul(*args, bias=bias, out_dtype=out_dtype)
    assert got.dtype == out_dtype
    a, b = values(*args)
    added = None if bias is None else bits.values(bias)
    assert_product(got, matmul.matmul(a, b, added, out_dtype), a, b, bias=added)


@given(
    m=st.sampled_from(SIZES), n=st.sampled_from(SIZES), k=st.sampled_from(DEPTHS),
    first=st.sampled_from([E4M3, E5M2]), second=st.sampled_from([E4M3, E5M2]),
    out_dtype=st.sampled_from(FLOATS), with_bias=st.booleans(),
)  # fmt: skip
def test_any_size_follows_the_defined_order_to_the_bit(
    m: int, n: int, k: int, first: torch.dtype, second: torch.dtype, out_dtype: torch.dtype, with_bias: bool
) -> None:
    bias = spread((n,), torch.float32, 9, specials=False) if with_bias else None
    check(operands(m, k, n, m + n + k, (first, second)), bias, out_dtype)


@pytest.mark.parametrize("out_dtype", FLOATS)
@pytest.mark.parametrize(("m", "k", "n"), [(64, 1030, 64), (3, 4097, 130), (129, 260, 257), (1, 700, 1), (1, 64, 300)])
def test_larger_sizes_follow_the_defined_order_to_the_bit(m: int, k: int, n: int, out_dtype: torch.dtype) -> None:
    check(operands(m, k, n), None, out_dtype)


def test_order_matters_in_this_data_and_the_segment_is_256() -> None:
    """The model itself tells orders apart: another segment length gives other bits on random data."""
    args = operands(16, 600, 16)
    a, b = values(*args)
    whole = np.zeros((16, 16))
    for i in range(600):
        whole = matmul.fma32(a[:, i : i + 1], b[i : i + 1], whole)
    defined = matmul.accumulate(a, b)
    assert (whole != defined).any()
    got = ops.mx_quant_matmul(*args, out_dtype=torch.float32)
    assert_product(got, bits.round_to_dtype_bits(defined, torch.float32), a, b)


@pytest.mark.parametrize(("m", "k", "n"), [(33, 64, 31), (64, 96, 64), (5, 515, 7), (2, 4096, 3)])
def test_exact_sums_equal_integer_arithmetic(m: int, k: int, n: int) -> None:
    """Small integers under scales 1..8: every partial sum is exact in fp32, so no order can change the result."""
    rng = np.random.default_rng(m)
    ints1, ints2 = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (k, n))
    s1, s2 = rng.integers(127, 131, (m, pairs(k), 2)), rng.integers(127, 131, (pairs(k), n, 2))
    x1 = torch.from_numpy(ints1).to(torch.float32).to(E4M3)
    x2 = torch.from_numpy(ints2).to(torch.float32).to(E4M3)
    factor1 = 1 << (mx.scale_of_elements(s1, 1, k) - 127)
    factor2 = 1 << (mx.scale_of_elements(s2, 0, k) - 127)
    want = (ints1 * factor1) @ (ints2 * factor2)
    assert np.abs(ints1 * factor1).max() * np.abs(ints2 * factor2).max() * k < 1 << 25
    got = ops.mx_quant_matmul(x1, x2, e8m0(s1), e8m0(s2), out_dtype=torch.float32)
    np.testing.assert_array_equal(got.numpy().astype(np.int64), want)


@pytest.mark.parametrize("k", [31, 300, 2000])
def test_random_data_lie_within_the_derived_bound_of_float64(k: int) -> None:
    """A chain of n roundings errs by at most n u / (1 - n u) times the sum of magnitudes; n counts the longest path."""
    args = operands(40, k, 30, k)
    a, b = values(*args)
    longest = min(k, 256) + -(-k // 256)
    gamma = longest * 2.0**-24 / (1 - longest * 2.0**-24)
    got = ops.mx_quant_matmul(*args, out_dtype=torch.float32).numpy().astype(np.float64)
    assert (np.abs(got - a @ b) <= gamma * (np.abs(a) @ np.abs(b))).all()


def test_quantized_operands_multiply_as_their_dequantized_values() -> None:
    """From mx_quant to the product, with layouts as the quantizer leaves them."""
    x, w = spread((70, 130), torch.bfloat16, 1, specials=False), spread((130, 50), torch.bfloat16, 2, specials=False)
    x1, s1 = ops.mx_quant(x, -1)
    x2, s2 = ops.mx_quant(w, -2, "e5m2")
    check((x1, x2, s1, s2))


@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("m", "k", "n"), [(33, 70, 65), (1, 300, 1), (64, 1, 31), (96, 260, 130)])
def test_transposed_views_give_the_bits_of_contiguous_copies(m: int, k: int, n: int, transposed: tuple[bool, bool]) -> None:
    x1, x2, s1, s2 = operands(m, k, n)
    a, b = values(x1, x2, s1, s2)
    want = ops.mx_quant_matmul(x1, x2, s1, s2, out_dtype=torch.float32)
    if transposed[0]:
        x1, s1 = x1.mT.contiguous().mT, s1.transpose(-3, -2).contiguous().transpose(-3, -2)
    if transposed[1]:
        x2, s2 = x2.mT.contiguous().mT, s2.transpose(-3, -2).contiguous().transpose(-3, -2)
    assert_product(ops.mx_quant_matmul(x1, x2, s1, s2, out_dtype=torch.float32), bits.storage_bits(want), a, b)


def test_dgrad_and_wgrad_views_of_dual_axis_results() -> None:
    """dA = dY B^T and dB = A^T dY from the other axis's codes, as transposed views of what forward saved."""
    a, b, dy = (spread(s, torch.bfloat16, i, specials=False) for i, s in enumerate([(70, 90), (90, 50), (70, 50)]))
    _, _, a_col, a_col_scale = ops.mx_quant_dual(a)
    b_row, b_row_scale, _, _ = ops.mx_quant_dual(b)
    dy_row, dy_row_scale, dy_col, dy_col_scale = ops.mx_quant_dual(dy)
    check((dy_row, b_row.mT, dy_row_scale, b_row_scale.transpose(-3, -2)))
    check((a_col.mT, dy_col, a_col_scale.transpose(-3, -2), dy_col_scale))


def test_any_stride_of_operands_and_scales() -> None:
    x1, x2, s1, s2 = operands(80, 128, 90)
    check((x1[::2], x2[:, 1::3], s1[::2], s2[:, 1::3]))
    check((x1[:1].expand(5, -1), x2[:, :1].expand(-1, 4), s1[:1].expand(5, -1, -1), s2[:, :1].expand(-1, 4, -1)))
    check((x1[:, 64:], x2[64:], s1[:, 1:], s2[1:]))


@pytest.mark.parametrize(
    "batch",
    [
        ((3,), (3,)),
        ((2, 3), (2, 3)),
        ((), (4,)),
        ((4,), ()),
        ((1, 3), (2, 1)),
        ((0,), (0,)),
        ((5, 1), (3,)),
        ((0,), ()),
    ],
)
def test_leading_dims_broadcast(batch: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    check(operands(5, 40, 7, batch=batch), spread((7,), torch.float32, 3, specials=False), torch.float32)


def test_a_batch_equals_its_matrices_one_by_one() -> None:
    x1, x2, s1, s2 = operands(33, 270, 17, batch=((2, 3), (3,)))
    got = ops.mx_quant_matmul(x1, x2, s1, s2)
    for i in range(2):
        for j in range(3):
            one = (x1[i, j], x2[j], s1[i, j], s2[j])
            assert_product(got[i, j], bits.storage_bits(ops.mx_quant_matmul(*one)), *values(*one))


def test_k_of_zero_gives_zeros_and_bias_then_gives_the_bias() -> None:
    args = operands(3, 0, 4)
    assert (ops.mx_quant_matmul(*args) == 0).all()
    bias = torch.tensor([1.0, -2.5, 3.0, 0.0])
    assert (ops.mx_quant_matmul(*args, bias=bias) == bias.bfloat16()).all()


def test_scale_bytes_0_254_and_255_are_values_like_any_other() -> None:
    """2^-127 gives subnormal operands, 2^127 overflows fp32 for codes of 2 and more, 255 is NaN."""
    bytes_ = np.array([0, 1, 20, 127, 200, 253, 254, 255])
    x1 = random_codes((8, 64), E4M3, 1)
    x2 = random_codes((64, 8), E5M2, 2)
    for first in bytes_:
        s1 = np.zeros((8, 1, 2), dtype=np.int64) + bytes_[:, None, None]
        s2 = np.full((1, 8, 2), first)
        for out_dtype in FLOATS:
            check((x1, x2, e8m0(s1), e8m0(s2)), None, out_dtype)


def test_nan_and_inf_codes_spread_as_fp32_arithmetic_says() -> None:
    check(
        (
            random_codes((40, 70), E4M3, 1, finite=False), random_codes((70, 40), E5M2, 2, finite=False),
            random_scales((40, 2, 2), 3), random_scales((2, 40, 2), 4),
        ),
        None, torch.float32,
    )  # fmt: skip
    inf_times_zero = (
        from_bits(np.array([[0x7C, 0x7C]]), E5M2), from_bits(np.array([[0x00], [0x3C]]), E5M2),
        e8m0(np.full((1, 1, 2), 127)), e8m0(np.full((1, 1, 2), 127)),
    )  # fmt: skip
    assert bits.storage_bits(ops.mx_quant_matmul(*inf_times_zero, out_dtype=torch.float32)).item() == 0x7FC00000
    assert bits.storage_bits(ops.mx_quant_matmul(*inf_times_zero)).item() == 0x7FC0


def test_the_pad_byte_of_an_odd_block_count_is_not_used() -> None:
    """K = 96 and 40: whatever stands in the second byte of a last, half pair must not matter.

    The cube multiplies it with zeros, so there it must not be NaN; quantizers write 0.
    """
    for k in (20, 96):
        x1, x2, s1, s2 = operands(9, k, 9)
        want = ops.mx_quant_matmul(x1, x2, s1, s2)
        for junk in (0, 127, 254 if on_twin() else 255):
            p1, p2 = s1.view(torch.uint8).clone(), s2.view(torch.uint8).clone()
            p1[:, -1, 1] = junk
            p2[-1, :, 1] = junk
            again = ops.mx_quant_matmul(x1, x2, p1.view(torch.float8_e8m0fnu), p2.view(torch.float8_e8m0fnu))
            assert_bits(again, bits.storage_bits(want))


def test_identity_of_powers_of_two_has_no_error() -> None:
    """Field report BC-030: and a single changed code is seen."""
    x = torch.exp2(torch.arange(64).float() % 8).repeat(64, 1)
    args = (*ops.mx_quant(x, -1), *ops.mx_quant(torch.eye(64), -2))
    x1, s1, x2, s2 = args
    assert (ops.mx_quant_matmul(x1, x2, s1, s2, out_dtype=torch.float32) == x).all()
    changed = x1.view(torch.uint8).clone()
    changed[5, 6] += 1
    got = ops.mx_quant_matmul(changed.view(E4M3), x2, s1, s2, out_dtype=torch.float32)
    assert (got != x).nonzero().tolist() == [[5, 6]]


def test_overflow_of_the_output_dtype_is_inf_and_tiny_results_keep_their_subnormal_bits() -> None:
    big = operands(4, 64, 4, low=140, high=150)
    assert torch.isinf(ops.mx_quant_matmul(*big, out_dtype=torch.float16)).any()
    check(big, None, torch.float16)
    for low, high in ((50, 60), (40, 55), (110, 118)):
        for out_dtype in FLOATS:
            check(operands(8, 64, 8, low=low, high=high), None, out_dtype)


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize(("m", "k", "n"), [(1, 2000, 3), (130, 600, 140), (300, 64, 5), (5, 64, 300)])
def test_bits_do_not_depend_on_the_number_of_threads(m: int, k: int, n: int) -> None:
    args = operands(m, k, n)
    torch.set_num_threads(1)
    want = bits.storage_bits(ops.mx_quant_matmul(*args, out_dtype=torch.float32))
    for threads in (2, 3, 7):
        torch.set_num_threads(threads)
        assert_bits(ops.mx_quant_matmul(*args, out_dtype=torch.float32), want)


def test_flush_to_zero_of_the_caller_changes_no_bit() -> None:
    args = operands(8, 300, 8, low=45, high=60)
    bias = from_bits(np.arange(1, 9), torch.float32)
    want = [bits.storage_bits(ops.mx_quant_matmul(*args, bias=bias, out_dtype=d)) for d in FLOATS]
    assert ((want[2] & 0x7F800000) == 0).any(), "the data must give subnormal results"
    try:
        assert torch.set_flush_denormal(True)
        got = [ops.mx_quant_matmul(*args, bias=bias, out_dtype=d) for d in FLOATS]
    finally:
        torch.set_flush_denormal(False)
    for g, w in zip(got, want, strict=True):
        assert_bits(g, w)
