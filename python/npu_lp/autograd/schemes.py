"""How a config quantizes operands and multiplies them: the only place that maps configs to ops.

The autograd functions in this folder know which matmuls a layer has and what they save; they know no format. A new kind of
config is a Scheme here and a line in :func:`scheme_of`.
"""

from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from npu_lp import ops
from npu_lp.autograd.hadamard import rotate
from npu_lp.config import BlockMXConfig, Config, HiF8Config, MXConfig, check_config

Role = Literal["activation", "weight", "grad"]


class Quantized(NamedTuple):
    """Codes and scales of a matrix ``[..., M, N]``, ready to be an operand of a matmul that sums over one of its axes."""

    data: Tensor
    scale: Tensor

    @property
    def mT(self) -> "Quantized":
        """The transposed matrix, as views. The one scale of a whole tensor has no axes to transpose."""
        scale = self.scale if self.scale.dim() == 1 else self.scale.transpose(-3, -2)
        return Quantized(self.data.mT, scale)


Pair = tuple[Quantized | None, Quantized | None]


class Scheme(Protocol):
    """What the autograd functions ask of a config."""

    saves_codes: bool
    """Whether forward quantizes what backward needs, and saves the codes in place of the operands."""

    def quantize(self, x: Tensor, role: Role, *, last: bool, first: bool) -> Pair:
        """Quantize ``x [..., M, N]`` for a sum over its last axis, for one over its first (the rows), or for both."""

    def quantize_grouped(self, x: Tensor, role: Role, offs: Tensor, *, last: bool, tokens: bool) -> Pair:
        """Quantize ``x [T, N]`` for a sum over its last axis, for one over each group's tokens, or for both."""

    def weight_values(self, weight: Tensor) -> Tensor:
        """Return the weight that the matmuls in high precision see."""

    def matmul(self, a: Quantized, b: Quantized, out_dtype: torch.dtype) -> Tensor:
        """``a [..., M, K] @ b [..., K, N]``."""

    def linear(
        self, x: Tensor, role: Role, b: Quantized, out_dtype: torch.dtype, *, first: bool
    ) -> tuple[Tensor, Quantized | None]:
        """Quantize ``x [..., M, K]`` for a sum over its last axis and multiply it by ``b [..., K, N]``; if ``first``,
        quantize it for a sum over its rows too."""

    def grouped_matmul(self, a: Quantized, b: Quantized, offs: Tensor, out_dtype: torch.dtype) -> Tensor:
        """``a [T, K] @ b [G, K, N]``, by groups of rows."""

    def grouped_wgrad(self, dy: Quantized, x: Quantized, offs: Tensor, out_dtype: torch.dtype) -> Tensor:
        """``dy[group].T @ x[group]`` for each group: ``[T, N]`` and ``[T, K]``, quantized over tokens, to ``[G, N, K]``."""


class MXScheme:
    """MXFP8: blocks along the summed axis."""

    def __init__(self, config: MXConfig | BlockMXConfig) -> None:
        self.saves_codes = config.dual_axis_forward
        self._fmt, self._grad_fmt, self._rule = config.fmt, config.grad_fmt, config.scale_rule
        research = config if isinstance(config, MXConfig) else None
        self._block = research.block_size if research else 32
        self._grad_rounding = research.grad_rounding if research else "rint"
        self._hadamard = research is not None and research.hadamard

    def quantize(self, x: Tensor, role: Role, *, last: bool, first: bool) -> Pair:
        """See Scheme."""
        fmt = self._grad_fmt if role == "grad" else self._fmt
        rounding = self._grad_rounding if role == "grad" else "rint"
        if last and first and not self._hadamard:
            data, scale, data_first, scale_first = ops.mx_quant_dual(
                x, fmt, self._rule, rounding=rounding, block_size=self._block
            )
            return Quantized(data, scale), Quantized(data_first, scale_first)

        def along(axis: int) -> Quantized:
            rotated = rotate(x, axis) if self._hadamard else x
            return Quantized(*ops.mx_quant(rotated, axis, fmt, self._rule, self._block, rounding=rounding))

        return along(-1) if last else None, along(-2) if first else None

    def quantize_grouped(self, x: Tensor, role: Role, offs: Tensor, *, last: bool, tokens: bool) -> Pair:
        """See Scheme."""
        fmt = self._grad_fmt if role == "grad" else self._fmt
        rounding = self._grad_rounding if role == "grad" else "rint"
        by_last, _ = self.quantize(x, role, last=last, first=False)
        if not tokens:
            return by_last, None
        by_tokens = ops.mx_quant_grouped(x, offs, fmt, self._rule, rounding=rounding, block_size=self._block)
        return by_last, Quantized(*by_tokens)

    def weight_values(self, weight: Tensor) -> Tensor:
        """See Scheme."""
        return weight

    def matmul(self, a: Quantized, b: Quantized, out_dtype: torch.dtype) -> Tensor:
        """See Scheme."""
        return ops.mx_quant_matmul(
            a.data,
            b.data,
            a.scale,
            b.scale,
            out_dtype=out_dtype,
            x1_fmt=self._stored(a),
            x2_fmt=self._stored(b),
            block_size=self._block,
        )

    def linear(
        self, x: Tensor, role: Role, b: Quantized, out_dtype: torch.dtype, *, first: bool
    ) -> tuple[Tensor, Quantized | None]:
        """See Scheme."""
        if self._hadamard or (role == "grad" and self._grad_rounding != "rint"):  # not in the fused op
            return _linear(self, x, role, b, out_dtype, first=first)
        fmt = self._grad_fmt if role == "grad" else self._fmt
        stored = self._stored(b)
        if not first:
            return ops.mx_linear(
                x, *b, None, fmt, self._rule, out_dtype=out_dtype, x2_fmt=stored, block_size=self._block
            ), None
        y, data, scale = ops.mx_linear_dual(
            x, *b, None, fmt, self._rule, out_dtype=out_dtype, x2_fmt=stored, block_size=self._block
        )
        return y, Quantized(data, scale)

    def grouped_matmul(self, a: Quantized, b: Quantized, offs: Tensor, out_dtype: torch.dtype) -> Tensor:
        """See Scheme."""
        return ops.mx_grouped_matmul(
            a.data,
            b.data,
            a.scale,
            b.scale,
            offs,
            "m",
            out_dtype,
            x1_fmt=self._stored(a),
            x2_fmt=self._stored(b),
            block_size=self._block,
        )

    def grouped_wgrad(self, dy: Quantized, x: Quantized, offs: Tensor, out_dtype: torch.dtype) -> Tensor:
        """See Scheme."""
        return ops.mx_grouped_matmul(
            dy.data.mT,
            x.data,
            dy.scale,
            x.scale,
            offs,
            "k",
            out_dtype,
            x1_fmt=self._stored(dy),
            x2_fmt=self._stored(x),
            block_size=self._block,
        )

    def _stored(self, q: Quantized) -> str | None:
        """Return the name of a format that has no torch dtype. MXConfig allows one such in fmt and grad_fmt."""
        if q.data.dtype != torch.uint8:
            return None
        return self._fmt if self._fmt in ("e3m2", "e2m3") else self._grad_fmt


class BlockMXScheme(MXScheme):
    """Block MX: the weight in 32x32 tiles, after fake quantization if there is one; the rest as in MXFP8."""

    def __init__(self, config: BlockMXConfig) -> None:
        super().__init__(config)
        self._fake = config.weight_fake_quant

    def quantize(self, x: Tensor, role: Role, *, last: bool, first: bool) -> Pair:
        """See Scheme."""
        if role != "weight":
            return super().quantize(x, role, last=last, first=first)
        if not last and not first:
            return None, None
        data, scale_last, scale_first = self._tiles(x)
        return Quantized(data, scale_last) if last else None, Quantized(data, scale_first) if first else None

    def _tiles(self, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Codes ``[..., N, K]``, and scales for a sum over K and for one over N."""
        batch = weight.shape[:-2]
        matrices = weight.flatten(0, -3) if weight.dim() > 3 else weight  # the ops take a matrix, or a batch of them
        if self._fake is None:
            tiles = ops.mx_quant_block(matrices, self._fmt)
        else:
            features = weight.shape[-1]
            # FP4 packs two elements to a byte: an odd row gets a zero at its end, which is cut off again.
            even = torch.nn.functional.pad(matrices, (0, features % 2))
            fp4 = ops.mx_quant(even, -1, self._fake.fmt, self._fake.scale_rule, dst_max=self._fake.dst_max)
            data, scale_last, scale_first, _ = ops.mx_to_block(*fp4, self._fake.fmt, self._fmt)  # type: ignore[arg-type]
            tiles = data[..., :features], scale_last, scale_first[..., :features, :]
        if weight.dim() > 3:
            tiles = tuple(t.unflatten(0, batch) for t in tiles)
        return tiles

    def weight_values(self, weight: Tensor) -> Tensor:
        """See Scheme."""
        if self._fake is None:
            return weight
        features = weight.shape[-1]
        even = torch.nn.functional.pad(weight, (0, features % 2))
        fake = ops.mx_fake_quant(even, -1, self._fake.fmt, self._fake.scale_rule, dst_max=self._fake.dst_max)
        return fake[..., :features]


class HiF8Scheme:
    """HiF8: one scale for each operand, so that the same codes serve every sum."""

    saves_codes = True

    def __init__(self, config: HiF8Config) -> None:
        self._config = config

    def quantize(self, x: Tensor, role: Role, *, last: bool, first: bool) -> Pair:
        """See Scheme."""
        if not last and not first:
            return None, None
        dst_max = self._config.grad_dst_max if role == "grad" else self._config.dst_max
        codes = Quantized(*ops.hif8_quant(x, dst_max))
        return codes if last else None, codes if first else None

    def quantize_grouped(self, x: Tensor, role: Role, offs: Tensor, *, last: bool, tokens: bool) -> Pair:
        """See Scheme."""
        # Rows of no group may hold anything, and must not decide the scale.
        in_a_group = torch.arange(x.shape[0], device=x.device) < offs[-1] if offs.shape[0] else x.new_zeros(x.shape[0]) > 0
        return self.quantize(torch.where(in_a_group[:, None], x, 0), role, last=last, first=tokens)

    def weight_values(self, weight: Tensor) -> Tensor:
        """See Scheme."""
        return weight

    def matmul(self, a: Quantized, b: Quantized, out_dtype: torch.dtype) -> Tensor:
        """See Scheme."""
        return ops.hif8_quant_matmul(a.data, b.data, a.scale, b.scale, out_dtype=out_dtype)

    def linear(
        self, x: Tensor, role: Role, b: Quantized, out_dtype: torch.dtype, *, first: bool
    ) -> tuple[Tensor, Quantized | None]:
        """See Scheme. The one scale must be known before the first code is."""
        return _linear(self, x, role, b, out_dtype, first=first)

    def grouped_matmul(self, a: Quantized, b: Quantized, offs: Tensor, out_dtype: torch.dtype) -> Tensor:
        """See Scheme."""
        return ops.hif8_grouped_matmul(a.data, b.data, a.scale, b.scale, offs, "m", out_dtype)

    def grouped_wgrad(self, dy: Quantized, x: Quantized, offs: Tensor, out_dtype: torch.dtype) -> Tensor:
        """See Scheme."""
        return ops.hif8_grouped_matmul(dy.data.mT, x.data, dy.scale, x.scale, offs, "k", out_dtype)


def _linear(
    scheme: Scheme, x: Tensor, role: Role, b: Quantized, out_dtype: torch.dtype, *, first: bool
) -> tuple[Tensor, Quantized | None]:
    """Scheme.linear by its other two functions."""
    x_last, x_first = scheme.quantize(x, role, last=True, first=first)
    assert x_last is not None
    return scheme.matmul(x_last, b, out_dtype), x_first


def scheme_of(config: Config) -> Scheme:
    """Return the scheme of a config.

    Raises:
        TypeError: it is no config.
    """
    check_config(config)
    if isinstance(config, HiF8Config):
        return HiF8Scheme(config)
    if isinstance(config, BlockMXConfig):
        return BlockMXScheme(config)
    return MXScheme(config)
