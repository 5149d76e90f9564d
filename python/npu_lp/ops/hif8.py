"""HiFloat8 quantization and the matmuls that take HiF8 operands; npu_lp.ops says what they have in common."""

import torch
from torch import Tensor

from npu_lp.names import Granularity, Split


def hif8_quant(x: Tensor, dst_max: float = 0.0, granularity: Granularity = "tensor") -> tuple[Tensor, Tensor]:
    """Quantize ``x`` to HiF8 with an fp32 scale that takes its largest magnitude to ``dst_max`` (torch_npu:
    npu_dynamic_quant with dst_type hifloat8).

    ``scale = fl32(amax * fl32(1/dst_max))`` and ``data = hif8(x / scale)``, rounded to nearest with ties away from zero and
    saturating. A NaN or Inf in x makes its scale NaN or Inf and the codes 0, as do zeros with scale 0.

    Args:
        x: bfloat16, float16 or float32, any strides; at least two dimensions unless granularity is "tensor".
        dst_max: 0, which means HiF8's largest value 32768, or a value up to it. Small values keep the codes near 1, where
            HiF8 has most mantissa bits: MindSpeed trains with 15 for activations and weights and 224 for gradients.
        granularity: one scale for the "tensor" (shape ``[1]``), for each "token" (``x.shape[:-1]``), or for each "channel"
            (x.shape without its dimension -2).

    Returns:
        ``(data, scale)``: uint8 codes in x's shape, contiguous, and float32 scales.

    Raises:
        TypeError: x's dtype cannot be quantized.
        ValueError: dst_max is out of range, the granularity is unknown, or x has too few dimensions for it.
    """
    return torch.ops.npu_lp.hif8_quant(x, dst_max, granularity)


def hif8_dequant(
    data: Tensor, scale: Tensor, granularity: Granularity = "tensor", out_dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """Return the values of HiF8 codes times their scale, in fp32, rounded once to ``out_dtype``."""
    return torch.ops.npu_lp.hif8_dequant(data, scale, granularity, out_dtype)


def hif8_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    bias: Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    *,
    truncate_scale: bool | None = None,
) -> Tensor:
    """Multiply two HiF8 matrices (torch_npu: npu_quant_matmul with hifloat8 operands).

    The codes' products are summed as :func:`npu_lp.ops.mx_quant_matmul` sums; the scales are applied to the sum.

    Args:
        x1: ``[..., M, K]`` uint8. Leading dimensions broadcast, any strides.
        x2: ``[..., K, N]`` uint8.
        x1_scale: ``[1]``, or one for each row, ``[..., M]``.
        x2_scale: ``[1]``, or one for each column, ``[..., N]``.
        bias: float32 ``[N]``, added before the rounding.
        out_dtype: bfloat16, float16 or float32.
        truncate_scale: whether the product of the scales is cut to 10 mantissa bits before it is applied, as Ascend 950's
            fixed-function output stage does when each operand has one scale and there is no bias (semantics.md section 5).
            None follows the device; False keeps all 23 bits.

    Raises:
        TypeError: codes that are not uint8, scales or bias that are not float32.
        ValueError: shapes that do not belong together, or truncation where the device has none.
    """
    return torch.ops.npu_lp.hif8_quant_matmul(x1, x2, x1_scale, x2_scale, bias, out_dtype, truncate_scale=truncate_scale)


def hif8_grouped_matmul(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    offs: Tensor,
    split: Split = "m",
    out_dtype: torch.dtype = torch.bfloat16,
    *,
    truncate_scale: bool | None = None,
) -> Tensor:
    """Multiply HiF8 group by group; shapes and zeros are those of :func:`npu_lp.ops.mx_grouped_matmul`.

    Scales are ``[1]``, or one for each group, ``[G]``. ``truncate_scale`` is as in :func:`hif8_quant_matmul`; None follows
    the device, which always truncates here.
    """
    return torch.ops.npu_lp.hif8_grouped_matmul(
        x1, x2, x1_scale, x2_scale, offs, split, out_dtype, truncate_scale=truncate_scale
    )
