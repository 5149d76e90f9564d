"""Token compressors: every `ratio` tokens of a document become one key-value entry.

An entry is a per-channel softmax-weighted mean of its tokens' projections, weighted by a second projection plus a
learned bias per place in the window (`ape`), then normalized and rotated to the position of the window's first token.

Two kinds. Without overlap (HCA, ratio 128) a window's entry is made of its own tokens. With overlap (CSA and its
indexer, ratio 4) each token is projected to two halves; an entry mixes the second half of its own window's tokens with
the first half of the preceding window's tokens of the same document, so that it spans 2 * ratio tokens.

Compressors are fp32 throughout (see `precision.py`).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torchtitan.protocols.module import Module

from npu_lp.titan.deepseek_v4.documents import Windows
from npu_lp.titan.deepseek_v4.precision import Float32Linear, Float32RMSNorm, KeepFloat32, full_precision
from npu_lp.titan.deepseek_v4.rope import rotate_trailing


class Compressor(KeepFloat32, Module):
    """Compresses hidden states to one entry of `head_dim` channels per window of `ratio` tokens.

    Parameters: `wkv`, `wgate` (dim -> head_dim, or 2 * head_dim with overlap), `norm` (head_dim), and `ape`
    [ratio, head_dim or 2 * head_dim].
    """

    @dataclass(kw_only=True, slots=True)
    class Config(Module.Config):
        """`wkv` and `wgate` must project to head_dim channels, twice as many with overlap."""

        head_dim: int
        ratio: int
        overlap: bool
        wkv: Float32Linear.Config
        wgate: Float32Linear.Config
        norm: Float32RMSNorm.Config

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.ratio = config.ratio
        self.overlap = config.overlap
        self.wkv = config.wkv.build()
        self.wgate = config.wgate.build()
        self.norm = config.norm.build()
        self.ape = nn.Parameter(torch.empty(config.ratio, config.wkv.out_features))

    def forward(self, x: torch.Tensor, windows: Windows, angles: torch.Tensor) -> torch.Tensor:
        """Compress x.

        Args:
            x: [B, L, dim], any float dtype.
            windows: where the W windows of this compressor's ratio lie.
            angles: complex64 [B, W, rope_dim / 2], RoPE's angles of the windows' positions.

        Returns:
            [B, W, head_dim] in x's dtype; slots that hold no window have arbitrary finite content.
        """
        with full_precision(x):
            values = _gather(self.wkv(x), windows.tokens)
            gates = _gather(self.wgate(x), windows.tokens) + self.ape.float()
            if self.overlap:
                values = self._with_preceding(values)
                gates = self._with_preceding(gates)
                missing = ~windows.has_previous[:, :, None, None] & self._is_preceding(x.device)
                gates = gates.masked_fill(missing, float("-inf"))
            entries = (values * gates.softmax(dim=2)).sum(dim=2)
            return rotate_trailing(self.norm(entries), angles).to(x.dtype)

    def _with_preceding(self, chunks: torch.Tensor) -> torch.Tensor:
        """[B, W, ratio, 2 * head_dim] -> [B, W, 2 * ratio, head_dim]: preceding slot's first half, own second half."""
        first, second = torch.split(chunks, self.head_dim, dim=-1)
        preceding = F.pad(first, (0, 0, 0, 0, 1, 0))[:, : first.shape[1]]
        return torch.cat((preceding, second), dim=2)

    def _is_preceding(self, device: torch.device) -> torch.Tensor:
        return torch.arange(2 * self.ratio, device=device)[:, None] < self.ratio


def _gather(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """x [B, L, C], tokens [B, W, ratio] -> [B, W, ratio, C]."""
    batch, length, channels = x.shape
    rows = tokens + length * torch.arange(batch, device=x.device)[:, None, None]
    return x.reshape(-1, channels).index_select(0, rows.flatten()).view(*tokens.shape, channels)
