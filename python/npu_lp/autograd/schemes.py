"""How a config quantizes operands and multiplies them: the only place that maps configs to ops.

The autograd functions in this folder know which matmuls a layer has and what they save; they know no format. A new kind of
config is a Scheme here and a line in :func:`scheme_of`.
"""

from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from npu_lp import ops
from npu_lp.config import Config, MXConfig
from npu_lp.names import Format, Split

Role = Literal["activation", "weight", "grad"]


class Quantized(NamedTuple):
    """Codes and scales of a matrix ``[..., M, N]``, ready to be an operand of a matmul that sums over one of its axes."""

    data: Tensor
    scale: Tensor

    @property
    def mT(self) -> "Quantized":
        """The transposed matrix, as views."""
        return Quantized(self.data.mT, self.scale.transpose(-3, -2))


class Scheme(Protocol):
    """What the autograd functions ask of a config."""

    def quantize(self, x: Tensor, role: Role, *, last: bool, first: bool) -> tuple[Quantized | None, Quantized | None]:
        """Quantize ``x [..., M, N]`` for a sum over its last axis, for one over its first (the rows), or for both."""

    def quantize_groups(self, x: Tensor, role: Role, offs: Tensor) -> Quantized:
        """Quantize ``x [T, N]`` for sums over the tokens of each group."""

    def matmul(self, a: Quantized, b: Quantized, out_dtype: torch.dtype) -> Tensor:
        """``a [..., M, K] @ b [..., K, N]``."""

    def grouped_matmul(self, a: Quantized, b: Quantized, offs: Tensor, split: Split, out_dtype: torch.dtype) -> Tensor:
        """Split "m": ``a [T, K] @ b [G, K, N]`` by groups of rows. Split "k": ``a [M, T] @ b [T, N]`` for each group."""


class MXScheme:
    """MXFP8: blocks of 32 along the summed axis."""

    def __init__(self, config: MXConfig) -> None:
        self._config = config

    def _format(self, role: Role) -> Format:
        return self._config.grad_fmt if role == "grad" else self._config.fmt

    def quantize(self, x: Tensor, role: Role, *, last: bool, first: bool) -> tuple[Quantized | None, Quantized | None]:
        """See Scheme."""
        fmt, rule = self._format(role), self._config.scale_rule
        if last and first:
            data, scale, data_first, scale_first = ops.mx_quant_dual(x, fmt, rule)
            return Quantized(data, scale), Quantized(data_first, scale_first)
        return (
            Quantized(*ops.mx_quant(x, -1, fmt, rule)) if last else None,
            Quantized(*ops.mx_quant(x, -2, fmt, rule)) if first else None,
        )

    def quantize_groups(self, x: Tensor, role: Role, offs: Tensor) -> Quantized:
        """See Scheme."""
        return Quantized(*ops.mx_quant_grouped(x, offs, self._format(role), self._config.scale_rule))

    def matmul(self, a: Quantized, b: Quantized, out_dtype: torch.dtype) -> Tensor:
        """See Scheme."""
        return ops.mx_quant_matmul(a.data, b.data, a.scale, b.scale, out_dtype=out_dtype)

    def grouped_matmul(self, a: Quantized, b: Quantized, offs: Tensor, split: Split, out_dtype: torch.dtype) -> Tensor:
        """See Scheme."""
        return ops.mx_grouped_matmul(a.data, b.data, a.scale, b.scale, offs, split, out_dtype)


def scheme_of(config: Config) -> Scheme:
    """Return the scheme of a config."""
    return MXScheme(config)
