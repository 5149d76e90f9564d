"""MX quantization: blocks that share an e8m0 scale, in torch_npu's layouts of data and scales."""

from __future__ import annotations

import numpy as np
import torch

from reference import bits, minifloat
from reference.minifloat import FORMATS
from reference.scale_rules import NAN_BYTE, exponent_field, scale_bytes


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def quantize_elements(
    v: np.ndarray,
    byte: np.ndarray,
    amax_field: np.ndarray,
    fmt: str,
    *,
    source: torch.dtype,
    rule: str = "floor",
    underflow: str = "ocp",
    rounding: str = "rint",
) -> np.ndarray:
    """Codes of the elements v of blocks with the scale bytes `byte` (all arrays broadcast against v).

    The product with the power-of-two reciprocal is exact here. The device multiplies in bf16 for a bf16 tensor and in
    fp32 otherwise; the two differ from the exact product only where it underflows, and only rounding "floor" sees it:
    a negative product that the multiplication turns into -0 stays -0 instead of becoming the smallest negative value.
    """
    format_ = FORMATS[fmt]
    scaled = np.ldexp(v, 127 - np.where(byte == NAN_BYTE, 127, byte))
    if rounding == "floor":
        half_of_smallest = 2.0**-134 if source == torch.bfloat16 else 2.0**-150
        scaled = np.where(np.abs(scaled) <= half_of_smallest, np.copysign(0.0, scaled), scaled)
    if underflow == "flush_emax":
        flushed = (byte == 0) & (amax_field <= format_.emax)
    elif underflow == "flush_subnormal":
        flushed = (byte == 0) & (amax_field == 0)
    elif underflow == "ocp":
        flushed = np.zeros_like(byte, dtype=bool)
    else:
        raise ValueError(f"no underflow {underflow!r}")
    # scale_alg 1 has no such mask on any device kernel: a block there is zero only when its elements are.
    if rule != "rceil":
        scaled = np.where(flushed, np.copysign(0.0, scaled), scaled)
    return np.where(byte == NAN_BYTE, 0, format_.encode(scaled, rounding)).astype(np.uint8)


def _store(codes: np.ndarray, fmt: str) -> np.ndarray:
    return minifloat.pack_nibbles(codes) if FORMATS[fmt].packed else codes


def _quantize_values(
    v: np.ndarray,
    source: torch.dtype,
    axis: int,
    fmt: str,
    rule: str,
    block_size: int,
    underflow: str,
    rounding: str,
    dst_max: float,
    max_low_bound: float,
) -> tuple[np.ndarray, np.ndarray]:
    """One code per element (not packed) in v's shape, and scales in torch_npu's layout."""
    axis = axis % v.ndim
    last = axis == v.ndim - 1
    moved = np.moveaxis(v, axis, -1)
    outer, length = moved.shape[:-1], moved.shape[-1]
    n_blocks = ceil_div(length, block_size)
    padded = np.zeros((*outer, n_blocks * block_size))
    padded[..., :length] = moved
    blocks = padded.reshape(*outer, n_blocks, block_size)
    byte, field = scale_bytes(blocks, source, fmt, rule, dst_max=dst_max, max_low_bound=max_low_bound, last_axis=last)
    codes = quantize_elements(
        blocks, byte[..., None], field[..., None], fmt, source=source, rule=rule, underflow=underflow, rounding=rounding
    )
    codes = np.moveaxis(codes.reshape(*outer, n_blocks * block_size)[..., :length], -1, axis)
    return codes, scale_layout(byte, axis)


def scale_layout(byte: np.ndarray, axis: int) -> np.ndarray:
    """Bytes with blocks on the last axis -> pairs at `axis` and a trailing 2; an odd count is padded with 0x00."""
    outer, n_blocks = byte.shape[:-1], byte.shape[-1]
    pairs = np.zeros((*outer, 2 * ceil_div(n_blocks, 2)), dtype=np.uint8)
    pairs[..., :n_blocks] = byte
    pairs = pairs.reshape(*outer, ceil_div(n_blocks, 2), 2)
    return np.ascontiguousarray(np.moveaxis(pairs, -2, axis))


def scale_of_elements(scale: np.ndarray, axis: int, length: int, block_size: int = 32) -> np.ndarray:
    """Inverse view of scale_layout: the byte that belongs to each element, in the shape of the (unpacked) data."""
    moved = np.moveaxis(scale, axis, -2)
    flat = moved.reshape(*moved.shape[:-2], moved.shape[-2] * 2)
    return np.moveaxis(np.repeat(flat, block_size, axis=-1)[..., :length], -1, axis)


def mx_quant(
    x: torch.Tensor,
    axis: int = -1,
    fmt: str = "e4m3",
    scale_rule: str = "rceil",
    block_size: int = 32,
    *,
    underflow: str = "ocp",
    rounding: str = "rint",
    dst_max: float = 0.0,
    max_low_bound: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Data as stored (uint8) and scales (uint8) of x quantized along one axis."""
    codes, scale = _quantize_values(
        bits.values(x), x.dtype, axis, fmt, scale_rule, block_size, underflow, rounding, dst_max, max_low_bound
    )
    return _store(codes, fmt), scale


def mx_quant_dual(
    x: torch.Tensor,
    fmt: str = "e4m3",
    scale_rule: str = "rceil",
    *,
    underflow: str = "ocp",
    rounding: str = "rint",
    dst_max: float = 0.0,
    block_size: int = 32,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(data, scale) of blocks along axis -1, then along axis -2."""
    v, results = bits.values(x), []
    for axis in (-1, -2):
        codes, scale = _quantize_values(v, x.dtype, axis, fmt, scale_rule, block_size, underflow, rounding, dst_max, 0.0)
        results += [_store(codes, fmt), scale]
    return results[0], results[1], results[2], results[3]


def mx_quant_grouped(
    x: torch.Tensor,
    offs: list[int],
    fmt: str = "e4m3",
    scale_rule: str = "rceil",
    *,
    underflow: str = "ocp",
    rounding: str = "rint",
    dst_max: float = 0.0,
    block_size: int = 32,
) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of 32 rows that restart at each group; group i's scales begin at row floor(start / 64) + i.

    Rows of data past the last offset and rows of scales between the groups are 0x00. (64 is two blocks.)
    """
    rows, columns = x.shape
    v, pair = bits.values(x), 2 * block_size
    codes = np.zeros((rows, columns), dtype=np.uint8)
    scale = np.zeros((rows // pair + len(offs), columns, 2), dtype=np.uint8)
    start = 0
    for group, end in enumerate(offs):
        if end > start:
            part, part_scale = _quantize_values(
                v[start:end], x.dtype, 0, fmt, scale_rule, block_size, underflow, rounding, dst_max, 0.0
            )
            codes[start:end] = part
            first = start // pair + group
            scale[first : first + part_scale.shape[0]] = part_scale
        start = end
    return _store(codes, fmt), scale


def mx_quant_block(
    x: torch.Tensor,
    fmt: str = "e4m3",
    scale_rule: str = "floor",
    *,
    underflow: str = "ocp",
    rounding: str = "rint",
    dst_max: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One byte per 32x32 tile of the last two dims; scales in the layouts of axis -1 and of axis -2."""
    v = bits.values(x)
    rows, columns = v.shape[-2:]
    # A tile's maximum stands for the tile: the rules look at nothing else.
    amax = _tile_amax(v)[..., None]
    byte, field = scale_bytes(amax, x.dtype, fmt, scale_rule, dst_max=dst_max)
    per_element, field_per_element = (_spread_tiles(a, rows, columns) for a in (byte, field))
    codes = quantize_elements(
        v, per_element, field_per_element, fmt,
        source=x.dtype, rule=scale_rule, underflow=underflow, rounding=rounding,
    )  # fmt: skip
    return (_store(codes, fmt), *tile_scale_layouts(byte, rows, columns))


def _tile_amax(v: np.ndarray) -> np.ndarray:
    """Largest magnitude of each 32x32 tile of the last two dims; NaN wins (numpy's maximum passes it on)."""
    rows, columns = v.shape[-2:]
    if v.size == 0:
        return np.zeros((*v.shape[:-2], ceil_div(rows, 32), ceil_div(columns, 32)))
    of_rows = np.maximum.reduceat(np.abs(v), np.arange(0, rows, 32), axis=-2)
    return np.maximum.reduceat(of_rows, np.arange(0, columns, 32), axis=-1)


def _spread_tiles(per_tile: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return np.repeat(np.repeat(per_tile, 32, axis=-2)[..., :rows, :], 32, axis=-1)[..., :columns]


def tile_scale_layouts(byte: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Tile bytes [.., tile rows, tile columns] -> the scale of blocks along axis -1, and that along axis -2."""
    along_row = np.repeat(byte, 32, axis=-2)[..., :rows, :]
    along_column = np.repeat(byte, 32, axis=-1)[..., :columns]
    row_scale = scale_layout(along_row, along_row.ndim - 1)
    column_scale = scale_layout(np.moveaxis(along_column, -2, -1), along_column.ndim - 2)
    return row_scale, column_scale


_TO_BLOCK_OFFSET = {
    ("e2m1", "e4m3"): 6,
    ("e2m1", "e5m2"): 13,
    ("e1m2", "e4m3"): 8,
    ("e1m2", "e5m2"): 15,
}


def mx_to_block(
    data: np.ndarray, scale: np.ndarray, fmt_from: str, fmt_to: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Packed FP4 with scales along the last axis -> fp8 with one scale per 32x32 tile.

    A scale byte 0xFF counts as the integer 255, as the device takes it. Returns data, both scale layouts and the
    number of elements whose value changed.
    """
    v = minifloat.decode_stored(data, fmt_from)
    *outer, rows, columns = v.shape
    tile_rows, tile_columns = ceil_div(rows, 32), ceil_div(columns, 32)
    row_bytes = scale.reshape(*outer, rows, scale.shape[-2] * 2)[..., :tile_columns].astype(np.int64)
    padded = np.zeros((*outer, tile_rows * 32, tile_columns), dtype=np.int64)
    padded[..., :rows, :] = row_bytes
    largest = padded.reshape(*outer, tile_rows, 32, tile_columns).max(axis=-2)
    byte = np.maximum(largest - _TO_BLOCK_OFFSET[fmt_from, fmt_to], 0)
    shift = np.repeat(row_bytes, 32, axis=-1)[..., :columns] - _spread_tiles(byte, rows, columns)
    scaled = np.where(shift < -126, np.copysign(0.0, v), np.ldexp(v, np.maximum(shift, -126)))
    codes = FORMATS[fmt_to].encode(scaled)
    inexact = int((FORMATS[fmt_to].decode(codes) != np.ldexp(v, shift)).sum())
    return (codes, *tile_scale_layouts(byte.astype(np.uint8), rows, columns), inexact)


def dequantize_values(data: np.ndarray, scale: np.ndarray, axis: int, fmt: str, block_size: int = 32) -> np.ndarray:
    """Exact values code * 2^(byte - 127) as float64; a scale byte 0xFF makes NaN of every element of its block."""
    v = minifloat.decode_stored(data, fmt)
    axis = axis % v.ndim
    return v * minifloat.e8m0_value(scale_of_elements(scale, axis, v.shape[axis], block_size))


def mx_dequant(
    data: np.ndarray, scale: np.ndarray, axis: int, fmt: str, out_dtype: torch.dtype, block_size: int = 32
) -> np.ndarray:
    """Storage bits of the dequantized tensor in out_dtype."""
    return bits.round_to_dtype_bits(dequantize_values(data, scale, axis, fmt, block_size), out_dtype)


__all__ = [
    "ceil_div",
    "dequantize_values",
    "exponent_field",
    "mx_dequant",
    "mx_quant",
    "mx_quant_block",
    "mx_quant_dual",
    "mx_quant_grouped",
    "mx_to_block",
    "quantize_elements",
    "scale_layout",
    "scale_of_elements",
    "tile_scale_layouts",
]
