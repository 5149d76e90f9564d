"""Quantization with fp32 scales: HiF8 per tensor, token or channel, and fp8 or HiF8 per rectangular block."""

from __future__ import annotations

import numpy as np
import torch

from reference import bits, hif8
from reference.minifloat import FORMATS
from reference.scale_rules import block_amax


def div32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """fp32 division of fp32 values, correctly rounded.

    Rounding the float64 quotient to fp32 is right for normal results: 53 >= 2 * 24 + 2 bits. A result in the subnormal
    range of fp32 has fewer bits to round to, so the same holds there.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return bits.fl32(a / b)


def hif8_quant(x: torch.Tensor, dst_max: float = 0.0, granularity: str = "tensor") -> tuple[np.ndarray, np.ndarray]:
    """Codes and fp32 scale bits: scale = fl32(amax * fl32(1 / dst_max)), codes of the quotients, saturating.

    Scale shape: tensor [1], token x.shape[:-1], channel x.shape without dim -2.
    """
    v = bits.values(x)
    factor = bits.fl32(np.array(1.0 / (dst_max or hif8.MAX_VALUE)))
    if granularity == "tensor":
        amax = block_amax(v.reshape(1, -1))
        per_element = bits.fl32(amax * factor).reshape((1,) * max(v.ndim, 1))
        scale = bits.fl32(amax * factor)
    elif granularity == "token":
        scale = bits.fl32(block_amax(v) * factor)
        per_element = scale[..., None]
    elif granularity == "channel":
        scale = bits.fl32(block_amax(np.moveaxis(v, -2, -1)) * factor)
        per_element = scale[..., None, :]
    else:
        raise ValueError(f"no granularity {granularity!r}")
    codes = hif8.encode(div32(v, per_element), saturate=True).reshape(v.shape)
    return codes, bits.round_to_dtype_bits(scale, torch.float32)


def block_quant(
    x: torch.Tensor, row: int, col: int, fmt: str, *, dst_max: float = 0.0, min_scale: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Codes and fp32 scale bits [.., ceil(M / row), ceil(N / col)] of finite x: scale = amax / format maximum.

    The scale is limited by 1 / min_scale; a zero tile has scale 0 and codes 0.
    """
    v = bits.values(x)
    *outer, rows, columns = v.shape
    tile_rows, tile_columns = -(-rows // row), -(-columns // col)
    padded = np.zeros((*outer, tile_rows * row, tile_columns * col))
    padded[..., :rows, :columns] = v
    tiles = np.moveaxis(padded.reshape(*outer, tile_rows, row, tile_columns, col), -3, -2)
    amax = block_amax(tiles.reshape(*outer, tile_rows, tile_columns, row * col))
    largest = dst_max or (hif8.MAX_VALUE if fmt == "hif8" else FORMATS[fmt].max_value)
    scale = div32(amax, np.array(largest))
    if min_scale > 0:
        scale = np.minimum(scale, div32(np.array(1.0), bits.fl32(np.array(min_scale))))
    spread = np.repeat(np.repeat(scale, row, axis=-2)[..., :rows, :], col, axis=-1)[..., :columns]
    quotient = div32(v, spread)
    codes = hif8.encode(quotient) if fmt == "hif8" else FORMATS[fmt].encode(quotient)
    codes = np.where(spread == 0, 0, codes).astype(np.uint8)
    return codes, bits.round_to_dtype_bits(scale, torch.float32)
