"""The model in tests/reference agrees with the golden cases and, where ml_dtypes has the format, with ml_dtypes."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from reference import bits, fp32_scaled, hif8, matmul, minifloat, mx
from reference.minifloat import FORMATS

CASES = json.loads((Path(__file__).parent / "data" / "golden_cases.json").read_text())["cases"]
BY_ID = {case["id"]: case for case in CASES}

FMT = {
    "torch.float8_e4m3fn": "e4m3",
    "torch.float8_e5m2": "e5m2",
    "torch_npu.float4_e2m1fn_x2": "e2m1",
    "torch_npu.float4_e1m2fn_x2": "e1m2",
}
RULE = {0: "floor", 1: "rceil", 2: "dtype_range"}
TORCH = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def ids(op: str) -> list[str]:
    found = [case["id"] for case in CASES if case["op"] == op]
    assert found
    return found


def raw(field: dict[str, Any]) -> np.ndarray:
    dtypes = {"bfloat16": np.uint16, "float16": np.uint16, "float32": np.uint32, "int32": np.int32}
    dtype = dtypes.get(field["dtype"], np.uint8)
    return np.frombuffer(bytes.fromhex(field["hex_le"]), dtype=dtype).reshape(field["shape"])


def tensor(field: dict[str, Any]) -> torch.Tensor:
    array = raw(field)
    integers = array.view(np.int16 if array.itemsize == 2 else np.int32).copy()
    return torch.from_numpy(integers).view(TORCH[field["dtype"]])


def options(args: dict[str, Any], underflow: dict[int, str]) -> dict[str, Any]:
    return {
        "fmt": FMT[args["dst_type"]],
        "scale_rule": RULE[args["scale_alg"]],
        "rounding": args["round_mode"],
        "dst_max": args["dst_type_max"],
        "underflow": underflow[args["scale_alg"]],
    }


def assert_same(got: np.ndarray, expected: dict[str, Any]) -> None:
    want = raw(expected)
    assert got.shape == want.shape
    written = want != 0xCC if want.dtype == np.uint8 else np.ones(want.shape, dtype=bool)
    np.testing.assert_array_equal(got[written], want[written])


@pytest.mark.parametrize("case_id", ids("npu_dynamic_mx_quant"))
def test_single_axis_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    args = case["args"]
    data, scale = mx.mx_quant(
        tensor(case["inputs"]["input"]),
        args["axis"],
        block_size=args["block_size"],
        max_low_bound=args["max_low_bound"],
        **options(args, {0: "flush_emax", 1: "ocp", 2: "flush_emax"}),
    )
    assert_same(data, case["expected"]["y"])
    assert_same(scale, case["expected"]["mxscale"])


@pytest.mark.parametrize("case_id", ids("npu_dynamic_mx_quant_with_dual_axis"))
def test_dual_axis_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    got = mx.mx_quant_dual(
        tensor(case["inputs"]["input"]),
        **options(case["args"], {0: "flush_subnormal", 1: "ocp", 2: "flush_subnormal"}),
    )
    for name, array in zip(("y1", "mxscale1", "y2", "mxscale2"), got, strict=True):
        assert_same(array, case["expected"][name])


@pytest.mark.parametrize("case_id", ids("npu_grouped_dynamic_mx_quant"))
def test_grouped_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    data, scale = mx.mx_quant_grouped(
        tensor(case["inputs"]["x"]),
        raw(case["inputs"]["group_index"]).tolist(),
        **options(case["args"], {0: "flush_emax", 1: "ocp", 2: "flush_subnormal"}),
    )
    assert_same(data, case["expected"]["y"])
    assert_same(scale, case["expected"]["mxscale"])


@pytest.mark.parametrize("case_id", ids("npu_dynamic_block_mx_quant"))
def test_block_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    got = mx.mx_quant_block(
        tensor(case["inputs"]["input"]), **options(case["args"], {0: "flush_subnormal", 2: "flush_subnormal"})
    )
    for name, array in zip(("y", "scale1", "scale2"), got, strict=True):
        assert_same(array, case["expected"][name])


@pytest.mark.parametrize("case_id", ids("cann_ops_nn.mx_to_block_mx_quant"))
def test_mx_to_block_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    args = case["args"]
    data, row_scale, column_scale, _ = mx.mx_to_block(
        raw(case["inputs"]["x"]), raw(case["inputs"]["mxscale"]), FMT[args["x_type"]], FMT[args["dst_type"]]
    )
    assert_same(data, case["expected"]["y"])
    byte = case["expected"]["scale_byte_all_blocks"]
    assert (row_scale[..., 0] == byte).all()
    assert (column_scale[..., 0] == byte).all()


@pytest.mark.parametrize("case_id", ids("npu_dynamic_quant"))
def test_hif8_quant_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    codes, scale = fp32_scaled.hif8_quant(tensor(case["inputs"]["input"]), case["args"]["dst_type_max"], "tensor")
    assert_same(codes, case["expected"]["y"])
    assert_same(scale, case["expected"]["scale"])


@pytest.mark.parametrize("case_id", ids("npu_dynamic_block_quant"))
def test_block_quant_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    args = case["args"]
    codes, scale = fp32_scaled.block_quant(
        tensor(case["inputs"]["x"]), args["row_block_size"], args["col_block_size"], FMT[args["dst_type"]],
        dst_max=args["dst_type_max"], min_scale=args["min_scale"],
    )  # fmt: skip
    assert_same(codes, case["expected"]["y"])
    assert_same(scale, case["expected"]["scale"])


@pytest.mark.parametrize("case_id", [i for i in ids("npu_quant_matmul") if i.startswith("mm-mx")])
def test_mx_matmul_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    inputs = case["inputs"]
    fmt = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "uint8(2xfp4)": "e2m1"}[inputs["x1"]["dtype"]]
    a = mx.dequantize_values(raw(inputs["x1"]), raw(inputs["pertoken_scale"]), -1, fmt)
    b = mx.dequantize_values(raw(inputs["x2_KxN"]), raw(inputs["scale"]), -2, fmt)
    assert_same(matmul.matmul(a, b), case["expected"]["out"])


@pytest.mark.parametrize("case_id", [i for i in ids("npu_quant_matmul") if i.startswith("mm-hif8")])
def test_hif8_matmul_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    inputs = case["inputs"]
    a, b = hif8.decode(raw(inputs["x1"])), hif8.decode(raw(inputs["x2_KxN"]))
    s1, s2 = bits.fp32_values(raw(inputs["pertoken_scale"])), bits.fp32_values(raw(inputs["scale"]))
    out_dtype = TORCH[case["expected"]["out"]["dtype"]]
    assert_same(matmul.scaled_hif8_matmul(a, b, s1, s2, None, out_dtype), case["expected"]["out"])


def test_block_scaled_matmul_case() -> None:
    case = BY_ID["mm-bb-perblock"]
    s1 = bits.fp32_values(raw(case["inputs"]["pertoken_scale"]))
    s2 = bits.fp32_values(raw(case["inputs"]["scale"]))
    got = matmul.block_scaled_matmul(np.ones((1, 256)), np.ones((256, 1)), s1, s2, torch.float32)
    assert_same(got, case["expected"]["out"])


def test_hif8_decode_case() -> None:
    expected = [int(h, 16) for h in BY_ID["hif8-decode-256"]["expected"]["fp32_hex"]]
    got = bits.round_to_dtype_bits(hif8.decode(np.arange(256)), torch.float32)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("case_id", ids("fp32->hif8 CAST_ROUND"))
def test_hif8_encode_cases(case_id: str) -> None:
    case = BY_ID[case_id]
    got = hif8.encode(bits.fp32_values(raw(case["inputs"]["x"])), saturate=case["args"]["sat"])
    assert_same(got, case["expected"]["codes"])


def test_hif8_finite_codes_round_trip_and_are_distinct() -> None:
    finite = np.array([c for c in range(256) if np.isfinite(hif8.DECODE_TABLE[c])])
    assert finite.size == 253
    np.testing.assert_array_equal(hif8.encode(hif8.decode(finite)), finite)
    assert np.unique(hif8.decode(finite)).size == 253


ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize("fmt", ML_DTYPES)
def test_every_code_decodes_as_ml_dtypes(fmt: str) -> None:
    codes = np.arange(1 << FORMATS[fmt].bits, dtype=np.uint8)
    want = codes.view(ML_DTYPES[fmt]).astype(np.float64)
    got = FORMATS[fmt].decode(codes)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)]))


@pytest.mark.parametrize("fmt", ML_DTYPES)
def test_every_bf16_encodes_as_ml_dtypes_after_clamping(fmt: str) -> None:
    v = bits.fp32_values(np.arange(65536, dtype=np.uint32) << 16)
    v = v[~np.isnan(v)]
    limit = FORMATS[fmt].max_value
    want = np.clip(v, -limit, limit).astype(np.float32).astype(ML_DTYPES[fmt]).view(np.uint8)
    np.testing.assert_array_equal(FORMATS[fmt].encode(v), want & ((1 << FORMATS[fmt].bits) - 1))


def test_every_bf16_and_fp16_decodes_as_numpy() -> None:
    patterns = np.arange(65536, dtype=np.uint16)
    patterns = patterns[((patterns & 0x7FFF) <= 0x7C00)]  # no NaN of either format
    pairs = [
        (bits.fp32_values(patterns.astype(np.uint32) << 16), patterns.view(ml_dtypes.bfloat16).astype(np.float64)),
        (bits.ieee_values(patterns, exponent_bits=5, mantissa_bits=10), patterns.view(np.float16).astype(np.float64)),
    ]
    for got, want in pairs:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("dtype", "numpy_dtype"), [(torch.bfloat16, ml_dtypes.bfloat16), (torch.float16, np.float16)])
def test_rounding_fp32_to_16_bits_agrees_with_numpy(dtype: torch.dtype, numpy_dtype: type) -> None:
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 1 << 32, 400_000, dtype=np.uint64).astype(np.uint32)
    pattern = pattern[(pattern & 0x7F800000) != 0x7F800000]
    got = bits.round_to_dtype_bits(bits.fp32_values(pattern), dtype)
    with np.errstate(over="ignore"):
        want = pattern.view(np.float32).astype(numpy_dtype).view(np.uint16)
    np.testing.assert_array_equal(got, want)


def test_fma_rounds_once() -> None:
    """Against exact rational arithmetic, on operands made to land near ties, across all exponents."""
    rng = np.random.default_rng(1)
    n = 4000
    a = np.ldexp(rng.integers(-255, 256, n).astype(np.float64), rng.integers(-40, 40, n))
    b = np.ldexp(rng.integers(-255, 256, n).astype(np.float64), rng.integers(-40, 40, n))
    # c's last place lies around the product's, or the product around half of c's last place.
    c = np.ldexp(rng.integers(-(1 << 24) + 1, 1 << 24, n).astype(np.float64), rng.integers(-70, 50, n))
    half = rng.random(n) < 0.5
    _, exponent = np.frexp(c)
    b = np.where(half, np.ldexp(np.where(rng.random(n) < 0.5, 1.0, -1.0), np.maximum(exponent - 25, -140)), b)
    a = np.where(half, 1.0 + rng.integers(0, 3, n) * 2.0**-7, a)
    got = matmul.fma32(a, b, c)
    for i in range(n):
        exact = Fraction(a[i]) * Fraction(b[i]) + Fraction(c[i])
        rounded = np.float32(got[i])
        error = abs(exact - Fraction(float(rounded)))
        for direction in (-np.inf, np.inf):
            distance = abs(exact - Fraction(float(np.nextafter(rounded, np.float32(direction)))))
            assert error < distance or (error == distance and rounded.view(np.uint32) % 2 == 0)


def test_dequantized_values_of_every_code_and_scale_byte() -> None:
    for fmt in ("e4m3", "e5m2"):
        data = np.arange(256, dtype=np.uint8)[:, None]
        for byte in range(256):
            scale = np.zeros((256, 1, 2), dtype=np.uint8)
            scale[:, 0, 0] = byte
            got = mx.dequantize_values(data, scale, -1, fmt)[:, 0]
            factor = np.nan if byte == 255 else 2.0 ** (byte - 127)
            np.testing.assert_array_equal(got, FORMATS[fmt].decode(data[:, 0]) * factor)


def test_nibbles_pack_the_even_index_low() -> None:
    np.testing.assert_array_equal(minifloat.pack_nibbles(np.array([[1, 2, 15, 0]], dtype=np.uint8)), [[0x21, 0x0F]])
    every = np.arange(256, dtype=np.uint8)[None]
    np.testing.assert_array_equal(minifloat.pack_nibbles(minifloat.unpack_nibbles(every)), every)
