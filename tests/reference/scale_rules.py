"""From the elements of a block to its e8m0 byte: floor (scale_alg 0), rceil (1), dtype_range (2)."""

from __future__ import annotations

import numpy as np
import torch

from reference import bits
from reference.minifloat import FORMATS

NAN_BYTE = 255

# The constants are given as fp32 patterns: fl32(1/448) and fl32(1/57344).
_RCEIL_FACTOR_BITS = {"e4m3": 0x3B124925, "e5m2": 0x37924925}


def exponent_field(a: np.ndarray) -> np.ndarray:
    """The 8-bit exponent field of |a| seen as fp32 or bf16 (0: zero or subnormal, 255: Inf or NaN)."""
    finite = np.where(np.isfinite(a), np.abs(a), 0.0)
    _, exponent = np.frexp(finite)
    field = np.where(finite < 2.0**-126, 0, exponent - 1 + 127)
    return np.where(np.isfinite(a), field, 255).astype(np.int64)


def block_amax(blocks: np.ndarray) -> np.ndarray:
    """Largest absolute value over the last axis; NaN above Inf above finite, as comparing the bits gives."""
    magnitude = np.abs(blocks)
    largest = np.where(np.isnan(magnitude), 0.0, magnitude).max(axis=-1, initial=0.0)
    return np.where(np.isnan(magnitude).any(axis=-1), np.nan, largest)


def _fp32_fields(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pattern = bits.round_to_dtype_bits(v, torch.float32).astype(np.int64)
    return pattern >> 23 & 0xFF, pattern & 0x7FFFFF


def floor_byte(amax: np.ndarray, emax: int) -> np.ndarray:
    """OCP MX v1.0: the exponent of amax less the exponent of the format's largest value, not below 0."""
    field = exponent_field(amax)
    return np.where(field == 255, NAN_BYTE, np.maximum(field - emax, 0))


def rceil_byte(amax: np.ndarray, factor: float, max_low_bound: float = 0.0) -> np.ndarray:
    """The exponent of fl32(amax / format maximum), rounded up; a subnormal quotient rounds up above 2^-127."""
    bounded = np.maximum(np.where(np.isfinite(amax), amax, 0.0), max_low_bound)
    field, mantissa = _fp32_fields(bounded * factor)
    up = ((field > 0) & (field < 254) & (mantissa > 0)) | ((field == 0) & (mantissa > 0x400000))
    byte = np.where(amax == 0, 0, field + up)
    return np.where(np.isfinite(amax), byte, NAN_BYTE)


def rceil_factor(fmt: str) -> float:
    """fl32(1 / largest value of the format)."""
    if fmt in _RCEIL_FACTOR_BITS:
        return float(bits.fp32_values(np.array(_RCEIL_FACTOR_BITS[fmt])))
    return float(bits.fl32(np.array(1.0 / FORMATS[fmt].max_value)))


def bf16_maximum(amax: np.ndarray, *, nearest: bool) -> np.ndarray:
    """amax as bf16 bits, rounded to nearest even or truncated. NaN and Inf keep the exponent field 255."""
    if nearest:
        return bits.round_to_dtype_bits(amax, torch.bfloat16).astype(np.int64)
    return bits.round_to_dtype_bits(amax, torch.float32).astype(np.int64) >> 16


def dtype_range_byte(amax_bf16: np.ndarray, fmt: str, dst_max: float) -> np.ndarray:
    """Rounds the exponent up when the block's maximum would exceed dst_max after scaling."""
    field, mantissa = amax_bf16 >> 7 & 0xFF, amax_bf16 & 0x7F
    thresholds = {"e2m1": {0.0: 65, 6.0: 65, 7.0: 97}, "e1m2": {1.875: 113}}
    threshold = thresholds[fmt].get(dst_max)
    if threshold is not None:
        byte = np.where(field < 2, 0, np.maximum(field - FORMATS[fmt].emax, 0) + (mantissa >= threshold))
    else:
        factor = float(bits.fl32(np.array(1.0 / (dst_max or 1.75))))
        amax = bits.ieee_values(np.where(field == 255, 0, amax_bf16), exponent_bits=8, mantissa_bits=7)
        s_field, s_mantissa = _fp32_fields(amax * factor)
        byte = s_field + ((s_field > 0) & (s_field < 254) & (s_mantissa > 0))
    return np.where(field == 255, NAN_BYTE, byte)


def scale_bytes(
    blocks: np.ndarray,
    source: torch.dtype,
    fmt: str,
    rule: str,
    *,
    dst_max: float = 0.0,
    max_low_bound: float = 0.0,
    last_axis: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Scale byte of each block (the last axis of blocks holds its elements), and the exponent field of its amax.

    last_axis: with dtype_range the fp32 maximum is truncated to bf16 where blocks run along the tensor's last axis,
    and rounded to nearest elsewhere; the fp16 maximum is always rounded to nearest.
    """
    amax = block_amax(blocks)
    field = exponent_field(amax)
    if rule == "floor":
        return floor_byte(amax, FORMATS[fmt].emax), field
    if rule == "rceil":
        return rceil_byte(amax, rceil_factor(fmt), max_low_bound), field
    if rule == "dtype_range":
        pattern = bf16_maximum(amax, nearest=not (source == torch.float32 and last_axis))
        return dtype_range_byte(pattern, fmt, dst_max), pattern >> 7 & 0xFF
    raise ValueError(f"no scale rule {rule!r}")
