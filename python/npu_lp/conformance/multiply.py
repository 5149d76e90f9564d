"""Cases of the matmuls: MX, HiFloat8 per tensor, fp8 with block scales, and the grouped ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch

from npu_lp.conformance import arguments
from npu_lp.conformance.arguments import NotAvailable, number, op
from npu_lp.conformance.cases import Case, CaseError, stored_format, tensor
from npu_lp.conformance.comparison import Comparison, all_equal, compare


def _operand(case: Case, *names: str, device: torch.device, dtype_arg: str) -> tuple[torch.Tensor, str]:
    """A matmul operand and its format; packed FP4 is e2m1 unless args[dtype_arg] says otherwise."""
    value = case.input(*names)
    stored = stored_format(case, names[0], value)
    if case.args.get(dtype_arg) is not None:
        fmt = arguments.fmt(case, dtype_arg, 0)
    elif stored == "fp4":
        fmt = arguments.known_format("e2m1")
    elif stored is None:
        raise CaseError(f"case {case.id}: {names[0]} has no format; give {dtype_arg} in args")
    else:
        fmt = arguments.known_format(stored)
    return tensor(case, names[0], value).to(device), fmt


def quant_matmul(case: Case, device: torch.device) -> Iterator[Comparison]:
    """npu_quant_matmul: by the dtype of the scales MX; by the operands HiFloat8; else fp8 with block scales."""
    x1, fmt1 = _operand(case, "x1", device=device, dtype_arg="x1_dtype")
    x2, fmt2 = _operand(case, "x2_KxN", "x2", device=device, dtype_arg="x2_dtype")
    s1 = tensor(case, "pertoken_scale", case.input("pertoken_scale")).to(device)
    s2 = tensor(case, "scale", case.input("scale")).to(device)
    bias = tensor(case, "bias", case.inputs["bias"]).to(device) if case.inputs.get("bias") is not None else None
    dtype = arguments.out_dtype(case, "output_dtype")
    if s1.dtype == torch.float8_e8m0fnu:
        out = op("mx_quant_matmul")(x1, x2, s1, s2, bias=bias, out_dtype=dtype, x1_fmt=fmt1, x2_fmt=fmt2)
    elif fmt1 == fmt2 == "hif8":
        out = op("hif8_quant_matmul")(x1, x2, s1, s2, bias=bias, out_dtype=dtype)
    else:
        _check_block_sizes(case)
        out = op("block_quant_matmul")(x1, x2, s1, s2, out_dtype=dtype)
    yield compare(case, "out", out)


def _check_block_sizes(case: Case) -> None:
    sizes = case.args.get("group_sizes")
    if sizes not in ([128, 128, 128], [1, 128, 128]):
        raise NotAvailable(f"npu_quant_matmul with fp32 scales and group_sizes {sizes}")


def grouped_matmul(case: Case, device: torch.device) -> Iterator[Comparison]:
    """npu_grouped_matmul: group_type 0 is split "m", 2 is split "k"."""
    group_type = number(case, "group_type", -1)
    split = {0: "m", 2: "k"}.get(int(group_type))
    if split is None:
        raise NotAvailable(f"npu_grouped_matmul with group_type {group_type}")
    x1, fmt1 = _operand(case, "x", device=device, dtype_arg="x_dtype")
    x2, fmt2 = _operand(case, "weight", device=device, dtype_arg="weight_dtype")
    s1 = tensor(case, "per_token_scale", case.input("per_token_scale")).to(device)
    s2 = tensor(case, "scale", case.input("scale")).to(device)
    offs = _offsets(case).to(device)
    dtype = arguments.out_dtype(case, "output_dtype")
    if fmt1 == fmt2 == "hif8":
        out = op("hif8_grouped_matmul")(x1, x2, s1, s2, offs, split, dtype)
    else:
        out = op("mx_grouped_matmul")(x1, x2, s1, s2, offs, split, dtype, x1_fmt=fmt1, x2_fmt=fmt2)
    yield from _grouped_expectations(case, out)


def _offsets(case: Case) -> torch.Tensor:
    """End offsets from group_list, which holds them (group_list_type 0) or the counts (1)."""
    values: Any = case.args.get("group_list")
    groups = torch.tensor(values) if values is not None else tensor(case, "group_list", case.input("group_list"))
    kind = number(case, "group_list_type", 0)
    if kind not in (0, 1):
        raise NotAvailable(f"npu_grouped_matmul with group_list_type {kind}")
    return (groups.cumsum(0) if kind == 1 else groups).to(torch.int64)


def _grouped_expectations(case: Case, out: torch.Tensor) -> Iterator[Comparison]:
    """Bytes under "out", or parts in words: rows_A_B or out[G], a number or "zeros"; "unchanged" is not compared."""
    if "out" in case.expected:
        yield compare(case, "out", out)
        return
    for name, text in case.expected.items():
        if match := re.fullmatch(r"rows_(\d+)_(\d+)", name):
            part = out[int(match[1]) : int(match[2]) + 1]
        elif match := re.fullmatch(r"out\[(\d+)\]", name):
            part = out[int(match[1])]
        else:
            raise CaseError(f"case {case.id}: expected has {name!r}; known are out, rows_A_B and out[G]")
        if text.startswith("unchanged"):
            continue
        if text.startswith("zeros"):
            yield all_equal(name, part, 0.0)
        elif match := re.match(r"-?\d+(\.\d+)?", text):
            yield all_equal(name, part, float(match[0]))
        else:
            raise CaseError(f"case {case.id}: {name}: expected a number, zeros or unchanged, got {text!r}")
