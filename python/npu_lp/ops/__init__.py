"""Typed faces of ``torch.ops.npu_lp.*``: quantization, and the matmuls that consume it.

An MX block is 32 elements along the quantized axis that share one power-of-two scale, an e8m0 byte ``b`` meaning
``2**(b-127)`` (OCP Microscaling Formats v1.0). Scales have torch_npu's layout, so data and scales may be passed between
npu_lp and torch_npu: the quantized dimension ``d`` becomes ``ceil(ceil(d/32)/2)``, and a trailing dimension of 2 holds a
pair of blocks. The second byte of an odd last pair is 0 and never read.

==================  ================================================  =============================================
name                scale of a block with largest magnitude ``amax``   source
==================  ================================================  =============================================
``"floor"``         exponent of ``amax`` less that of the format's      scale_alg 0; OCP MX v1.0 section 6.3
                    maximum; the maximum may saturate
``"rceil"``         ``amax / max`` rounded up to a power of two;        scale_alg 1 (FP8)
                    nothing saturates
``"dtype_range"``   like rceil, on a bf16 ``amax``, for ``dst_max``     scale_alg 2 (FP4)
==================  ================================================  =============================================

A block that holds a NaN or an Inf gets scale byte 255 (NaN) and codes 0. Codes are stored as torch.float8_e4m3fn or
float8_e5m2; formats that torch has no dtype for are uint8, FP4 packed two to a byte with the even index in the low nibble
and the last dimension halved. Rules are spelled out, with their sources, in docs/semantics.md.

HiF8 has no shared exponents: one fp32 scale serves a tensor, a token or a channel, and a matmul applies the scales to the
finished sums. ``block_quant`` does the same with an fp32 scale for each block (DeepSeek-V3's recipe).

What Ascend 950 lacks (formats "e3m2" and "e2m3", block sizes other than 32, stochastic rounding) is emulated on the CPU,
for research, and refused elsewhere.

``mx_fake_quant`` passes gradients straight through and the dense matmuls have one for their bias; no other function here
has a gradient. The layers in ``npu_lp.nn`` do.
"""

from npu_lp.ops import gradients as _gradients  # noqa: F401  (registers them)
from npu_lp.ops.block import block_quant, block_quant_matmul, mx_quant_block, mx_to_block
from npu_lp.ops.hif8 import hif8_dequant, hif8_grouped_matmul, hif8_quant, hif8_quant_matmul
from npu_lp.ops.linear import mx_linear, mx_linear_dual
from npu_lp.ops.mx import (
    mx_dequant,
    mx_fake_quant,
    mx_grouped_matmul,
    mx_quant,
    mx_quant_dual,
    mx_quant_grouped,
    mx_quant_matmul,
    mx_quant_matmul_add_,
)

__all__ = [
    "block_quant",
    "block_quant_matmul",
    "hif8_dequant",
    "hif8_grouped_matmul",
    "hif8_quant",
    "hif8_quant_matmul",
    "mx_dequant",
    "mx_fake_quant",
    "mx_grouped_matmul",
    "mx_linear",
    "mx_linear_dual",
    "mx_quant",
    "mx_quant_block",
    "mx_quant_dual",
    "mx_quant_grouped",
    "mx_quant_matmul",
    "mx_quant_matmul_add_",
    "mx_to_block",
]
