"""The grouped matmul of routed experts in low precision, and its gradients (semantics.md section 6).

Tokens are sorted by group; group i is rows ``offs[i-1]:offs[i]`` of x and multiplies its own weight. Forward and dgrad
split the rows; wgrad splits the sum, so its operands are quantized along the tokens with blocks that restart at each
group.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from npu_lp.autograd.schemes import Quantized, scheme_of
from npu_lp.config import Config


def grouped_linear(x: Tensor, weight: Tensor, offs: Tensor, config: Config) -> Tensor:
    """``x[group i] @ weight[i].T`` for every group.

    Args:
        x: ``[T, K]``, tokens sorted by group.
        weight: ``[G, N, K]`` of x's dtype, any strides.
        offs: int32 or int64 ``[G]``, the row at which each group ends; never decreasing, at most T. Groups may be empty.
        config: what is quantized, and how.

    Returns:
        ``[T, N]`` in x's dtype. Rows after the last offset are zeros, as are their gradients and the gradient of an empty
        group's weight.

    Raises:
        ValueError: shapes, dtypes or offsets that do not belong together.
    """
    if x.dtype != weight.dtype:
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


def _in_high_precision(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    """torch's grouped matmul, with zeros in the rows of no group (which torch leaves unwritten)."""
    y = torch.nn.functional.grouped_mm(a, b, offs=offs.to(torch.int32))
    if b.dim() == 2:
        return y
    in_a_group = torch.arange(len(a), device=a.device) < (offs[-1:] if len(offs) else 0)
    return torch.where(in_a_group[:, None], y, 0)


class _GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, weight: Tensor, offs: Tensor, config: Config) -> Tensor:
        scheme = scheme_of(config)
        x_grad, weight_grad, _, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        keep = config.high_precision_gemms
        low_forward = "forward" not in keep
        low_dgrad = x_grad and "dgrad" not in keep
        low_wgrad = weight_grad and "wgrad" not in keep
        early = config.dual_axis_forward
        x_last, _ = scheme.quantize(x, "activation", last=low_forward, first=False)
        x_tokens = scheme.quantize_groups(x, "activation", offs) if low_wgrad and early else None
        w_last, w_first = scheme.quantize(weight, "weight", last=low_forward, first=low_dgrad and early)
        if x_last is not None and w_last is not None:
            y = scheme.grouped_matmul(x_last, w_last.mT, offs, "m", x.dtype)
        else:
            y = _in_high_precision(x, weight.mT, offs)
        ctx.save_for_backward(
            *(x_tokens or ((x, None) if weight_grad else (None, None))),
            *(w_first or ((weight, None) if x_grad else (None, None))),
            offs,
        )
        ctx.config = config  # type: ignore[attr-defined]
        ctx.dtype = x.dtype  # type: ignore[attr-defined]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        config: Config = ctx.config  # type: ignore[attr-defined]
        dtype: torch.dtype = ctx.dtype  # type: ignore[attr-defined]
        scheme = scheme_of(config)
        x, x_scale, weight, weight_scale, offs = ctx.saved_tensors  # type: ignore[attr-defined]
        keep = config.high_precision_gemms
        x_grad, weight_grad, _, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        dx = dweight = None
        if x_grad and "dgrad" not in keep:
            dy_last, _ = scheme.quantize(dy, "grad", last=True, first=False)
            if weight_scale is None:
                _, w_first = scheme.quantize(weight, "weight", last=False, first=True)
            else:
                w_first = Quantized(weight, weight_scale)
            assert dy_last is not None and w_first is not None
            dx = scheme.grouped_matmul(dy_last, w_first, offs, "m", dtype)
        elif x_grad:
            dx = _in_high_precision(dy.contiguous(), weight, offs)
        if weight_grad and "wgrad" not in keep:
            dy_tokens = scheme.quantize_groups(dy, "grad", offs)
            x_tokens = scheme.quantize_groups(x, "activation", offs) if x_scale is None else Quantized(x, x_scale)
            dweight = scheme.grouped_matmul(Quantized(dy_tokens.data.mT, dy_tokens.scale), x_tokens, offs, "k", dtype)
        elif weight_grad:
            dweight = _in_high_precision(dy.contiguous().mT, x, offs)
        return dx, dweight, None, None
