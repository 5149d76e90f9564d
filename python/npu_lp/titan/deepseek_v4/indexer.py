"""The lightning indexer: which compressed entries a query of a CSA layer may attend to.

It scores every entry with a few small heads, sum_h w[h] * relu(q[h] . k), where k comes from a compressor of its own,
and keeps the `top_k` best that the query may see at all.

The selection has no gradient, so neither has the indexer: as in Hugging Face's model its parameters never get one. They
are frozen (`requires_grad` is False), so that no optimizer keeps state for them: torchtitan could save, but not load, a
checkpoint of an optimizer some of whose parameters never had a gradient. DeepSeek trains the indexer with an auxiliary
loss of its own, which this model does not have; weights of a published checkpoint are used as they are.
"""

from dataclasses import dataclass

import torch
from torchtitan.models.common.linear import Linear
from torchtitan.protocols.module import Module

from npu_lp.titan.deepseek_v4.compressor import Compressor
from npu_lp.titan.deepseek_v4.documents import Windows
from npu_lp.titan.deepseek_v4.precision import full_precision
from npu_lp.titan.deepseek_v4.rope import rotate_trailing


class Indexer(Module):
    """Selects compressed entries per query. Parameters: `wq_b`, `weights_proj`, `compressor`."""

    @dataclass(kw_only=True, slots=True)
    class Config(Module.Config):
        """wq_b: q_rank -> n_heads * head_dim; weights_proj: dim -> n_heads; compressor with head_dim, overlapping."""

        n_heads: int
        head_dim: int
        top_k: int
        wq_b: Linear.Config
        weights_proj: Linear.Config
        compressor: Compressor.Config

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.head_dim = config.head_dim
        self.top_k = config.top_k
        self.wq_b = config.wq_b.build()
        self.weights_proj = config.weights_proj.build()
        self.compressor = config.compressor.build()
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(
        self,
        x: torch.Tensor,
        q_latent: torch.Tensor,
        windows: Windows,
        query_angles: torch.Tensor,
        window_angles: torch.Tensor,
    ) -> torch.Tensor:
        """Select entries.

        Args:
            x: [B, L, dim], the attention's input.
            q_latent: [B, L, q_rank], the attention's normalized low-rank query.
            windows: the W windows of the compressor's ratio.
            query_angles: complex64 [B, L, rope_dim / 2].
            window_angles: complex64 [B, W, rope_dim / 2].

        Returns:
            bool [B, L, W]: the visible entries that are among the query's top_k; all visible ones if there are fewer.
        """
        keys = self.compressor(x, windows, window_angles)
        queries = self.wq_b(q_latent).unflatten(-1, (self.n_heads, self.head_dim))
        queries = rotate_trailing(queries, query_angles.unsqueeze(2))
        weights = self.weights_proj(x).float() * self.n_heads**-0.5
        with full_precision(x):
            similarity = torch.matmul(queries.flatten(1, 2).float(), keys.float().transpose(1, 2))
            similarity = similarity.relu().view(*queries.shape[:3], keys.shape[1]) * self.head_dim**-0.5
            scores = torch.matmul(weights.unsqueeze(2), similarity).squeeze(2)
        scores = scores.masked_fill(~windows.visible, float("-inf"))
        chosen = scores.topk(min(self.top_k, scores.shape[-1]), dim=-1).indices
        # top_k also names entries with score -inf when fewer are visible; the last factor drops them.
        return torch.zeros_like(windows.visible).scatter_(-1, chosen, True) & windows.visible
