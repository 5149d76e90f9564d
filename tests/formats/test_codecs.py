"""csrc/formats, as exported to Python: codecs and scale rules against the numpy model, on everything that can be listed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from npu_lp import _formats
from reference import bits, hif8, minifloat, scale_rules
from reference.minifloat import FORMATS

ROUNDINGS = dict.fromkeys(FORMATS, ("rint", "round", "floor"))
BF16 = bits.fp32_values(np.arange(65536, dtype=np.uint32) << 16)
FP16 = bits.ieee_values(np.arange(65536), exponent_bits=5, mantissa_bits=10)


def fp32(v: np.ndarray) -> np.ndarray:
    """Exact values as fp32 (they are fp32 numbers)."""
    return bits.round_to_dtype_bits(v, torch.float32).view(np.float32)


def around(v: np.ndarray) -> np.ndarray:
    """Each value and its fp32 neighbours, of both signs."""
    narrow = fp32(bits.fl32(v))
    near = [narrow, np.nextafter(narrow, np.float32(-np.inf)), np.nextafter(narrow, np.float32(np.inf))]
    return np.concatenate([sign * n for n in near for sign in (1, -1)]).astype(np.float64)


def midpoints(values: np.ndarray) -> np.ndarray:
    ordered = np.unique(values[np.isfinite(values)])
    return np.concatenate([ordered, (ordered[1:] + ordered[:-1]) / 2])


def random_fp32(count: int) -> np.ndarray:
    return bits.fp32_values(np.random.default_rng(0).integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32))


def test_the_table_lists_every_format_with_its_facts() -> None:
    assert set(_formats.FORMATS) == {*FORMATS, "hif8"}
    for name, fmt in FORMATS.items():
        entry = _formats.FORMATS[name]
        assert (entry["emax"], entry["max_value"], entry["is_mx"]) == (fmt.emax, fmt.max_value, True)
    assert (_formats.FORMATS["hif8"]["max_value"], _formats.FORMATS["hif8"]["is_mx"]) == (hif8.MAX_VALUE, False)


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_code_decodes(fmt: str) -> None:
    codes = np.arange(1 << FORMATS[fmt].bits, dtype=np.uint8)
    got, want = _formats.decode(fmt, codes), FORMATS[fmt].decode(codes)
    np.testing.assert_array_equal(got.astype(np.float64), want)
    finite = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(want[finite]))


@pytest.mark.parametrize(("fmt", "rounding"), [(f, r) for f, names in ROUNDINGS.items() for r in names])
def test_encoding_of_every_bf16_every_fp16_random_fp32_and_every_midpoint_and_its_neighbours(
    fmt: str, rounding: str
) -> None:
    values = FORMATS[fmt].decode(np.arange(1 << FORMATS[fmt].bits))
    v = np.concatenate([BF16, FP16, random_fp32(200_000), around(midpoints(values)), around(values * 2.0**-20)])
    np.testing.assert_array_equal(_formats.encode(fmt, fp32(v), rounding), FORMATS[fmt].encode(v, rounding))


def test_every_hif8_code_decodes() -> None:
    got = _formats.decode("hif8", np.arange(256, dtype=np.uint8))
    np.testing.assert_array_equal(
        bits.round_to_dtype_bits(got.astype(np.float64), torch.float32),
        bits.round_to_dtype_bits(hif8.DECODE_TABLE, torch.float32),
    )


@pytest.mark.parametrize("saturate", [True, False])
def test_hif8_encoding_of_every_bf16_every_fp16_random_fp32_and_every_midpoint_and_its_neighbours(
    saturate: bool,
) -> None:
    edges = np.array([2.0**-24, 0.99 * 2.0**-23, 2.0**-23, 40960.0, 49152.0, 65536.0, 1e30])
    v = np.concatenate([BF16, FP16, random_fp32(400_000), around(midpoints(hif8.DECODE_TABLE)), around(edges)])
    got = _formats.encode("hif8", fp32(v), "round", saturate)
    np.testing.assert_array_equal(got, hif8.encode(v, saturate))


def test_hif8_of_the_values_in_field_report_bc_010() -> None:
    values = [1.0625, 17, 18, 0.99 * 2**-23, 2**-23, 2**-22, 32768, -0.0, float("nan")]
    codes = _formats.encode("hif8", np.array(values, dtype=np.float32), "round", False)
    decoded = _formats.decode("hif8", codes)
    np.testing.assert_array_equal(decoded, [1.125, 16, 20, 0, 2.0**-22, 2.0**-22, 32768, 0, np.nan])
    assert codes.tolist()[3:] == [0x00, 0x01, 0x01, 0x6E, 0x00, 0x80]
    overflow = np.array([40960, 49152, np.inf], dtype=np.float32)
    assert _formats.encode("hif8", overflow, "round", False).tolist() == [0x6F] * 3
    assert _formats.encode("hif8", overflow, "round", True).tolist() == [0x6E] * 3


def test_hif8_rounds_ties_away_only() -> None:
    with pytest.raises(ValueError, match="round"):
        _formats.encode("hif8", np.zeros(1, dtype=np.float32), "rint")


def test_unknown_names_are_errors() -> None:
    with pytest.raises(ValueError, match="e9m9"):
        _formats.decode("e9m9", np.zeros(1, dtype=np.uint8))
    with pytest.raises(ValueError, match="nearest"):
        _formats.encode("e4m3", np.zeros(1, dtype=np.float32), "nearest")


def fp32_maxima() -> np.ndarray:
    """Every fp32 exponent with mantissas at and around the points where a rule rounds up."""
    rng = np.random.default_rng(1)
    steps = [0, 0x400000, 0x600000, 0x680000, 0x200000, 0x100000, 0x700000, 0x408000, 0x608000, 0x7FFFFF]
    mantissas = np.unique(np.clip([s + d for s in steps for d in (-2, -1, 0, 1, 2)], 0, 0x7FFFFF))
    mantissas = np.concatenate([mantissas, rng.integers(0, 1 << 23, 400)])
    return bits.fp32_values((np.arange(256)[:, None] << 23 | mantissas).reshape(-1).astype(np.uint32))


@pytest.mark.parametrize("fmt", FORMATS)
def test_floor_byte_of_every_bf16_and_of_fp32_around_the_boundaries(fmt: str) -> None:
    for amax in (np.abs(BF16), fp32_maxima()):
        got = _formats.scale_floor(fp32(amax), FORMATS[fmt].emax)
        np.testing.assert_array_equal(got, scale_rules.floor_byte(amax, FORMATS[fmt].emax))


@pytest.mark.parametrize("fmt", FORMATS)
def test_rceil_byte_of_every_bf16_and_of_fp32_around_the_boundaries(fmt: str) -> None:
    factor = scale_rules.rceil_factor(fmt)
    for amax in (np.abs(BF16), fp32_maxima(), around(FORMATS[fmt].max_value * np.exp2(np.arange(-140.0, 110.0)))):
        amax = np.abs(amax)
        got = _formats.scale_rceil(fp32(amax), FORMATS[fmt].max_value)
        np.testing.assert_array_equal(got, scale_rules.rceil_byte(amax, factor))


DST_MAX = [("e2m1", m) for m in (6.0, 6.5, 7.0, 7.5, 8.0, 9.0, 10.0, 11.0, 11.9, 12.0)]
DST_MAX += [("e1m2", m) for m in (1.75, 1.875, 2.0, 3.0, 3.5)]


@pytest.mark.parametrize(("fmt", "dst_max"), DST_MAX)
@pytest.mark.parametrize("truncate", [True, False])
def test_dtype_range_byte_of_every_bf16_and_of_fp32_around_the_boundaries(truncate: bool, fmt: str, dst_max: float) -> None:
    for amax in (np.abs(BF16), fp32_maxima()):
        got = _formats.scale_dtype_range(fp32(amax), dst_max, FORMATS[fmt].emax, truncate)
        pattern = scale_rules.bf16_maximum(amax, nearest=not truncate)
        np.testing.assert_array_equal(got, scale_rules.dtype_range_byte(pattern, fmt, dst_max))


def test_every_e8m0_byte() -> None:
    codes = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(_formats.e8m0_value(codes).astype(np.float64), minifloat.e8m0_value(codes))
