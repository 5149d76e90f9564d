"""HiFloat8: sign, a prefix-coded dot field D, a sign-magnitude exponent of D's width, and what is left as mantissa.

Decoding follows the prefix code. Encoding is nearest value in the sorted table of all finite values, ties away from
zero, which is what the bit-level rule amounts to; 49152, the value that the infinity's code would have, closes the
table so that 40960 is the point from which a value overflows.
"""

from __future__ import annotations

import numpy as np

NAN_CODE = 0x80
INF_CODE = 0x6F
MAX_CODE = 0x6E
MAX_VALUE = 32768.0


def _decode_magnitude(code: int) -> float:
    """Value of a 7-bit code (sign removed), special codes excluded."""
    if code >> 3 == 0b0000:
        m = code & 0b111
        return 0.0 if m == 0 else 2.0 ** (m - 23)
    if code >> 3 == 0b0001:
        exponent_bits, mantissa_bits = 0, 3
    elif code >> 4 == 0b001:
        exponent_bits, mantissa_bits = 1, 3
    elif code >> 5 == 0b01:
        exponent_bits, mantissa_bits = 2, 3
    elif code >> 5 == 0b10:
        exponent_bits, mantissa_bits = 3, 2
    else:
        exponent_bits, mantissa_bits = 4, 1
    mantissa = code & ((1 << mantissa_bits) - 1)
    field = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    exponent = 0
    if exponent_bits:
        # Sign first, then the magnitude without its leading one, which is implied.
        below = exponent_bits - 1
        magnitude = (1 << below) | (field & ((1 << below) - 1))
        exponent = -magnitude if field >> below else magnitude
    return 2.0**exponent * (1 + mantissa / (1 << mantissa_bits))


def _decode_code(code: int) -> float:
    if code == NAN_CODE:
        return float("nan")
    sign = -1.0 if code & 0x80 else 1.0
    magnitude = code & 0x7F
    return sign * (float("inf") if magnitude == INF_CODE else _decode_magnitude(magnitude))


DECODE_TABLE = np.array([_decode_code(c) for c in range(256)])

_order = np.argsort([_decode_magnitude(c) for c in range(128)], kind="stable")
_sorted_codes = _order.astype(np.int64)
_sorted_values = np.array([_decode_magnitude(int(c)) for c in _sorted_codes])
_midpoints = (_sorted_values[1:] + _sorted_values[:-1]) / 2


def decode(codes: np.ndarray) -> np.ndarray:
    """Codes to exact float64 values."""
    return DECODE_TABLE[np.asarray(codes).astype(np.int64)]


def encode(v: np.ndarray, saturate: bool = True) -> np.ndarray:
    """Values to codes, nearest with ties away from zero.

    saturate: overflow and Inf give +-32768 and NaN gives 0x00; otherwise Inf codes (0x6F, 0xEF) and 0x80.
    A result of zero is 0x00 whatever the sign: the format has no negative zero.
    """
    v = np.asarray(v, dtype=np.float64)
    magnitude = np.where(np.isnan(v), 0.0, np.abs(v))
    code = _sorted_codes[np.searchsorted(_midpoints, magnitude, side="right")]
    if saturate:
        code = np.where(code == INF_CODE, MAX_CODE, code)
    signed = np.where((code != 0) & (v < 0), code | 0x80, code)
    return np.where(np.isnan(v), 0 if saturate else NAN_CODE, signed).astype(np.uint8)
