"""DeepSeek-V4's attention: one shared key-value head, a sliding window, compressed entries, and a sink per head.

    q  = RMS(wq_b(q_norm(wq_a(x))))      n_heads heads of head_dim, trailing channels rotated
    kv = kv_norm(wkv(x))                 one head, key and value at once, trailing channels rotated
    o  = softmax([q.kv in the window, q.compressed entries, sink]) @ [kv, entries, 0]
    y  = wo_b(wo_a(unrotate(o)))         wo_a projects each group of heads on its own

Three kinds of layer: window only (no compressor), CSA (overlapping compressor with a small ratio, of whose entries an
indexer selects some per query) and HCA (compressor with a large ratio, all of whose entries are seen).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torchtitan.models.common.attention import BaseAttention
from torchtitan.models.common.linear import Linear
from torchtitan.protocols.module import Module

from npu_lp.titan.deepseek_v4.compressor import Compressor
from npu_lp.titan.deepseek_v4.documents import DocumentLayout, chunk_count
from npu_lp.titan.deepseek_v4.grouped_linear import GroupedLinear
from npu_lp.titan.deepseek_v4.indexer import Indexer
from npu_lp.titan.deepseek_v4.precision import Float32RMSNorm, KeepFloat32, full_precision, rms_normalize
from npu_lp.titan.deepseek_v4.rope import TrailingRoPE, rotate_trailing


class WindowSinkAttention(KeepFloat32, Module):
    """The softmax and the two products of attention, with one key-value head for all query heads.

    Products are accumulated and the softmax is taken in fp32, as fused attention kernels do. The window costs
    O(L * window) time and memory: queries are cut into chunks of `window`, each of which sees two chunks of keys. Over
    compressed entries the products are dense (a mask says which ones count).

    Parameter: `attn_sink` [n_heads], a logit that takes part in each softmax and contributes nothing to the output.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(Module.Config):
        """`window` counts the query's own token."""

        n_heads: int
        window: int

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.window = config.window
        self.attn_sink = nn.Parameter(torch.empty(config.n_heads))

    def forward(
        self,
        q: torch.Tensor,
        kv: torch.Tensor,
        layout: DocumentLayout,
        *,
        scale: float,
        entries: torch.Tensor | None = None,
        selected: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attend.

        Args:
            q: [B, L, n_heads, head_dim].
            kv: [B, L, head_dim], key and value.
            layout: of the batch, computed for this module's window.
            scale: factor of the scores.
            entries: compressed keys and values [B, W, head_dim].
            selected: bool [B, L, W], which entries each query attends to.

        Returns:
            [B, L, n_heads, head_dim] in q's dtype.
        """
        batch, length, heads, head_dim = q.shape
        count, size = chunk_count(length, self.window)
        padding = count * size - length
        with full_precision(q):
            # [B, chunks, heads * queries, head_dim]: with one kv head, heads are just more queries.
            queries = F.pad(q.float(), (0, 0, 0, 0, 0, padding)).view(batch, count, size, heads, head_dim)
            queries = (queries * scale).transpose(2, 3).reshape(batch, count, heads * size, head_dim)
            chunks = F.pad(kv.float(), (0, 0, 0, padding)).view(batch, count, size, head_dim)
            keys = torch.cat((F.pad(chunks, (0, 0, 0, 0, 1, 0))[:, :-1], chunks), dim=2)

            near = torch.matmul(queries, keys.transpose(-1, -2)).view(batch, count, heads, size, 2 * size)
            logits = [near.masked_fill(~layout.local.unsqueeze(2), float("-inf"))]
            if entries is not None and selected is not None:
                entries = entries.float().unsqueeze(1)
                far = torch.matmul(queries, entries.transpose(-1, -2)).view(batch, count, heads, size, entries.shape[2])
                seen = F.pad(selected, (0, 0, 0, padding)).view(batch, count, 1, size, entries.shape[2])
                logits.append(far.masked_fill(~seen, float("-inf")))
            logits.append(self.attn_sink.float().view(heads, 1, 1).expand(batch, count, heads, size, 1))

            weights = torch.cat(logits, dim=-1).softmax(dim=-1).view(batch, count, heads * size, -1)
            out = torch.matmul(weights[..., : 2 * size], keys)
            if entries is not None:
                out = out + torch.matmul(weights[..., 2 * size : -1], entries)
            out = out.view(batch, count, heads, size, head_dim).transpose(2, 3)
            return out.reshape(batch, count * size, heads, head_dim)[:, :length].to(q.dtype)


class Attention(BaseAttention):
    """One attention block. The modules are named as in torchtitan's DeepSeek-V3 and in the published checkpoint."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseAttention.Config):
        """A layer without `compressor` sees its window only; with `indexer` it is CSA, without it HCA."""

        head_dim: int
        norm_eps: float = 1e-6
        wq_a: Linear.Config
        q_norm: Float32RMSNorm.Config
        wq_b: Linear.Config
        wkv: Linear.Config
        kv_norm: Float32RMSNorm.Config
        wo_a: GroupedLinear.Config
        wo_b: Linear.Config
        rope: TrailingRoPE.Config
        compressor: Compressor.Config | None = None
        indexer: Indexer.Config | None = None

        def __post_init__(self) -> None:
            BaseAttention.Config.__post_init__(self)
            if self.indexer is not None and self.compressor is None:
                raise ValueError("an attention with an indexer needs a compressor whose entries it can select from")

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.head_dim = config.head_dim
        self.norm_eps = config.norm_eps
        self.n_groups = config.wo_a.n_groups
        self.wq_a = config.wq_a.build()
        self.q_norm = config.q_norm.build()
        self.wq_b = config.wq_b.build()
        self.wkv = config.wkv.build()
        self.kv_norm = config.kv_norm.build()
        self.inner_attention = config.inner_attention.build()
        self.wo_a = config.wo_a.build()
        self.wo_b = config.wo_b.build()
        self.rope = config.rope.build()
        self.compressor = None if config.compressor is None else config.compressor.build()
        self.indexer = None if config.indexer is None else config.indexer.build()

    def forward(self, x: torch.Tensor, layout: DocumentLayout) -> torch.Tensor:
        """x [B, L, dim] -> [B, L, dim]."""
        angles = self.rope.angles(layout.positions)
        q_latent = self.q_norm(self.wq_a(x))
        q = rms_normalize(self.wq_b(q_latent).unflatten(-1, (self.n_heads, self.head_dim)), self.norm_eps)
        q = rotate_trailing(q, angles.unsqueeze(2))
        kv = rotate_trailing(self.kv_norm(self.wkv(x)), angles)

        entries = selected = None
        if self.compressor is not None:
            windows = layout.windows[self.compressor.ratio]
            window_angles = self.rope.angles(windows.positions)
            entries = self.compressor(x, windows, window_angles)
            selected = windows.visible
            if self.indexer is not None:
                selected = self.indexer(x, q_latent, windows, angles, window_angles)

        out = self.inner_attention(q, kv, layout, scale=self.head_dim**-0.5, entries=entries, selected=selected)
        out = rotate_trailing(out, angles.conj().unsqueeze(2))
        groups = out.reshape(*x.shape[:2], self.n_groups, -1)
        return self.wo_b(self.wo_a(groups).flatten(2))
