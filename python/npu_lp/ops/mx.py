"""MX quantization and the matmuls that take MX operands; npu_lp.ops says what they have in common."""

import torch
from torch import Tensor

from npu_lp.names import Format, Rounding, ScaleRule, Split, Underflow


def mx_quant(
    x: Tensor,
    axis: int = -1,
    fmt: Format = "e4m3",
    scale_rule: ScaleRule = "rceil",
    block_size: int = 32,
    *,
    underflow: Underflow = "ocp",
    rounding: Rounding = "rint",
    dst_max: float = 0.0,
    max_low_bound: float = 0.0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Quantize ``x`` in blocks of 32 along ``axis`` (torch_npu: npu_dynamic_mx_quant).

    Args:
        x: bfloat16, float16 or float32, any rank of at least 1, any strides; empty dimensions are allowed.
        axis: the axis that blocks lie along. A last block of fewer than 32 elements counts as padded with zeros.
        fmt: element format. FP4 ("e2m1", "e1m2") needs an even last dimension.
        scale_rule: how amax becomes the scale; FP8 takes "floor" and "rceil", FP4 "floor" and "dtype_range".
        block_size: 32, the MX block; 16, 64 and 128 are for research on the CPU.
        underflow: what happens to the elements of a block whose scale byte is 0. "ocp" quantizes them with what the byte
            means; "flush_emax" and "flush_subnormal" write zeros where Ascend's single-axis and dual-axis kernels do
            (semantics.md section 2.3).
        rounding: "rint" is to nearest, ties to even. FP4 also has "round" (ties away) and "floor" (towards minus
            infinity). "stochastic", for research on the CPU, rounds up with the probability of the fraction.
        dst_max: the value that "dtype_range" scales amax to: 0 (the format's maximum) or 6 to 12.
        max_low_bound: for "rceil", amax counts as at least this (a block of zeros stays one).
        generator: of stochastic rounding; None is torch's default. Each call draws once from it, so that successive calls
            differ, equal states give equal bits for any number of threads, and its state is saved as torch's is.

    Returns:
        ``(data, scale)``: codes in x's shape (last dimension halved for FP4), contiguous; scales as
        torch.float8_e8m0fnu, ``x.shape`` with ``d -> ceil(ceil(d/32)/2)`` at ``axis`` and a trailing 2.

    Raises:
        TypeError: x's dtype cannot be quantized.
        ValueError: an unknown name, a combination that the reference does not have, or an odd last dimension with FP4.
        IndexError: axis is out of range.
    """
    return torch.ops.npu_lp.mx_quant(
        x,
        axis,
        fmt,
        scale_rule,
        block_size,
        underflow=underflow,
        rounding=rounding,
        dst_max=dst_max,
        max_low_bound=max_low_bound,
        generator=generator,
    )


def mx_quant_dual(
    x: Tensor,
    fmt: Format = "e4m3",
    scale_rule: ScaleRule = "rceil",
    *,
    underflow: Underflow = "ocp",
    rounding: Rounding = "rint",
    dst_max: float = 0.0,
    generator: torch.Generator | None = None,
    block_size: int = 32,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Quantize ``x [..., M, N]`` along its last axis and, apart, along the one before, from one read of x.

    (torch_npu: npu_dynamic_mx_quant_with_dual_axis.) A training step needs both: the forward matmul sums over one axis of
    an operand, a backward matmul over the other.

    Returns:
        ``(data_row, scale_row, data_col, scale_col)``: bit for bit ``mx_quant(x, -1)`` and ``mx_quant(x, -2)``, the
        scales of shape ``[..., M, ceil(ceil(N/32)/2), 2]`` and ``[..., ceil(ceil(M/32)/2), N, 2]``.

    Arguments and errors are those of :func:`mx_quant`; x has at least two dimensions.
    """
    return torch.ops.npu_lp.mx_quant_dual(
        x,
        fmt,
        scale_rule,
        underflow=underflow,
        rounding=rounding,
        dst_max=dst_max,
        generator=generator,
        block_size=block_size,
    )


def mx_quant_grouped(
    x: Tensor,
    offs: Tensor,
    fmt: Format = "e4m3",
    scale_rule: ScaleRule = "rceil",
    *,
    underflow: Underflow = "ocp",
    rounding: Rounding = "rint",
    dst_max: float = 0.0,
    generator: torch.Generator | None = None,
    block_size: int = 32,
) -> tuple[Tensor, Tensor]:
    """Quantize ``x [T, N]`` along its token axis, blocks restarting at each group (torch_npu: npu_grouped_dynamic_mx_quant).

    Args:
        x: tokens sorted by group; bfloat16, float16 or float32.
        offs: int32 or int64 ``[G]``, the row at which each group ends; never decreasing, at most T. Groups may be empty.

    Returns:
        ``(data, scale)``: codes ``[T, N]``; scales ``[T//64 + G, N, 2]``, group i's starting at row
        ``start_i//64 + i``. Rows after the last offset, and the scale rows between groups, are zeros (torch_npu leaves them
        unwritten).

    Other arguments and errors are those of :func:`mx_quant`.
    """
    return torch.ops.npu_lp.mx_quant_grouped(
        x,
        offs,
        fmt,
        scale_rule,
        underflow=underflow,
        rounding=rounding,
        dst_max=dst_max,
        generator=generator,
        block_size=block_size,
    )


def mx_dequant(
    data: Tensor,
    scale: Tensor,
    axis: int = -1,
    fmt: str | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    *,
    block_size: int = 32,
) -> Tensor:
    """Return the values of quantized data: code times scale in fp32, rounded once to ``out_dtype``.

    (torch_npu: npu_anti_mx_quant.) ``axis`` is the one that :func:`mx_quant` was given. ``fmt`` is known from the dtype for
    FP8 and must be named for uint8 data. A product beyond fp32's range (a bf16 maximum rounded up) is Inf.
    """
    return torch.ops.npu_lp.mx_dequant(data, scale, axis, fmt, out_dtype, block_size=block_size)


def mx_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    bias: Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    *,
    x1_fmt: str | None = None,
    x2_fmt: str | None = None,
    block_size: int = 32,
) -> Tensor:
    """Multiply two quantized matrices: ``round(sum_k x1[m, k] * x2[k, n] + bias[n])`` (torch_npu: npu_quant_matmul).

    The sum is defined to the bit, for any number of threads and any processor: operands decode to fp32, k ascends, each
    segment of 256 k's is a chain of fused multiply-adds from zero, segments are added in order, then bias, then one
    rounding to ``out_dtype``.

    Args:
        x1: ``[..., M, K]``; e4m3 and e5m2 mix freely, FP4 multiplies FP4.
        x2: ``[..., K, N]``. Leading dimensions broadcast.
        x1_scale: ``[..., M, ceil(K/64), 2]``.
        x2_scale: ``[..., ceil(K/64), N, 2]``. A transposed operand is a view: ``data.mT`` with
            ``scale.transpose(-3, -2)``.
        bias: float32 ``[N]``.
        out_dtype: bfloat16, float16 or float32.
        x1_fmt: the format of x1, where it is uint8.
        x2_fmt: likewise of x2.
        block_size: that of the quantizer.

    Raises:
        TypeError: a dtype that is not quantized data, e8m0 scales, a float32 bias or an output dtype.
        ValueError: shapes that do not belong together; the message says which shape was expected.
    """
    return torch.ops.npu_lp.mx_quant_matmul(
        x1, x2, x1_scale, x2_scale, bias, out_dtype, x1_fmt=x1_fmt, x2_fmt=x2_fmt, block_size=block_size
    )


def mx_quant_matmul_add_(
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    *,
    x1_fmt: str | None = None,
    x2_fmt: str | None = None,
    block_size: int = 32,
) -> Tensor:
    """Add the product of two quantized matrices to ``self``, and return it: wgrad into a master gradient.

    ``self[m, n] += fl32(sum_k x1[m, k] * x2[k, n])``: the product of :func:`mx_quant_matmul` with out_dtype float32, then
    one fp32 addition. On Ascend 950 the product never goes to memory on its own.

    Args:
        self: float32, of exactly the product's shape ``[..., M, N]``. Changed in place.
        x1: as mx_quant_matmul's, like all others.
        x2: likewise.
        x1_scale: likewise.
        x2_scale: likewise.
        x1_fmt: likewise.
        x2_fmt: likewise.
        block_size: likewise.

    Raises:
        TypeError: ``self`` is not float32; and as mx_quant_matmul's.
        ValueError: ``self`` does not have the product's shape; and as mx_quant_matmul's.
    """
    torch.ops.npu_lp.mx_quant_matmul_add_(
        self, x1, x2, x1_scale, x2_scale, x1_fmt=x1_fmt, x2_fmt=x2_fmt, block_size=block_size
    )
    return self


def mx_grouped_matmul(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    offs: Tensor,
    split: Split = "m",
    out_dtype: torch.dtype = torch.bfloat16,
    *,
    x1_fmt: str | None = None,
    x2_fmt: str | None = None,
    block_size: int = 32,
) -> Tensor:
    """Multiply group by group, as the experts of an MoE layer need (torch_npu: npu_grouped_matmul).

    ==========  ===============================================  =======================================  ===========
    ``split``   x1 and its scales                                x2 and its scales                        result
    ==========  ===============================================  =======================================  ===========
    ``"m"``     ``[T, K]``, ``[T, ceil(K/64), 2]``               ``[G, K, N]``, ``[G, ceil(K/64), N, 2]``  ``[T, N]``
    ``"k"``     ``[M, T]``, ``[T//64+G, M, 2]``                  ``[T, N]``, ``[T//64+G, N, 2]``           ``[G, M, N]``
    ==========  ===============================================  =======================================  ===========

    Split "m" is forward and dgrad; split "k" is wgrad, its operands quantized by :func:`mx_quant_grouped` and x1 a
    transposed view of ``[T, M]``. ``offs`` is as there. Rows after the last offset, and the result of an empty group, are
    zeros. The arithmetic, formats and errors are those of :func:`mx_quant_matmul`, with k counted from the group's start.
    """
    return torch.ops.npu_lp.mx_grouped_matmul(
        x1, x2, x1_scale, x2_scale, offs, split, out_dtype, x1_fmt=x1_fmt, x2_fmt=x2_fmt, block_size=block_size
    )


def mx_fake_quant(
    x: Tensor,
    axis: int = -1,
    fmt: Format = "e2m1",
    scale_rule: ScaleRule = "dtype_range",
    block_size: int = 32,
    *,
    underflow: Underflow = "ocp",
    rounding: Rounding = "rint",
    dst_max: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the values that ``x`` would have after quantization, in x's dtype; the gradient passes straight through.

    Bit for bit :func:`mx_quant` followed by :func:`mx_dequant`. The defaults are those of MXFP4 quantization-aware
    training (QAT): torchtitan-npu's fake quantization of expert weights. Arguments and errors are those of mx_quant.
    """
    return torch.ops.npu_lp.mx_fake_quant(
        x,
        axis,
        fmt,
        scale_rule,
        block_size,
        underflow=underflow,
        rounding=rounding,
        dst_max=dst_max,
        generator=generator,
    )
