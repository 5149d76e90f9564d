"""Cases of the quantizing ops, of dequantization and of the HiFloat8 casts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from npu_lp import _formats
from npu_lp.conformance import arguments
from npu_lp.conformance.arguments import NotAvailable, number, op
from npu_lp.conformance.cases import Case, CaseError, tensor
from npu_lp.conformance.comparison import Comparison, compare, holds


def dynamic_mx_quant(case: Case, device: torch.device) -> Iterator[Comparison]:
    """npu_dynamic_mx_quant: mx_quant with the single-axis kernel's behaviour in blocks of scale byte 0."""
    data, scale = op("mx_quant")(
        tensor(case, "input", case.input("input", "x")).to(device),
        int(number(case, "axis", -1)),
        block_size=int(number(case, "block_size", 32)),
        max_low_bound=number(case, "max_low_bound", 0.0),
        **arguments.quant_options(case, arguments.SINGLE_AXIS),
    )
    yield compare(case, "y", data)
    yield compare(case, "mxscale", scale)


def dynamic_mx_quant_with_dual_axis(case: Case, device: torch.device) -> Iterator[Comparison]:
    """npu_dynamic_mx_quant_with_dual_axis: mx_quant_dual."""
    results = op("mx_quant_dual")(
        tensor(case, "input", case.input("input", "x")).to(device),
        **arguments.quant_options(case, arguments.DUAL_AXIS),
    )
    for name, result in zip(("y1", "mxscale1", "y2", "mxscale2"), results, strict=True):
        yield compare(case, name, result)


def grouped_dynamic_mx_quant(case: Case, device: torch.device) -> Iterator[Comparison]:
    """npu_grouped_dynamic_mx_quant: mx_quant_grouped; group_index is offs."""
    if number(case, "blocksize", 32) != 32:
        raise CaseError(f"case {case.id}: the op takes blocksize 32 only, got {case.args['blocksize']}")
    data, scale = op("mx_quant_grouped")(
        tensor(case, "x", case.input("x", "input")).to(device),
        tensor(case, "group_index", case.input("group_index")).to(device),
        **arguments.quant_options(case, arguments.GROUPED, default_dst_type=23),
    )
    yield compare(case, "y", data)
    yield compare(case, "mxscale", scale, written_rows=case.expected.get("mxscale_written_rows"))


def dynamic_block_mx_quant(case: Case, device: torch.device) -> Iterator[Comparison]:
    """npu_dynamic_block_mx_quant: mx_quant_block."""
    results = op("mx_quant_block")(
        tensor(case, "input", case.input("input", "x")).to(device), **arguments.quant_options(case, arguments.BLOCK)
    )
    for name, result in zip(("y", "scale1", "scale2"), results, strict=True):
        yield compare(case, name, result)


def mx_to_block_mx_quant(case: Case, device: torch.device) -> Iterator[Comparison]:
    """cann_ops_nn.mx_to_block_mx_quant: mx_to_block, with the device's reading of a scale byte 0xFF."""
    data, scale_row, scale_col, _ = op("mx_to_block")(
        tensor(case, "x", case.input("x")).to(device),
        tensor(case, "mxscale", case.input("mxscale")).to(device),
        arguments.fmt(case, "x_type", 296),
        arguments.fmt(case, "dst_type", 292),
        nan_as_number=True,
    )
    yield compare(case, "y", data)
    byte = case.output("scale_byte_all_blocks")
    for name, scale, blocks in (("scale1", scale_row, data.shape[-1]), ("scale2", scale_col, data.shape[-2])):
        # Bytes of blocks are those before the pad byte of an odd count, which stands last in the last pair.
        pair_axis = -2 if name == "scale1" else -3
        flat = scale.view(torch.uint8).cpu().movedim(pair_axis, -2).flatten(-2)[..., : -(-blocks // 32)]
        found = sorted(set(flat.flatten().tolist()))
        yield holds(name, found == [byte], f"scale bytes {found}, expected {byte} for every tile")


def dynamic_quant(case: Case, device: torch.device) -> Iterator[Comparison]:
    """npu_dynamic_quant to HiFloat8: hif8_quant."""
    if not arguments.names_hif8(case, "dst_type"):
        raise NotAvailable(f"npu_dynamic_quant to dst_type {case.args.get('dst_type')}: npu_lp offers HiFloat8 only")
    granularity = {"pertensor": "tensor", "pertoken": "token", "perchannel": "channel"}
    mode = case.args.get("quant_mode", "pertoken")
    if mode not in granularity:
        raise CaseError(f"case {case.id}: quant_mode {mode!r} is unknown; known are {', '.join(granularity)}")
    data, scale = op("hif8_quant")(
        tensor(case, "input", case.input("input", "x")).to(device), number(case, "dst_type_max", 0.0), granularity[mode]
    )
    yield compare(case, "y", data)
    yield compare(case, "scale", scale)


def dynamic_block_quant(case: Case, device: torch.device) -> Iterator[Comparison]:
    """npu_dynamic_block_quant: block_quant."""
    data, scale = op("block_quant")(
        tensor(case, "x", case.input("x", "input")).to(device),
        int(number(case, "row_block_size", 1)),
        int(number(case, "col_block_size", 128)),
        arguments.fmt(case, "dst_type", 291),
        dst_max=number(case, "dst_type_max", 0.0),
        min_scale=number(case, "min_scale", 0.0),
    )
    yield compare(case, "y", data)
    yield compare(case, "scale", scale)


def anti_mx_quant(case: Case, device: torch.device) -> Iterator[Comparison]:
    """npu_anti_mx_quant: mx_dequant."""
    y = op("mx_dequant")(
        tensor(case, "x", case.input("x")).to(device),
        tensor(case, "mxscale", case.input("mxscale")).to(device),
        int(number(case, "axis", -1)),
        arguments.fmt(case, "src_type", 292),
        arguments.out_dtype(case, "dst_type", 15),
    )
    yield compare(case, "y", y)


def hif8_decode(case: Case, device: torch.device) -> Iterator[Comparison]:
    """Every HiFloat8 code: the codec's value, given as big-endian fp32 hex."""
    arguments.known_format("hif8")
    values = case.output("fp32_hex")
    if not isinstance(values, list) or len(values) != 256:
        raise CaseError(f"case {case.id}: fp32_hex must list 256 values")
    want = torch.tensor([int(v, 16) for v in values], dtype=torch.int64).to(torch.uint32)
    got = torch.from_numpy(_formats.decode("hif8", np.arange(256, dtype=np.uint8)))
    different = (got.view(torch.int32) != want.view(torch.int32)).nonzero()[:, 0].tolist()
    yield holds(
        "fp32_hex",
        not different,
        lambda: f"{len(different)} codes differ, first 0x{different[0]:02x}: {float(got[different[0]])}",
    )


def hif8_cast(case: Case, device: torch.device) -> Iterator[Comparison]:
    """fp32 -> HiFloat8 with CAST_ROUND, saturating or not: the codec."""
    arguments.known_format("hif8")
    x = tensor(case, "x", case.input("x")).numpy()
    codes = _formats.encode("hif8", x, rounding="round", saturate=bool(case.args.get("sat", True)))
    yield compare(case, "codes", torch.from_numpy(codes))
