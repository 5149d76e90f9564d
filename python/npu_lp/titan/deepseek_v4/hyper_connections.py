"""Manifold-constrained hyper-connections (mHC): DeepSeek-V4's residual is N parallel streams, mixed by learned weights.

Each sub-block (attention, MoE) reads one collapsed stream and writes back to all streams:

    x        = sum_n pre[n] * h[n]                                pre  = sigmoid(...) + eps          [N]
    h'[m]    = post[m] * block(x) + sum_n comb[n, m] * h[n]       post = 2 * sigmoid(...)            [N]
                                                                  comb = Sinkhorn(softmax(...))      [N, N]

with all three computed from the RMS-normalized streams by one small linear layer. Sinkhorn-Knopp makes comb doubly
stochastic, so mixing neither amplifies nor damps the streams. All of this is fp32 (weights, arithmetic).
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torchtitan.protocols.module import Module

from npu_lp.titan.deepseek_v4.precision import KeepFloat32, full_precision


def sinkhorn(matrices: torch.Tensor, iterations: int, eps: float) -> torch.Tensor:
    """Make positive matrices doubly stochastic by normalizing columns and rows in turn (columns first and last).

    Args:
        matrices: fp32 [N, N, T]: T matrices, batch last, so that sums over rows and columns run over contiguous memory.
        iterations: number of normalizations of the columns; rows are normalized once less.
        eps: added to each sum.

    Returns:
        fp32 [N, N, T]; columns (sums over dim 0) sum to 1, rows approach it.
    """
    return _Sinkhorn.apply(matrices, iterations, eps)


class _Sinkhorn(torch.autograd.Function):
    """Saves its input only and normalizes again in backward; plain autograd would keep 39 pairs of steps per token."""

    @staticmethod
    def forward(ctx: Any, matrices: torch.Tensor, iterations: int, eps: float) -> torch.Tensor:
        ctx.save_for_backward(matrices)
        ctx.iterations, ctx.eps = iterations, eps
        matrices = matrices.clone()
        for dim in _sinkhorn_dims(iterations):
            matrices.div_(matrices.sum(dim=dim, keepdim=True).add_(eps))
        return matrices

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (matrices,) = ctx.saved_tensors
        grad = grad.clone(memory_format=torch.contiguous_format)
        steps = []
        for dim in _sinkhorn_dims(ctx.iterations):
            total = matrices.sum(dim=dim, keepdim=True).add_(ctx.eps)
            matrices = matrices / total
            steps.append((dim, matrices, total))
        # y = x / (sum(x) + eps)  =>  dx = (dy - sum(dy * y)) / (sum(x) + eps)
        for dim, result, total in reversed(steps):
            grad.sub_((grad * result).sum(dim=dim, keepdim=True)).div_(total)
        return grad, None, None


def _sinkhorn_dims(iterations: int) -> tuple[int, ...]:
    """The dims whose sums are normalized, in order: columns (dim 0), then rows and columns in turn."""
    return (0,) + (1, 0) * (iterations - 1)


class HyperConnection(KeepFloat32, Module):
    """The mixing weights of one sub-block: `fn` [(2 + N) * N, N * dim], `base` [(2 + N) * N], `scale` [3]."""

    @dataclass(kw_only=True, slots=True)
    class Config(Module.Config):
        """n_streams is N (hc_mult), eps keeps pre positive and Sinkhorn's divisors away from 0."""

        dim: int
        n_streams: int = 4
        sinkhorn_iterations: int = 20
        eps: float = 1e-6
        norm_eps: float = 1e-6

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.n_streams = config.n_streams
        self.sinkhorn_iterations = config.sinkhorn_iterations
        self.eps = config.eps
        self.norm_eps = config.norm_eps
        weights = (2 + config.n_streams) * config.n_streams
        self.fn = nn.Parameter(torch.empty(weights, config.n_streams * config.dim))
        self.base = nn.Parameter(torch.empty(weights))
        self.scale = nn.Parameter(torch.empty(3))

    def forward(self, streams: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Collapse the streams for the sub-block.

        Args:
            streams: [B, L, N, dim], any float dtype.

        Returns:
            (x [B, L, dim] in the streams' dtype, post fp32 [B, L, N], comb fp32 [B, L, N, N]).
        """
        n = self.n_streams
        batch, length = streams.shape[:2]
        with full_precision(streams):
            pre, post, comb = torch.split(_normalized_linear(streams, self.fn, self.norm_eps), [n, n, n * n], dim=-1)
            pre_base, post_base, comb_base = torch.split(self.base.float(), [n, n, n * n])
            pre_scale, post_scale, comb_scale = self.scale.float().unbind(0)
            pre = torch.sigmoid(pre * pre_scale + pre_base) + self.eps
            post = 2 * torch.sigmoid(post * post_scale + post_base)
            comb = (comb * comb_scale + comb_base).view(-1, n, n).permute(1, 2, 0).contiguous()
            comb = sinkhorn(torch.softmax(comb, dim=1) + self.eps, self.sinkhorn_iterations, self.eps)
            # Contiguous, or the many small products below would run one by one.
            comb = comb.permute(2, 0, 1).contiguous().view(batch, length, n, n)
            return _weighted_sum(pre, streams), post, comb

    @staticmethod
    def expand(y: torch.Tensor, post: torch.Tensor, comb: torch.Tensor, streams: torch.Tensor) -> torch.Tensor:
        """The streams after the sub-block: post[m] * y + sum_n comb[n, m] * streams[n].

        Args:
            y: [B, L, dim], the sub-block's output.
            post: fp32 [B, L, N].
            comb: fp32 [B, L, N, N].
            streams: [B, L, N, dim], the streams that `forward` collapsed.

        Returns:
            [B, L, N, dim] in the streams' dtype.
        """
        with full_precision(streams):
            mixed = torch.matmul(comb.transpose(-1, -2), streams.float())
            return torch.addcmul(mixed, post.unsqueeze(-1), y.float().unsqueeze(-2)).to(streams.dtype)


class HyperHead(KeepFloat32, Module):
    """The final collapse of the streams: `fn` [N, N * dim], `base` [N], `scale` [1]."""

    @dataclass(kw_only=True, slots=True)
    class Config(Module.Config):
        """As HyperConnection's."""

        dim: int
        n_streams: int = 4
        eps: float = 1e-6
        norm_eps: float = 1e-6

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.eps = config.eps
        self.norm_eps = config.norm_eps
        self.fn = nn.Parameter(torch.empty(config.n_streams, config.n_streams * config.dim))
        self.base = nn.Parameter(torch.empty(config.n_streams))
        self.scale = nn.Parameter(torch.empty(1))

    def forward(self, streams: torch.Tensor) -> torch.Tensor:
        """Streams [B, L, N, dim] -> [B, L, dim] in the same dtype."""
        with full_precision(streams):
            mix = _normalized_linear(streams, self.fn, self.norm_eps)
            pre = torch.sigmoid(mix * self.scale.float() + self.base.float()) + self.eps
            return _weighted_sum(pre, streams)


def _normalized_linear(streams: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The RMS-normalized streams times weight^T; normalized after the product, which is smaller."""
    flat = streams.flatten(2).float()
    return F.linear(flat, weight.float()) * torch.rsqrt(flat.square().mean(dim=-1, keepdim=True) + eps)


def _weighted_sum(weights: torch.Tensor, streams: torch.Tensor) -> torch.Tensor:
    return torch.matmul(weights.unsqueeze(-2), streams.float()).squeeze(-2).to(streams.dtype)
