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

from npu_lp.autograd import weight_cache
from npu_lp.autograd.schemes import Quantized, scheme_of
from npu_lp.config import Config


def low_precision_matmul(x: Tensor, weight: Tensor, config: Config, *, cast_weight: bool = False) -> Tensor:
    """``x @ weight.mT`` with the operands of each matmul quantized as ``config`` says.

    Args:
        x: ``[..., M, K]``.
        weight: ``[..., N, K]`` of x's dtype, with x's leading dimensions; or ``[N, K]``, for which the leading dimensions
            of x are flattened into M.
        config: what is quantized, and how.
        cast_weight: the weight may have another dtype: its values in x's are multiplied, as under autocast.

    Returns:
        ``[..., M, N]`` in x's dtype. Gradients have the dtype of what they are gradients of.

    Raises:
        ValueError: shapes or dtypes that do not belong together.
    """
    if x.dtype != weight.dtype and not cast_weight:
        raise ValueError(
            f"x has dtype {x.dtype} and weight {weight.dtype}. Convert one of them, or run under torch.autocast."
        )
    if x.shape[-1:] != weight.shape[-1:]:
        raise ValueError(
            f"x of shape {tuple(x.shape)} has {x.shape[-1] if x.dim() else 'no'} features, but weight of shape "
            f"{tuple(weight.shape)} takes {weight.shape[-1]}."
        )
    if weight.dim() == 2:
        if x.dim() == 2:
            return _LowPrecisionMatmul.apply(x, weight, config)
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
        dtype, weight_dtype = x.dtype, weight.dtype
        x_grad, weight_grad, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        keep = config.high_precision_gemms
        low_forward = "forward" not in keep
        # What backward will read, already quantized if that is done here.
        low_dgrad = x_grad and "dgrad" not in keep
        low_wgrad = weight_grad and "wgrad" not in keep
        early = scheme.saves_codes
        kept = weight_cache.lookup(weight, config, dtype)
        if kept is None:
            weight = weight.to(dtype)
            w_last, w_first = scheme.quantize(weight, "weight", last=low_forward, first=low_dgrad and early)
        else:
            w_last, w_first = kept.quantize(scheme, weight, dtype, last=low_forward, first=low_dgrad and early)
        if w_last is not None:
            y, x_first = scheme.linear(x, "activation", w_last.mT, dtype, first=low_wgrad and early)
        else:
            _, x_first = scheme.quantize(x, "activation", last=False, first=low_wgrad and early)
            y = x @ scheme.weight_values(weight.to(dtype)).mT
        ctx.save_for_backward(
            *(x_first or ((x, None) if weight_grad else (None, None))),
            *(w_first or ((weight.to(dtype), None) if x_grad else (None, None))),
        )
        ctx.config = config  # type: ignore[attr-defined]
        ctx.dtypes = dtype, weight_dtype  # type: ignore[attr-defined]
        ctx.kept = kept  # type: ignore[attr-defined]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        config: Config = ctx.config  # type: ignore[attr-defined]
        dtype, weight_dtype = ctx.dtypes  # type: ignore[attr-defined]
        kept: weight_cache.QuantizedWeight | None = ctx.kept  # type: ignore[attr-defined]
        scheme = scheme_of(config)
        x, x_scale, weight, weight_scale = ctx.saved_tensors  # type: ignore[attr-defined]
        keep = config.high_precision_gemms
        x_grad, weight_grad, _ = ctx.needs_input_grad  # type: ignore[attr-defined]
        low_dgrad, low_wgrad = x_grad and "dgrad" not in keep, weight_grad and "wgrad" not in keep
        dx = dweight = None
        if low_dgrad:
            w_first: Quantized | None
            if weight_scale is not None:
                w_first = Quantized(weight, weight_scale)
            elif kept is None:
                _, w_first = scheme.quantize(weight, "weight", last=False, first=True)
            else:
                _, w_first = kept.quantize(scheme, weight, dtype, last=False, first=True)
            assert w_first is not None
            dx, dy_first = scheme.linear(dy, "grad", w_first, dtype, first=low_wgrad)
        else:
            _, dy_first = scheme.quantize(dy, "grad", last=False, first=low_wgrad)
            if x_grad:
                dx = dy @ scheme.weight_values(weight)
        if dy_first is not None:
            if x_scale is None:
                _, x_first = scheme.quantize(x, "activation", last=False, first=True)
            else:
                x_first = Quantized(x, x_scale)
            assert x_first is not None
            dweight = scheme.matmul(dy_first.mT, x_first, dtype).to(weight_dtype)
        elif weight_grad:
            dweight = (dy.mT @ x).to(weight_dtype)
        return dx, dweight, None
