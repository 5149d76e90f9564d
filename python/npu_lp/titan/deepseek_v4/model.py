"""The DeepSeek-V4 model on torchtitan's Decoder.

Published by DeepSeek with Hugging Face `transformers` as reference implementation: same weights give the same logits
(tests/titan/test_deepseek_v4_parity.py). Modules are named as in torchtitan's DeepSeek-V3 where it has them, else as in
the published checkpoint.
"""

from dataclasses import dataclass
from typing import Any

import spmd_types as spmd  # type: ignore[import-untyped]
import torch
from torch import nn
from torchtitan.models.common.moe_sharding import set_moe_sharding_config
from torchtitan.models.deepseek_v3.mtp import MTPDecoder, roll_mtp_sequence
from torchtitan.models.utils import get_moe_model_nparams_and_flops

from npu_lp.titan.deepseek_v4.attention import Attention
from npu_lp.titan.deepseek_v4.documents import layout_documents
from npu_lp.titan.deepseek_v4.hyper_connections import HyperHead


class DeepSeekV4Model(MTPDecoder):
    """tok_embeddings, layers, hc_head, norm, lm_head, and mtp_layers (None without MTP).

    The indexers are frozen (see `indexer.py`); every other parameter gets a gradient.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(MTPDecoder.Config):
        """torchtitan's fields and the final collapse of the residual streams."""

        hc_head: HyperHead.Config

        def update_from_config(self, *, config: Any, **kwargs: Any) -> None:
            """Apply the trainer's config: sequence length, expert parallelism.

            Raises NotImplementedError for a kind of parallelism that the model does not support.
            """
            MTPDecoder.Config.update_from_config(self, config=config, **kwargs)
            parallelism = config.parallelism
            for flag in ("tensor_parallel_degree", "context_parallel_degree", "pipeline_parallel_degree"):
                degree = getattr(parallelism, flag)
                if degree > 1:
                    raise NotImplementedError(
                        f"parallelism.{flag} is {degree}, but DeepSeek-V4 supports data parallelism (FSDP, HSDP) and "
                        f"expert parallelism only; set --parallelism.{flag} 1"
                    )
            if parallelism.expert_parallel_degree > 1:
                for layer in (*self.layers, *self.mtp_layers):
                    _shard_experts(layer.moe)

        def get_nparams_and_flops(self, model: nn.Module, seq_len: int) -> tuple[int, int]:
            """(number of parameters, training flops per token at `seq_len`), counted as torchtitan counts them.

            Attention is counted over what a query sees: its window and, on average over the sequence, its compressed
            entries. Indexers run forward only.
            """
            nparams, flops = get_moe_model_nparams_and_flops(self, model, 0, 0, seq_len)
            indexers = sum(p.numel() for name, p in model.named_parameters() if ".indexer." in name)
            flops -= 4 * indexers
            for layer in (*self.layers, *self.mtp_layers):
                flops += _attention_flops(layer.attention, seq_len)
            return nparams, flops

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.hc_head = config.hc_head.build()
        self.n_streams = config.hc_head.n_streams
        attentions = [layer.attention for layer in (*config.layers, *config.mtp_layers)]
        windows = {attention.inner_attention.window for attention in attentions}
        if len(windows) != 1:
            raise ValueError(f"all layers must have the same sliding window, got {sorted(windows)}")
        self.window = windows.pop()
        self.ratios = frozenset(a.compressor.ratio for a in attentions if a.compressor is not None)

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor | None = None,
        attention_masks: None = None,
    ) -> torch.Tensor | list[torch.Tensor]:
        """Predict tokens.

        Args:
            tokens: int64 [B, L].
            positions: int64 [B, L], position of each token in its document: 0 where a document starts, then rising by
                1. Tokens do not see other documents. None: each row is one document.
            attention_masks: must be None; masks follow from `positions`. (An argument because torchtitan's is.)

        Returns:
            Logits [B, L, vocab]; in training mode with MTP, a list of such: the main model's, then one per depth.
        """
        if attention_masks is not None:
            raise ValueError("DeepSeek-V4 builds its masks from `positions`; attention_masks must be None")
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        layout = layout_documents(positions, self.window, self.ratios)
        streams = self.tok_embeddings(tokens).unsqueeze(2).repeat(1, 1, self.n_streams, 1)
        for layer in self.layers.values():
            streams = layer(streams, layout, tokens)
        hidden = self.norm(self.hc_head(streams))

        if self.mtp_layers is None or not self.training:
            return hidden if self._skip_lm_head else self.lm_head(hidden)
        if self._skip_lm_head:
            raise ValueError(
                "torchtitan's ChunkedLossWrapper cannot be used with MTP; use npu_lp.titan.deepseek_v4.MTPLoss, "
                "or build the model with num_mtp_layers=0"
            )
        outputs = [hidden]
        for depth, layer in enumerate(self.mtp_layers, 1):
            # Where a document ends, the token `depth` places on does not exist: id 0 stands in for it. Only places
            # without a target can see it, so it influences no loss.
            ahead = roll_mtp_sequence(tokens, shift=depth, positions=positions, fill_value=0)
            streams, hidden = layer(self.tok_embeddings(ahead), streams, layout, ahead)
            outputs.append(hidden)
        return [self.lm_head(output) for output in outputs]


def _shard_experts(moe: Any) -> None:
    """Give the routed experts of a MoE config the sharding of expert parallelism; the rest stays replicated."""
    set_moe_sharding_config(
        moe,
        enable_ep=True,
        enable_sp=False,
        expert_param_layout={"w1_EFD": spmd.S(1), "w2_EDF": spmd.S(2), "w3_EFD": spmd.S(1)},
    )


def _attention_flops(attention: Attention.Config, seq_len: int) -> int:
    """Training flops per token of the products of one attention, 2 per multiply-add, backward twice the forward."""
    seen = min(attention.inner_attention.window, seq_len)
    flops = 0
    if attention.compressor is not None:
        entries = seq_len // attention.compressor.ratio // 2
        if attention.indexer is not None:
            flops += 2 * attention.indexer.n_heads * attention.indexer.head_dim * entries
            entries = min(entries, attention.indexer.top_k)
        seen += entries
    return flops + 3 * 2 * attention.n_heads * 2 * attention.head_dim * seen
