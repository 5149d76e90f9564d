"""DeepSeek-V4's transformer block: attention and MoE, each between a collapse and an expansion of residual streams."""

from dataclasses import dataclass

import torch
from torchtitan.models.common.decoder import TransformerBlock

from npu_lp.titan.deepseek_v4.documents import DocumentLayout
from npu_lp.titan.deepseek_v4.hyper_connections import HyperConnection


class DeepSeekV4TransformerBlock(TransformerBlock):
    """attention_norm, attention, ffn_norm and moe as in torchtitan's DeepSeek-V3; hc_attn and hc_ffn around them."""

    @dataclass(kw_only=True, slots=True)
    class Config(TransformerBlock.Config):
        """torchtitan's fields; `moe` is required, `feed_forward` is not used."""

        hc_attn: HyperConnection.Config
        hc_ffn: HyperConnection.Config

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.moe is None:
            raise ValueError("every DeepSeek-V4 block has experts: set Config.moe")
        self.moe_enabled = True
        self.hc_attn = config.hc_attn.build()
        self.attention_norm = config.attention_norm.build()
        self.attention = config.attention.build()
        self.hc_ffn = config.hc_ffn.build()
        self.ffn_norm = config.ffn_norm.build()
        self.moe = config.moe.build()

    def forward(self, streams: torch.Tensor, layout: DocumentLayout, tokens: torch.Tensor) -> torch.Tensor:
        """One block.

        Args:
            streams: [B, L, N, dim].
            layout: of the packed batch.
            tokens: int64 [B, L], the token ids, for hash routing.

        Returns:
            [B, L, N, dim].
        """
        x, post, comb = self.hc_attn(streams)
        streams = HyperConnection.expand(self.attention(self.attention_norm(x), layout), post, comb, streams)
        x, post, comb = self.hc_ffn(streams)
        return HyperConnection.expand(self.moe(self.ffn_norm(x), tokens), post, comb, streams)
