"""Between torch tensors and numpy: exact values, storage bits, and rounding of float64 to the storage dtypes."""

from __future__ import annotations

import numpy as np
import torch

_UINT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

DTYPE_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


def storage_bits(t: torch.Tensor) -> np.ndarray:
    """The elements of t as unsigned integers of the same width, C-contiguous, in t's shape."""
    width = t.element_size()
    if t.numel() == 0:
        return np.zeros(tuple(t.shape), dtype=_UINT[width])
    same = t.detach().cpu().contiguous()
    if same.dim() == 0:
        return np.asarray(same.reshape(1).view(torch.uint8).numpy().view(_UINT[width])[0])
    return same.view(_SIGNED[width]).numpy().view(_UINT[width])


def values(t: torch.Tensor) -> np.ndarray:
    """The exact values of a bf16, fp16 or fp32 tensor as float64 (NaN stays NaN, -0.0 stays -0.0)."""
    name = DTYPE_NAMES[t.dtype]
    bits = storage_bits(t)
    if name == "bf16":
        return fp32_values(bits.astype(np.uint32) << 16)
    if name == "fp16":
        return ieee_values(bits, exponent_bits=5, mantissa_bits=10)
    return fp32_values(bits)


def fp32_values(bits: np.ndarray) -> np.ndarray:
    """The exact values of fp32 bit patterns, decoded by hand so that a flush-to-zero mode cannot touch them."""
    return ieee_values(bits, exponent_bits=8, mantissa_bits=23)


def ieee_values(bits: np.ndarray, *, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Values of IEEE-like patterns (all-ones exponent: Inf and NaN)."""
    wide = bits.astype(np.int64)
    bias = (1 << (exponent_bits - 1)) - 1
    mantissa = wide & ((1 << mantissa_bits) - 1)
    exponent = (wide >> mantissa_bits) & ((1 << exponent_bits) - 1)
    negative = (wide >> (mantissa_bits + exponent_bits)) & 1
    significand = np.where(exponent == 0, mantissa, mantissa | (1 << mantissa_bits)).astype(np.float64)
    magnitude = np.ldexp(significand, np.maximum(exponent, 1) - bias - mantissa_bits)
    special = exponent == (1 << exponent_bits) - 1
    magnitude = np.where(special, np.where(mantissa == 0, np.inf, np.nan), magnitude)
    return np.where(negative == 1, -magnitude, magnitude)


def round_to_ieee(v: np.ndarray, *, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Bits of float64 values rounded to nearest even, overflow to Inf, NaN canonical (quiet, positive)."""
    bias = (1 << (exponent_bits - 1)) - 1
    emin = 1 - bias
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    finite = np.where(np.isfinite(v), v, 0.0)
    _, exponent = np.frexp(finite)
    exponent = np.where(finite == 0, emin, np.maximum(exponent - 1, emin))
    steps = np.rint(np.ldexp(np.abs(finite), mantissa_bits - exponent)).astype(np.int64)
    magnitude = steps + ((exponent - emin).astype(np.int64) << mantissa_bits)
    magnitude = np.where((magnitude > infinity) | np.isinf(v), infinity, magnitude)
    signed = magnitude | (np.signbit(v).astype(np.int64) << (mantissa_bits + exponent_bits))
    nan = infinity | (1 << (mantissa_bits - 1))
    return np.where(np.isnan(v), nan, signed)


def round_to_dtype_bits(v: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Storage bits of float64 values in bf16, fp16 or fp32, one rounding to nearest even."""
    name = DTYPE_NAMES[dtype]
    if name == "bf16":
        return round_to_ieee(v, exponent_bits=8, mantissa_bits=7).astype(np.uint16)
    if name == "fp16":
        return round_to_ieee(v, exponent_bits=5, mantissa_bits=10).astype(np.uint16)
    return round_to_ieee(v, exponent_bits=8, mantissa_bits=23).astype(np.uint32)


def fl32(v: np.ndarray) -> np.ndarray:
    """float64 values rounded to fp32, still held as float64."""
    return fp32_values(round_to_dtype_bits(np.asarray(v, dtype=np.float64), torch.float32))
