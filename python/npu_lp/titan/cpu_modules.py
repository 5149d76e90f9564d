"""torchtitan modules that a CPU cannot run, or runs many times slower than it could, written for it.

Attention: FlexAttention has no backward on the CPU; here the same masks go to scaled_dot_product_attention, as a dense
[B, 1, L, L] mask, which suits the short sequences one trains on a CPU.

BF16 matmuls: torch's are 3 to 50 times slower than fp32 ones on a processor without BF16 instructions. There the BF16
operands are multiplied in fp32 and the result is rounded to BF16: what a BF16 matmul with fp32 accumulation is. Under
autocast, which would cast the fp32 operands back, they are rounded to its dtype first, as torch does for its own matmuls.

`npu_lp.titan.host` activates what the machine needs, through torchtitan's override mechanism, by the functions at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask, create_mask
from torchtitan.config.override import derive, override
from torchtitan.models.common.attention import FlexAttention
from torchtitan.models.common.linear import Linear
from torchtitan.models.common.moe import GroupedExperts

from npu_lp.titan.deepseek_v4.grouped_linear import GroupedLinear
from npu_lp.titan.deepseek_v4.precision import full_precision


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
        dtype = q_BLNH.dtype if has_bf16_instructions() else torch.float32
        q_BNLH, k_BNLH, v_BNLH = (x.to(dtype).transpose(1, 2) for x in (q_BLNH, k_BLNH, v_BLNH))
        with full_precision(q_BLNH):  # autocast would cast back
            out_BNLH = F.scaled_dot_product_attention(
                q_BNLH, k_BNLH, v_BNLH, attn_mask=mask, scale=scale, enable_gqa=enable_gqa
            )
        return out_BNLH.transpose(1, 2).to(q_BLNH.dtype)


def _dense_mask(block_mask: BlockMask, q_len: int, kv_len: int, device: torch.device) -> torch.Tensor:
    """bool [B, N or 1, q_len, kv_len]; computed once per BlockMask, which all layers of a step share."""
    mask = getattr(block_mask, "_npu_lp_dense_mask", None)
    if mask is None or mask.shape[-2:] != (q_len, kv_len):
        batch, heads = block_mask.kv_num_blocks.shape[:2]
        mask = create_mask(block_mask.mask_mod, batch, heads, q_len, kv_len, device=device)
        block_mask._npu_lp_dense_mask = mask  # type: ignore[attr-defined]
    return mask


def _autocast(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The operands in the autocast dtype, where autocast is on."""
    device = operands[0].device.type
    if not torch.is_autocast_enabled(device):
        return operands
    return tuple(operand.to(torch.get_autocast_dtype(device)) for operand in operands)


class WideLinear(Linear):
    """torchtitan's Linear, multiplied in fp32 and rounded to the dtype that it would return."""

    @dataclass(kw_only=True, slots=True)
    class Config(Linear.Config):
        """As torchtitan's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features] -> [..., out_features] in x's dtype, or autocast's."""
        x, weight, *bias = _autocast(x, self.weight, *([] if self.bias is None else [self.bias]))
        with full_precision(x):
            return F.linear(x.float(), weight.float(), *(b.float() for b in bias)).to(x.dtype)


class WideGroupedLinear(GroupedLinear):
    """DeepSeek-V4's grouped output projection, multiplied in fp32 and rounded to the dtype that it would return."""

    @dataclass(kw_only=True, slots=True)
    class Config(GroupedLinear.Config):
        """As GroupedLinear's."""

    def _matmul(self, x_gti: torch.Tensor, w_goi: torch.Tensor) -> torch.Tensor:
        x, w = _autocast(x_gti, w_goi)
        with full_precision(x):
            return torch.bmm(x.float(), w.float().transpose(1, 2)).to(x.dtype)


def wide_grouped_mm(self: GroupedExperts, *, A: torch.Tensor, B_t: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """GroupedExperts._grouped_mm, multiplied in fp32: A [R, K], B_t [E, K, N], offs int32 [E] -> [R, N] in A's dtype."""
    with full_precision(A):
        return torch._grouped_mm(A.float(), B_t.float(), offs=offs).to(A.dtype)


@functools.cache
def _wide_experts(owner: type[GroupedExperts]) -> Any:
    """`Wide<owner>`: torchtitan's experts, or a model's own kind of them, with `wide_grouped_mm`."""

    class WideExperts(owner):
        _grouped_mm = wide_grouped_mm

        @dataclass(kw_only=True, slots=True)
        class Config(owner.Config):  # type: ignore[name-defined]
            pass

    WideExperts.__name__ = WideExperts.__qualname__ = f"Wide{owner.__name__}"
    return WideExperts


@functools.cache
def has_bf16_instructions() -> bool:
    """Whether this processor multiplies BF16 itself (x86: AVX512_BF16 or AMX; ARM: BF16)."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16", "arm_bf16"))


@override(target=FlexAttention.Config, exact=True, description="FlexAttention by SDPA with a dense mask")
def dense_attention(config: FlexAttention.Config) -> DenseAttention.Config:
    """For a CPU."""
    return derive(config, DenseAttention.Config)


@override(target=Linear.Config, exact=True, description="BF16 Linear multiplied in fp32")
def wide_linear(config: Linear.Config) -> WideLinear.Config:
    """For a CPU without BF16 instructions; layers that a converter has replaced are of another class and stay."""
    return derive(config, WideLinear.Config)


@override(target=GroupedExperts.Config, description="BF16 experts multiplied in fp32")
def wide_experts(config: GroupedExperts.Config) -> GroupedExperts.Config:
    """For a CPU without BF16 instructions; experts that a converter has replaced stay as they are."""
    owner = type(config)._owner
    if owner._grouped_mm is not GroupedExperts._grouped_mm:
        return config
    return derive(config, _wide_experts(owner).Config)


@override(target=GroupedLinear.Config, exact=True, description="BF16 GroupedLinear multiplied in fp32")
def wide_grouped_linear(config: GroupedLinear.Config) -> WideGroupedLinear.Config:
    """For a CPU without BF16 instructions; layers that a converter has replaced are of another class and stay."""
    return derive(config, WideGroupedLinear.Config)
