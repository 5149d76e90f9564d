"""FlexAttention's contract computed by scaled_dot_product_attention with a dense mask, for devices without its backward.

Same inputs, same mask function, same result up to rounding; the mask takes B * L * L bytes, so this suits the short
sequences one trains on a CPU. Activated by `npu_lp.titan.host` through torchtitan's override mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask, create_mask
from torchtitan.config.override import derive, override
from torchtitan.models.common.attention import FlexAttention


class DenseAttention(FlexAttention):
    """q, k, v [B, L, N, H] -> [B, L, N, H], masked by the mask function of a BlockMask."""

    @dataclass(kw_only=True, slots=True)
    class Config(FlexAttention.Config):
        """Fields of FlexAttention.Config; block_size and kernel_options only concern its own kernels."""

    def forward(
        self,
        q_BLNH: torch.Tensor,
        k_BLNH: torch.Tensor,
        v_BLNH: torch.Tensor,
        *,
        attention_masks: BlockMask,
        score_mod: Callable[..., torch.Tensor] | None = None,
        scale: float | None = None,
        enable_gqa: bool = False,
        out_transform: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Attention with `attention_masks`; score_mod and out_transform (which needs the log-sum-exp) are not possible.

        Raises NotImplementedError for those two.
        """
        if score_mod is not None or out_transform is not None:
            raise NotImplementedError(
                "this model uses FlexAttention's score_mod or log-sum-exp, which scaled_dot_product_attention does not "
                "have: it cannot be trained on the CPU, use an NPU or a GPU"
            )
        mask = _dense_mask(attention_masks, q_BLNH.shape[1], k_BLNH.shape[1], q_BLNH.device)
        out_BNLH = F.scaled_dot_product_attention(
            q_BLNH.transpose(1, 2),
            k_BLNH.transpose(1, 2),
            v_BLNH.transpose(1, 2),
            attn_mask=mask,
            scale=scale,
            enable_gqa=enable_gqa,
        )
        return out_BNLH.transpose(1, 2)


def _dense_mask(block_mask: BlockMask, q_len: int, kv_len: int, device: torch.device) -> torch.Tensor:
    """bool [B, N or 1, q_len, kv_len]; computed once per BlockMask, which all layers of a step share."""
    mask = getattr(block_mask, "_npu_lp_dense_mask", None)
    if mask is None or mask.shape[-2:] != (q_len, kv_len):
        batch, heads = block_mask.kv_num_blocks.shape[:2]
        mask = create_mask(block_mask.mask_mod, batch, heads, q_len, kv_len, device=device)
        block_mask._npu_lp_dense_mask = mask  # type: ignore[attr-defined]
    return mask


@override(target=FlexAttention.Config, exact=True, description="FlexAttention by SDPA with a dense mask")
def dense_attention(config: FlexAttention.Config) -> DenseAttention.Config:
    """torchtitan override: use it as `--override.imports npu_lp.titan.dense_attention.dense_attention`."""
    return derive(config, DenseAttention.Config)
