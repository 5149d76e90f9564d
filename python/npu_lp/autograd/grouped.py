"""The grouped matmul of routed experts in low precision, and its gradients (semantics.md section 6).

Tokens are sorted by group; group i is rows ``offs[i-1]:offs[i]`` of x and multiplies its own weight. Forward and dgrad
split the rows; wgrad splits the sum, so its operands are quantized along the tokens with blocks that restart at each
group.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from npu_lp import ops
from npu_lp.autograd import weight_cache
from npu_lp.autograd.schemes import Quantized, scheme_of
from npu_lp.config import Config


def grouped_linear(x: Tensor, weight: Tensor, offs: Tensor, config: Config, *, cast_weight: bool = False) -> Tensor:
    """``x[group i] @ weight[i].T`` for every group.

    Args:
        x: ``[T, K]``, tokens sorted by group.
        weight: ``[G, N, K]`` of x's dtype, any strides.
        offs: int32 or int64 ``[G]``, the row at which each group ends; never decreasing, at most T. Groups may be empty.
        config: what is quantized, and how.
        cast_weight: the weight may have another dtype: its values in x's are multiplied, as under autocast.

    Returns:
        ``[T, N]`` in x's dtype. Rows after the last offset are zeros, as are their gradients and the gradient of an empty
        group's weight.

    Raises:
        ValueError: shapes, dtypes or offsets that do not belong together.
    """
    if x.dtype != weight.dtype and not cast_weight:
        raise ValueError(
            f"x has dtype {x.dtype} and weight {weight.dtype}. Convert one of them, or run under torch.autocast."
        )
    if x.dim() != 2 or weight.dim() != 3 or x.shape[1] != weight.shape[2]:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and weight {tuple(weight.shape)}; they must be [T, K] and [G, N, K]."
        )
    if offs.dim() != 1 or offs.shape[0] != weight.shape[0]:
        raise ValueError(
            f"offs has shape {tuple(offs.shape)}, but weight has {weight.shape[0]} groups. Pass one end offset per group."
        )
    return _GroupedLinear.apply(x, weight, offs, config)


def _aligned(t: Tensor, *dims: int) -> Tensor:
    """Pad dimensions with zeros to multiples of 16 bytes, but not to 0, which torch's grouped matmul asks of its strides."""
    multiple = 16 // t.element_size()
    pads = [0, 0] * t.dim()
    for dim in dims:
        pads[2 * (-dim - 1) + 1] = -t.shape[dim] % multiple if t.shape[dim] else multiple
    return torch.nn.functional.pad(t, pads) if any(pads) else t.contiguous()


def _grouped_mm(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    """torch's grouped matmul of ``[T, K]`` and ``[G, K, N]``, with zeros in the rows of no group (torch leaves them
    unwritten)."""
    y = torch.nn.functional.grouped_mm(a, b, offs=offs.to(torch.int32))
    in_a_group = torch.arange(len(a), device=a.device) < (offs[-1:] if len(offs) else 0)
    return torch.where(in_a_group[:, None], y, 0)


def _forward(x: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    return _grouped_mm(_aligned(x, -1), _aligned(weight, -1, -2).mT, offs)[:, : weight.shape[1]]


def _dgrad(dy: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    return _grouped_mm(_aligned(dy, -1), _aligned(weight, -1, -2), offs)[:, : weight.shape[2]]


def _wgrad(dy: Tensor, x: Tensor, offs: Tensor) -> Tensor:
    dweight = torch.nn.functional.grouped_mm(_aligned(dy, -1).mT, _aligned(x, -1), offs=offs.to(torch.int32))
    return dweight[:, : dy.shape[1], : x.shape[1]]


class _GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, weight: Tensor, offs: Tensor, config: Config) -> Tensor:
        scheme = scheme_of(config)
        dtype, weight_dtype = x.dtype, weight.dtype
        x_grad, weight_grad, _, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        keep = config.high_precision_gemms
        low_forward = "forward" not in keep
        low_dgrad = x_grad and "dgrad" not in keep
        low_wgrad = weight_grad and "wgrad" not in keep
        early = scheme.saves_codes
        x_last, x_tokens = scheme.quantize_grouped(x, "activation", offs, last=low_forward, tokens=low_wgrad and early)
        kept = weight_cache.lookup(weight, config, dtype)
        if kept is None:
            weight = weight.to(dtype)
            w_last, w_first = scheme.quantize(weight, "weight", last=low_forward, first=low_dgrad and early)
        else:
            w_last, w_first = kept.quantize(scheme, weight, dtype, last=low_forward, first=low_dgrad and early)
        if x_last is not None and w_last is not None:
            y = scheme.grouped_matmul(x_last, w_last.mT, offs, dtype)
        else:
            # torch's grouped matmul reads where bad offsets point; our ops check them, whatever the number of columns.
            ops.mx_quant_grouped(x[:, :0], offs)
            y = _forward(x, scheme.weight_values(weight.to(dtype)), offs)
        ctx.save_for_backward(
            *(x_tokens or ((x, None) if weight_grad else (None, None))),
            *(w_first or ((weight.to(dtype), None) if x_grad else (None, None))),
            offs,
        )
        ctx.config = config  # type: ignore[attr-defined]
        ctx.dtypes = dtype, weight_dtype  # type: ignore[attr-defined]
        ctx.kept = kept  # type: ignore[attr-defined]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        config: Config = ctx.config  # type: ignore[attr-defined]
        dtype, weight_dtype = ctx.dtypes  # type: ignore[attr-defined]
        kept: weight_cache.QuantizedWeight | None = ctx.kept  # type: ignore[attr-defined]
        scheme = scheme_of(config)
        x, x_scale, weight, weight_scale, offs = ctx.saved_tensors  # type: ignore[attr-defined]
        keep = config.high_precision_gemms
        x_grad, weight_grad, _, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        low_dgrad, low_wgrad = x_grad and "dgrad" not in keep, weight_grad and "wgrad" not in keep
        dy_last, dy_tokens = scheme.quantize_grouped(dy, "grad", offs, last=low_dgrad, tokens=low_wgrad)
        dx = dweight = None
        if dy_last is not None:
            w_first: Quantized | None
            if weight_scale is not None:
                w_first = Quantized(weight, weight_scale)
            elif kept is None:
                _, w_first = scheme.quantize(weight, "weight", last=False, first=True)
            else:
                _, w_first = kept.quantize(scheme, weight, dtype, last=False, first=True)
            assert w_first is not None
            dx = scheme.grouped_matmul(dy_last, w_first, offs, dtype)
        elif x_grad:
            dx = _dgrad(dy, scheme.weight_values(weight), offs)
        if dy_tokens is not None:
            if x_scale is None:
                _, x_tokens = scheme.quantize_grouped(x, "activation", offs, last=False, tokens=True)
            else:
                x_tokens = Quantized(x, x_scale)
            assert x_tokens is not None
            dweight = scheme.grouped_wgrad(dy_tokens, x_tokens, offs, dtype).to(weight_dtype)
        elif weight_grad:
            dweight = _wgrad(dy, x, offs).to(weight_dtype)
        return dx, dweight, None, None
