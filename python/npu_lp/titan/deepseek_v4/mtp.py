"""Multi-token prediction (MTP): extra blocks that predict the token after the next one, and so on.

The frame is torchtitan's for DeepSeek-V3: `mtp_layers` next to `layers`, a list of predictions from the model in
training, and a loss that adds the mean of the extra losses times `mtp_scale`. DeepSeek-V4's block differs: it works on
the residual streams, fuses them with the next token's embedding by two linear layers, e_proj(enorm(e)) and
h_proj(hnorm(h)), and collapses the streams with a head of its own. Embedding and lm_head are the main model's.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torchtitan.models.common.linear import Linear
from torchtitan.models.deepseek_v3.mtp import MTPLoss as DeepSeekV3MTPLoss
from torchtitan.models.deepseek_v3.mtp import MTPTransformerBlock

from npu_lp.titan.deepseek_v4.block import DeepSeekV4TransformerBlock
from npu_lp.titan.deepseek_v4.documents import DocumentLayout
from npu_lp.titan.deepseek_v4.hyper_connections import HyperConnection, HyperHead


class DeepSeekV4MTPBlock(DeepSeekV4TransformerBlock):
    """A transformer block behind the fusion of two inputs, with a head that collapses its streams.

    Input norms `enorm`, `hnorm`, projections `e_proj`, `h_proj` (dim -> dim), head `hc_head`, `mtp_norm`.
    """

    # torchtitan's MTPDecoder accepts configs of MTPTransformerBlock only, hence the base class.
    @dataclass(kw_only=True, slots=True)
    class Config(MTPTransformerBlock.Config):
        """torchtitan's fields without eh_proj, which e_proj and h_proj replace, and the streams' modules."""

        eh_proj: Linear.Config | None = None
        e_proj: Linear.Config
        h_proj: Linear.Config
        hc_attn: HyperConnection.Config
        hc_ffn: HyperConnection.Config
        hc_head: HyperHead.Config

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.enorm = config.enorm.build()
        self.hnorm = config.hnorm.build()
        self.e_proj = config.e_proj.build()
        self.h_proj = config.h_proj.build()
        self.hc_head = config.hc_head.build()
        self.mtp_norm = config.mtp_norm.build()

    def forward(  # type: ignore[override]  # one input and one output more than the block it extends
        self, embedding: torch.Tensor, streams: torch.Tensor, layout: DocumentLayout, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One depth of prediction.

        Args:
            embedding: [B, L, dim], at each place the embedding of the token `depth` places further on.
            streams: [B, L, N, dim] from the main model's last block, or from the preceding depth.
            layout: of the packed batch.
            tokens: int64 [B, L], ids of the tokens that `embedding` embeds.

        Returns:
            (streams [B, L, N, dim] for the next depth, hidden state [B, L, dim] for lm_head).
        """
        fused = self.e_proj(self.enorm(embedding)).unsqueeze(2) + self.h_proj(self.hnorm(streams))
        streams = super().forward(fused, layout, tokens)
        return streams, self.mtp_norm(self.hc_head(streams))


class MTPLoss(DeepSeekV3MTPLoss):
    """torchtitan's MTP loss that also takes the plain logits a DeepSeek-V4 model returns in evaluation mode.

    So the validation loss is the main model's next-token loss, comparable with that of any other model.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(DeepSeekV3MTPLoss.Config):
        """As torchtitan's: mtp_scale (0.3), global_vocab_size."""

    def __call__(
        self,
        pred: list[torch.Tensor] | torch.Tensor,
        labels: torch.Tensor,
        global_valid_tokens: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Sum of the losses over tokens, divided by global_valid_tokens if given; and no further metrics.

        Args:
            pred: logits [B, L, vocab], or a list of them: the main model's, then one per MTP depth (then `positions`
                int64 [B, L] is required among kwargs, to keep targets within documents).
            labels: int64 [B, L], the next token at each place, -100 where there is none.
            global_valid_tokens: number of labels that count, over all ranks.
            kwargs: `positions`; the rest is ignored, as torchtitan does.
        """
        if isinstance(pred, list):
            return super().__call__(pred, labels, global_valid_tokens, **kwargs)
        loss = self.fn(pred, labels, global_vocab_size=self.global_vocab_size)
        return (loss if global_valid_tokens is None else loss / global_valid_tokens), {}
