"""The small floating-point formats: what each code means, and which code a value rounds to.

A format is sign, exponent and mantissa fields with gradual underflow. With emin the exponent of the smallest normal
number and m the number of mantissa bits, the code of magnitude q * 2^(e - m) is q + (e - emin) * 2^m, where
q is in [2^m, 2^(m+1)) for a normal number and below 2^m for a subnormal one. Rounding q up to 2^(m+1) carries into
the exponent by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Minifloat:
    """One format: field widths, smallest normal exponent, largest finite code, where Inf and NaN are."""

    name: str
    bits: int
    mantissa_bits: int
    emin: int
    max_code: int
    inf_code: int | None = None
    nan_codes: tuple[int, ...] = ()
    packed: bool = False

    @property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def max_value(self) -> float:
        return float(self.decode(np.array([self.max_code]))[0])

    @property
    def emax(self) -> int:
        """Exponent of the largest finite value: the constant that the floor rule subtracts."""
        return int(np.frexp(self.max_value)[1]) - 1

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Codes (any integer array) to exact float64 values."""
        wide = np.asarray(codes).astype(np.int64)
        magnitude_code = wide & (self.sign_bit - 1)
        mantissa = magnitude_code & ((1 << self.mantissa_bits) - 1)
        exponent = magnitude_code >> self.mantissa_bits
        significand = np.where(exponent == 0, mantissa, mantissa + (1 << self.mantissa_bits)).astype(np.float64)
        value = np.ldexp(significand, np.maximum(exponent, 1) - 1 + self.emin - self.mantissa_bits)
        if self.inf_code is not None:
            value = np.where(magnitude_code == self.inf_code, np.inf, value)
        value = np.where(np.isin(magnitude_code, self.nan_codes), np.nan, value)
        return np.where(wide & self.sign_bit, -value, value)

    def encode(self, v: np.ndarray, rounding: str = "rint") -> np.ndarray:
        """Exact values to uint8 codes with one rounding, saturating (Inf too); NaN gives 0; signed zero is kept.

        rounding: "rint" nearest, ties to even; "round" nearest, ties away from zero; "floor" towards -inf.
        """
        v = np.asarray(v, dtype=np.float64)
        finite = np.where(np.isfinite(v), v, 0.0)
        _, exponent = np.frexp(finite)
        exponent = np.where(finite == 0, self.emin, np.maximum(exponent - 1, self.emin))
        steps = np.ldexp(np.abs(finite), self.mantissa_bits - exponent)
        negative = np.signbit(v)
        if rounding == "rint":
            whole = np.rint(steps)
        elif rounding == "round":
            whole = np.floor(steps) + (steps - np.floor(steps) >= 0.5)
        elif rounding == "floor":
            whole = np.where(negative, np.ceil(steps), np.floor(steps))
        else:
            raise ValueError(f"no rounding {rounding!r}")
        # Clipping the exponent first keeps the shift small; everything above saturates anyway.
        carry = np.minimum(exponent - self.emin, 64).astype(np.int64) << self.mantissa_bits
        magnitude = np.minimum(whole.astype(np.int64) + carry, self.max_code)
        magnitude = np.where(np.isinf(v), self.max_code, magnitude)
        code = magnitude | np.where(negative, self.sign_bit, 0)
        return np.where(np.isnan(v), 0, code).astype(np.uint8)


E4M3 = Minifloat("e4m3", bits=8, mantissa_bits=3, emin=-6, max_code=0x7E, nan_codes=(0x7F,))
E5M2 = Minifloat("e5m2", bits=8, mantissa_bits=2, emin=-14, max_code=0x7B, inf_code=0x7C, nan_codes=(0x7D, 0x7E, 0x7F))
E3M2 = Minifloat("e3m2", bits=6, mantissa_bits=2, emin=-2, max_code=0x1F)
E2M3 = Minifloat("e2m3", bits=6, mantissa_bits=3, emin=0, max_code=0x1F)
E2M1 = Minifloat("e2m1", bits=4, mantissa_bits=1, emin=0, max_code=0x7, packed=True)
E1M2 = Minifloat("e1m2", bits=4, mantissa_bits=2, emin=0, max_code=0x7, packed=True)

FORMATS = {f.name: f for f in (E4M3, E5M2, E3M2, E2M3, E2M1, E1M2)}


def pack_nibbles(codes: np.ndarray) -> np.ndarray:
    """Two 4-bit codes per byte along the last axis, the even index in the low nibble."""
    return (codes[..., 0::2] | (codes[..., 1::2] << 4)).astype(np.uint8)


def unpack_nibbles(packed: np.ndarray) -> np.ndarray:
    """Inverse of pack_nibbles: the last axis doubles."""
    return np.stack([packed & 0xF, packed >> 4], axis=-1).reshape(*packed.shape[:-1], packed.shape[-1] * 2)


def codes_of(data: np.ndarray, fmt: str) -> np.ndarray:
    """One code per element of stored data (unpacks the 4-bit formats)."""
    return unpack_nibbles(data) if FORMATS[fmt].packed else data


def decode_stored(data: np.ndarray, fmt: str) -> np.ndarray:
    """Exact values of stored data."""
    return FORMATS[fmt].decode(codes_of(data, fmt))


def e8m0_value(byte: np.ndarray) -> np.ndarray:
    """2^(byte - 127); 0xFF is NaN."""
    wide = np.asarray(byte).astype(np.int64)
    return np.where(wide == 255, np.nan, np.ldexp(1.0, np.minimum(wide, 254) - 127))
