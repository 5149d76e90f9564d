"""torch_npu's argument values in npu_lp's terms: type codes, scale algorithms, and what each device kernel does."""

from __future__ import annotations

from typing import Any

import torch

import npu_lp.ops
from npu_lp import _formats
from npu_lp.conformance.cases import Case, CaseError

# Type codes: torch's ScalarType numbers, or 256 + the ACL type; and the names that torch and torch_npu give them.
_FORMATS: dict[Any, str] = {
    **dict.fromkeys((24, 292, "torch.float8_e4m3fn", "float8_e4m3fn", "torch_npu.float8_e4m3fn"), "e4m3"),
    **dict.fromkeys((23, 291, "torch.float8_e5m2", "float8_e5m2", "torch_npu.float8_e5m2"), "e5m2"),
    **dict.fromkeys((296, "torch_npu.float4_e2m1fn_x2", "float4_e2m1fn_x2", "torch.float4_e2m1fn_x2"), "e2m1"),
    **dict.fromkeys((297, "torch_npu.float4_e1m2fn_x2", "float4_e1m2fn_x2"), "e1m2"),
    **dict.fromkeys((290, "torch_npu.hifloat8", "hifloat8"), "hif8"),
}
_DTYPES: dict[Any, torch.dtype] = {
    **dict.fromkeys((5, "torch.float16", "float16"), torch.float16),
    **dict.fromkeys((6, "torch.float32", "float32"), torch.float32),
    **dict.fromkeys((15, "torch.bfloat16", "bfloat16"), torch.bfloat16),
}
_SCALE_RULES = {0: "floor", 1: "rceil", 2: "dtype_range"}

# What a kernel does with a block whose scale byte is 0, by scale_alg. The single-axis op, and the grouped one with
# scale_alg 0, zero it when the exponent of its maximum is at most the format's; the others only when the maximum is
# subnormal; scale_alg 1 never does.
SINGLE_AXIS = {0: "flush_emax", 1: "ocp", 2: "flush_emax"}
DUAL_AXIS = {0: "flush_subnormal", 1: "ocp", 2: "flush_subnormal"}
GROUPED = {0: "flush_emax", 1: "ocp", 2: "flush_subnormal"}
BLOCK = DUAL_AXIS


class NotAvailable(Exception):
    """npu_lp has no counterpart of what the case asks for."""


def op(name: str) -> Any:
    """The npu_lp op of this name, or NotAvailable."""
    found = getattr(npu_lp.ops, name, None)
    if found is None:
        raise NotAvailable(f"npu_lp.ops.{name} does not exist")
    return found


def known_format(name: str) -> str:
    """The format's name if the library has it, or NotAvailable."""
    if name not in _formats.FORMATS:
        raise NotAvailable(f"npu_lp has no format {name}")
    return name


def fmt(case: Case, key: str, default: int) -> str:
    """The element format that args[key] names."""
    value = case.args.get(key, default)
    if value not in _FORMATS:
        raise CaseError(f"case {case.id}: {key} {value!r} is no format; known are {', '.join(map(str, _FORMATS))}")
    return known_format(_FORMATS[value])


def out_dtype(case: Case, key: str, default: int | None = None) -> torch.dtype:
    """The output dtype that args[key] names."""
    value = case.args.get(key, default)
    if value not in _DTYPES:
        raise CaseError(f"case {case.id}: {key} {value!r} is no output dtype; known are {', '.join(map(str, _DTYPES))}")
    return _DTYPES[value]


def names_hif8(case: Case, key: str) -> bool:
    """Whether args[key] is HiFloat8."""
    return _FORMATS.get(case.args.get(key)) == "hif8"


def number(case: Case, key: str, default: float) -> float:
    """A numeric argument; null is the default, as in torch_npu's schemas."""
    value = case.args.get(key, default)
    if value is None:
        return default
    if not isinstance(value, int | float):
        raise CaseError(f"case {case.id}: {key} must be a number, got {value!r}")
    return value


def quant_options(case: Case, underflow: dict[int, str], default_dst_type: int = 296) -> dict[str, Any]:
    """fmt, scale_rule, rounding, dst_max and underflow of one of the MX quantizers."""
    scale_alg = int(number(case, "scale_alg", 0))
    if scale_alg not in _SCALE_RULES:
        raise CaseError(f"case {case.id}: scale_alg {scale_alg} is unknown; known are {sorted(_SCALE_RULES)}")
    return {
        "fmt": fmt(case, "dst_type", default_dst_type),
        "scale_rule": _SCALE_RULES[scale_alg],
        "rounding": case.args.get("round_mode", "rint"),
        "dst_max": number(case, "dst_type_max", 0.0),
        "underflow": underflow[scale_alg],
    }
