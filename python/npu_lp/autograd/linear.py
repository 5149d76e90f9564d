"""y = x wᵀ in low precision, and its gradients (semantics.md section 6).

===========  ==================  ============  ============================================
matmul       sums over           first operand  second operand
===========  ==================  ============  ============================================
forward      K (features in)     x             w, transposed
dgrad        N (features out)    dy            w, quantized along its first axis
wgrad        M (tokens)          dy, transposed and x, both quantized along their first axis
===========  ==================  ============  ============================================
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from npu_lp.autograd.schemes import Quantized, scheme_of
from npu_lp.config import Config


def low_precision_matmul(x: Tensor, weight: Tensor, config: Config) -> Tensor:
    """``x @ weight.mT`` with the operands of each matmul quantized as ``config`` says.

    Args:
        x: ``[..., M, K]``.
        weight: ``[..., N, K]`` of x's dtype, with x's leading dimensions; or ``[N, K]``, for which the leading dimensions
            of x are flattened into M.
        config: what is quantized, and how.

    Returns:
        ``[..., M, N]`` in x's dtype. Gradients have the dtype of what they are gradients of.

    Raises:
        ValueError: shapes or dtypes that do not belong together.
    """
    if x.dtype != weight.dtype:
        raise ValueError(
            f"x has dtype {x.dtype} and weight {weight.dtype}. Convert one of them, or run under torch.autocast."
        )
    if x.shape[-1:] != weight.shape[-1:]:
        raise ValueError(
            f"x of shape {tuple(x.shape)} has {x.shape[-1] if x.dim() else 'no'} features, but weight of shape "
            f"{tuple(weight.shape)} takes {weight.shape[-1]}."
        )
    if weight.dim() == 2:
        # An explicit row count: with zero elements, -1 would be ambiguous.
        rows = x.shape[:-1].numel()
        y = _LowPrecisionMatmul.apply(x.reshape(rows, x.shape[-1]), weight, config)
        return y.view(*x.shape[:-1], weight.shape[0])
    if x.shape[:-2] != weight.shape[:-2]:
        raise ValueError(
            f"x of shape {tuple(x.shape)} and weight of shape {tuple(weight.shape)} must have the same leading dimensions."
        )
    return _LowPrecisionMatmul.apply(x, weight, config)


class _LowPrecisionMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, weight: Tensor, config: Config) -> Tensor:
        scheme = scheme_of(config)
        x_grad, weight_grad, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        keep = config.high_precision_gemms
        low_forward = "forward" not in keep
        # What backward will read, already quantized if that is done here.
        low_dgrad = x_grad and "dgrad" not in keep
        low_wgrad = weight_grad and "wgrad" not in keep
        early = scheme.saves_codes
        x_last, x_first = scheme.quantize(x, "activation", last=low_forward, first=low_wgrad and early)
        w_last, w_first = scheme.quantize(weight, "weight", last=low_forward, first=low_dgrad and early)
        if x_last is not None and w_last is not None:
            y = scheme.matmul(x_last, w_last.mT, x.dtype)
        else:
            y = x @ scheme.weight_values(weight).mT
        ctx.save_for_backward(
            *(x_first or ((x, None) if weight_grad else (None, None))),
            *(w_first or ((weight, None) if x_grad else (None, None))),
        )
        ctx.config = config  # type: ignore[attr-defined]
        ctx.dtype = x.dtype  # type: ignore[attr-defined]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        config: Config = ctx.config  # type: ignore[attr-defined]
        dtype: torch.dtype = ctx.dtype  # type: ignore[attr-defined]
        scheme = scheme_of(config)
        x, x_scale, weight, weight_scale = ctx.saved_tensors  # type: ignore[attr-defined]
        keep = config.high_precision_gemms
        x_grad, weight_grad, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        low_dgrad, low_wgrad = x_grad and "dgrad" not in keep, weight_grad and "wgrad" not in keep
        dy_last, dy_first = scheme.quantize(dy, "grad", last=low_dgrad, first=low_wgrad)
        dx = dweight = None
        if dy_last is not None:
            if weight_scale is None:
                _, w_first = scheme.quantize(weight, "weight", last=False, first=True)
            else:
                w_first = Quantized(weight, weight_scale)
            assert w_first is not None
            dx = scheme.matmul(dy_last, w_first, dtype)
        elif x_grad:
            dx = dy @ scheme.weight_values(weight)
        if dy_first is not None:
            if x_scale is None:
                _, x_first = scheme.quantize(x, "activation", last=False, first=True)
            else:
                x_first = Quantized(x, x_scale)
            assert x_first is not None
            dweight = scheme.matmul(dy_first.mT, x_first, dtype)
        elif weight_grad:
            dweight = dy.mT @ x
        return dx, dweight, None
