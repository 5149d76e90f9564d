"""Test data and bit-for-bit comparison, shared by the op tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import npu_lp
import npu_lp.ops
import numpy as np
import torch
from on_device import OnDevice
from reference import bits

# The ops' faces accept only the names that exist (Literal types); tests also pass others, and names from variables.
ops: Any = npu_lp.ops

FLOATS = (torch.bfloat16, torch.float16, torch.float32)

# Sizes around which a blocked, vectorized kernel is likely to go wrong.
SIZES = (0, 1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 130)


def assert_bits(got: torch.Tensor, want: np.ndarray, what: str = "data") -> None:
    """The storage bits of got equal want, in shape and value; the message shows where they first differ."""
    got_bits = bits.storage_bits(got)
    assert got_bits.shape == want.shape, f"{what}: shape {got_bits.shape}, expected {want.shape}"
    different = got_bits != want
    if different.any():
        where = np.argwhere(different)
        first = [
            f"{tuple(int(j) for j in i)}: got 0x{int(got_bits[tuple(i)]):02x}, expected 0x{int(want[tuple(i)]):02x}"
            for i in where[:5]
        ]
        raise AssertionError(f"{what}: {len(where)} of {want.size} differ; " + "; ".join(first))


def on_twin() -> bool:
    """Whether the ops run the Ascend kernels: on the twin, or on a device."""
    return npu_lp.backends.selected() == "twin" or OnDevice.active


def maxima(count: int) -> np.ndarray:
    """All patterns of so many, or on the twin every fifth: it is slower, and those have every exponent still."""
    return np.arange(0, count, 5 if on_twin() else 1)


def assert_product(
    got: torch.Tensor, want: np.ndarray, a: np.ndarray, b: np.ndarray, *, factor: Any = 1.0, bias: np.ndarray | None = None
) -> None:
    """A product a @ b * factor + bias: the CPU backend's bits, which the order of its sums defines.

    The cube adds in another order. Two chains of k roundings each lie within 2 k u of each other, times the sum of
    magnitudes; the factors, the bias and the output's rounding add their own. Where that sum passes fp32's range, an order
    may overflow, and where a code times its scale does, the CPU has Inf and the cube the number: nothing is compared.
    """
    if not on_twin():
        assert_bits(got, want)
        return
    got_bits = bits.storage_bits(got)
    assert got_bits.shape == want.shape, f"shape {got_bits.shape}, expected {want.shape}"
    found, expected = bits.values(got), bits.values(from_bits(want, got.dtype))
    k = a.shape[-1]
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.abs(a) @ np.abs(b)
        magnitude = np.abs(factor) * sums + (0.0 if bias is None else np.abs(bias))
        beyond = [(np.isfinite(x) & (np.abs(x) >= 2.0**128)).any(axis=axis, keepdims=True) for x, axis in ((a, -1), (b, -2))]
    fits = (np.isnan(magnitude) | (np.maximum(sums, magnitude) < 2.0**127)) & ~(beyond[0] | beyond[1])
    assert not (fits & (np.isnan(found) != np.isnan(expected))).any(), "NaN in other places"
    unit, largest, smallest = {
        torch.float32: (2.0**-24, 2.0**128, 2.0**-149), torch.bfloat16: (2.0**-8, 2.0**128, 2.0**-133),
        torch.float16: (2.0**-11, 2.0**16, 2.0**-24),
    }[got.dtype]  # fmt: skip
    found, expected = (np.clip(np.nan_to_num(v, nan=0.0, posinf=largest, neginf=-largest), -largest, largest)
                       for v in (found, expected))  # fmt: skip
    with np.errstate(invalid="ignore", over="ignore"):
        bound = (2 * k + 6) * 2.0**-24 * magnitude + (2 * k + 2) * 2.0**-149 * np.maximum(np.abs(factor), 1.0)
        bound = bound + unit * (np.abs(found) + np.abs(expected)) + smallest
        far = fits & ~np.isnan(magnitude) & (np.abs(found - expected) > bound)
    if far.any():
        where = [tuple(int(j) for j in i) for i in np.argwhere(far)[:3]]
        limit = np.broadcast_to(bound, far.shape)
        shown = "; ".join(f"{i}: got {found[i]}, expected {expected[i]}, bound {limit[i]}" for i in where)
        raise AssertionError(f"{int(far.sum())} of {far.size} lie beyond the bound; {shown}")


def assert_grouped_product(got: torch.Tensor, want: np.ndarray, a: np.ndarray, b: np.ndarray, offs: Sequence[int]) -> None:
    """assert_product for each group of rows (split "m"), and zeros after the last."""
    for group, (start, end) in enumerate(zip([0, *offs[:-1]], offs, strict=True)):
        assert_product(got[start:end], want[start:end], a[start:end], b[group])
    assert_bits(got[offs[-1] :], np.zeros_like(want[offs[-1] :]))


def assert_same_tensors(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> None:
    """Two results of ops are equal in dtype, shape and bits."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        assert_bits(g, bits.storage_bits(w))


def from_bits(pattern: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """A tensor whose storage bits are `pattern`."""
    width = {1: np.uint8, 2: np.int16, 4: np.int32}[dtype.itemsize]
    narrow = np.ascontiguousarray(pattern.astype({1: np.uint8, 2: np.uint16, 4: np.uint32}[dtype.itemsize]))
    return torch.from_numpy(narrow.view(width)).view(dtype)


def e8m0(pattern: np.ndarray) -> torch.Tensor:
    return from_bits(pattern, torch.float8_e8m0fnu)


def all_values(dtype: torch.dtype) -> torch.Tensor:
    """All 65,536 values of a 16-bit dtype, NaNs included."""
    return from_bits(np.arange(65536), dtype)


def spread(shape: Sequence[int], dtype: torch.dtype, seed: int = 0, *, specials: bool = True) -> torch.Tensor:
    """Random values whose magnitude differs widely from block to block, in every direction.

    With specials, a few elements are 0.0, -0.0 and subnormal, and rarely NaN and Inf (so that most blocks stay finite).
    """
    rng = np.random.default_rng(seed)
    shape = tuple(shape)
    exponent = np.zeros(shape)
    for axis, size in enumerate(shape):
        per_block = rng.integers(-10, 11, -(-size // 16) + 1)
        index = np.arange(size) // 16
        exponent = exponent + per_block[index].reshape([-1 if a == axis else 1 for a in range(len(shape))])
    lowest, highest = (-14, 12) if dtype == torch.float16 else (-125, 124)
    values = rng.standard_normal(shape) * np.exp2(np.clip(exponent, lowest, highest))
    if specials and values.size:
        kinds = rng.random(shape)
        values = np.where(kinds < 0.02, 0.0, values)
        values = np.where((kinds >= 0.02) & (kinds < 0.04), -0.0, values)
        tiny = 2.0**-24 if dtype == torch.float16 else 2.0**-133
        values = np.where((kinds >= 0.04) & (kinds < 0.06), np.copysign(tiny * 3, values), values)
        values = np.where(kinds > 0.9995, np.nan, values)
        values = np.where((kinds > 0.9990) & (kinds <= 0.9995), np.copysign(np.inf, values), values)
    return from_bits(bits.round_to_dtype_bits(values, dtype), dtype)


def random_codes(shape: Sequence[int], dtype: torch.dtype, seed: int, *, finite: bool = True) -> torch.Tensor:
    """Random fp8 codes, without NaN and Inf if finite."""
    rng = np.random.default_rng(seed)
    largest = {torch.float8_e4m3fn: 0x7E, torch.float8_e5m2: 0x7B}[dtype] if finite else 0x7F
    codes = rng.integers(0, largest + 1, tuple(shape)) | (rng.integers(0, 2, tuple(shape)) << 7)
    return from_bits(codes, dtype)


def random_scales(shape: Sequence[int], seed: int, low: int = 120, high: int = 134) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return e8m0(rng.integers(low, high + 1, tuple(shape)))


def below(pattern: np.ndarray, rng: np.random.Generator, bits_wide: int, columns: int) -> np.ndarray:
    """Rows whose first element is the given pattern and whose others are not larger in magnitude, of either sign."""
    sign = 1 << (bits_wide - 1)
    magnitude = pattern[:, None].astype(np.int64) & (sign - 1)
    others = (rng.random((len(pattern), columns - 1)) * (magnitude + 1)).astype(np.int64)
    # Half of the elements lie within a few octaves of the maximum, where they do not vanish.
    near = magnitude - rng.integers(0, 6 << {16: 7, 32: 23}[bits_wide], others.shape)
    others = np.where(rng.random(others.shape) < 0.5, others, np.clip(near, 0, magnitude))
    others |= np.where(rng.random(others.shape) < 0.5, sign, 0)
    return np.concatenate([pattern[:, None].astype(np.int64), others], axis=1)
