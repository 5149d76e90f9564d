"""The matmuls in their defined order: k ascending, one fused multiply-add chain per 256 elements of K, partial sums
added in order, then the bias, then one rounding to the output dtype. NaN is canonical.

fp32 results are held as float64 arrays whose values are fp32 numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from reference import bits

SEGMENT = 256


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """fp32 fused multiply-add of fp32 values whose product fits 53 bits, with a single rounding.

    The product is exact in float64. Its sum with c is rounded to odd in float64 (the discarded part only decides which
    neighbour is kept, so that the second rounding, to fp32, cannot land on a false tie).
    """
    with np.errstate(invalid="ignore", over="ignore"):
        product = a * b
        return _round_odd_sum_to_fp32(product, c)


def add32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """fp32 addition of fp32 values with a single rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        return _round_odd_sum_to_fp32(a, b)


def _round_odd_sum_to_fp32(p: np.ndarray, c: np.ndarray) -> np.ndarray:
    total = p + c
    # Knuth's TwoSum: total + error is exactly p + c (no float64 overflow or underflow is possible here).
    c_part = total - p
    error = (p - (total - c_part)) + (c - c_part)
    pattern = np.ascontiguousarray(total).view(np.int64)
    inexact_even = np.isfinite(total) & (error != 0) & ((pattern & 1) == 0)
    step = np.where(np.signbit(error) == np.signbit(total), 1, -1)
    odd = (pattern + np.where(inexact_even, step, 0)).view(np.float64)
    return odd.astype(np.float32).astype(np.float64)


def accumulate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """fp32 values a [.., M, K] times b [.., K, N] (leading dims broadcast) in the defined order."""
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    total = np.zeros((*shape, m, n))
    for start in range(0, k, SEGMENT):
        chain = np.zeros((*shape, m, n))
        for i in range(start, min(start + SEGMENT, k)):
            chain = fma32(a[..., :, i : i + 1], b[..., i : i + 1, :], chain)
        total = chain if start == 0 else add32(total, chain)
    return total


def finish(acc: np.ndarray, bias: np.ndarray | None, out_dtype: torch.dtype) -> np.ndarray:
    """fp32 accumulator (plus fp32 bias) to storage bits of out_dtype."""
    return bits.round_to_dtype_bits(acc if bias is None else add32(acc, bias), out_dtype)


def matmul(
    a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, out_dtype: torch.dtype = torch.bfloat16
) -> np.ndarray:
    """Dequantized operands (exact values; those beyond fp32 become Inf) to storage bits of the product."""
    return finish(accumulate(bits.fl32(a), bits.fl32(b)), bias, out_dtype)


def _groups(offs: list[int]) -> list[tuple[int, int]]:
    return list(zip([0, *offs[:-1]], offs, strict=True))


def grouped_matmul_m(x: np.ndarray, w: np.ndarray, offs: list[int], out_dtype: torch.dtype) -> np.ndarray:
    """x [T, K], w [G, K, N] -> bits [T, N]; rows past the last offset are zero."""
    out = np.zeros((x.shape[0], w.shape[-1]), dtype=bits.round_to_dtype_bits(np.zeros(1), out_dtype).dtype)
    for group, (start, end) in enumerate(_groups(offs)):
        if end > start:
            out[start:end] = matmul(x[start:end], w[group], None, out_dtype)
    return out


def grouped_matmul_k(
    x1_of_group: Callable[[int, int, int], np.ndarray],
    x2_of_group: Callable[[int, int, int], np.ndarray],
    offs: list[int],
    shape: tuple[int, int],
    out_dtype: torch.dtype,
) -> np.ndarray:
    """One [M, N] product per group over its own K; an empty group gives zeros.

    x1_of_group(group, start, end) gives values [M, end - start], x2_of_group values [end - start, N].
    """
    out = np.zeros((len(offs), *shape), dtype=bits.round_to_dtype_bits(np.zeros(1), out_dtype).dtype)
    for group, (start, end) in enumerate(_groups(offs)):
        if end > start:
            out[group] = matmul(x1_of_group(group, start, end), x2_of_group(group, start, end), None, out_dtype)
    return out


def scaled_hif8_matmul(
    a: np.ndarray,
    b: np.ndarray,
    x1_scale: np.ndarray,
    x2_scale: np.ndarray,
    bias: np.ndarray | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    truncate_scale: bool = True,
) -> np.ndarray:
    """HiF8 values times HiF8 values with fp32 scales (held as float64, per tensor or broadcastable to the result).

    Per-tensor scales without a bias: their fp32 product, cut to 10 mantissa bits unless truncate_scale is off, then
    multiplies the accumulator. Otherwise the accumulator is multiplied by x2_scale, then by x1_scale, then the bias is
    added, each step rounded to fp32.
    """
    acc = accumulate(a, b)
    per_tensor = np.size(x1_scale) == 1 and np.size(x2_scale) == 1
    with np.errstate(invalid="ignore", over="ignore"):
        if per_tensor and bias is None:
            return bits.round_to_dtype_bits(bits.fl32(acc * scale_product(x1_scale, x2_scale, truncate_scale)), out_dtype)
        scaled = bits.fl32(bits.fl32(acc * x2_scale) * x1_scale)
    return finish(scaled, bias, out_dtype)


def scale_product(x1_scale: np.ndarray, x2_scale: np.ndarray, truncate: bool) -> np.ndarray:
    """fl32(x2_scale * x1_scale), with the low 13 mantissa bits cleared if truncate."""
    pattern = bits.round_to_dtype_bits(np.asarray(x2_scale * x1_scale), torch.float32)
    return bits.fp32_values(pattern & np.uint32(0xFFFFE000) if truncate else pattern)


def block_scaled_matmul(
    a: np.ndarray, b: np.ndarray, x1_scale: np.ndarray, x2_scale: np.ndarray, out_dtype: torch.dtype
) -> np.ndarray:
    """fp8 values with fp32 scales per 128 of K: each 128-block's partial sum times fl32(s1 * s2), added in fp32.

    x1_scale [M or ceil(M/128), ceil(K/128)], x2_scale [ceil(K/128), ceil(N/128)], as float64.
    """
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    rows = x1_scale if x1_scale.shape[0] == m else np.repeat(x1_scale, 128, axis=0)[:m]
    columns = x2_scale if x2_scale.shape[1] == n else np.repeat(x2_scale, 128, axis=1)[:, :n]
    total = np.zeros((m, n))
    with np.errstate(invalid="ignore", over="ignore"):
        for block, start in enumerate(range(0, k, 128)):
            partial = accumulate(a[:, start : start + 128], b[start : start + 128])
            scale = bits.fl32(rows[:, block : block + 1] * columns[block : block + 1])
            total = add32(total, bits.fl32(partial * scale))
    return bits.round_to_dtype_bits(total, out_dtype)
