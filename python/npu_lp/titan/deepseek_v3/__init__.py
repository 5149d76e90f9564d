"""torchtitan's DeepSeek-V3, as it is, trained by npu_lp's recipes: nothing here is tied to DeepSeek-V4.

Flavors: `debug` (about 2 M parameters, for a CPU), and torchtitan's `16b`, `236b` and `671b`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torchtitan.models.deepseek_v3 as v3
from torch import nn
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.deepseek_v3 import DeepSeekV3Model, deepseekv3_configs
from torchtitan.protocols.model import ModelConfigConverter
from torchtitan.protocols.model_spec import ModelSpec

LOW_PRECISION_FQNS: list[str] = ["attention", "feed_forward", "moe.routed_experts", "moe.shared_experts"]
"""What recipes convert: attention, dense and expert layers; not the router's gate, embeddings and lm_head."""

_DEBUG = "npu_lp_debug"
FLAVORS: dict[str, str] = {"debug": _DEBUG, "16b": "16B", "236b": "236B", "671b": "671B"}
"""Our name of a flavor -> torchtitan's."""


def _debug(attn_backend: str, moe_comm_backend: str, **kwargs: Any) -> DeepSeekV3Model.Config:
    """A V3 with every part of the real one (low-rank queries, a dense first layer, sigmoid router with groups)."""
    dim, vocab_size, rope_dim = 128, 2048, 16

    def normal(std: float) -> dict[str, Any]:
        return {"weight": partial(nn.init.trunc_normal_, std=std), "bias": nn.init.zeros_}

    ones = {"weight": nn.init.ones_}
    layers = v3.build_mla_moe_layers(
        n_layers=4,
        n_dense_layers=1,
        dim=dim,
        n_heads=4,
        q_lora_rank=64,
        kv_lora_rank=64,
        qk_nope_head_dim=32,
        qk_rope_head_dim=rope_dim,
        v_head_dim=32,
        mscale=1.0,
        dense_hidden_dim=384,
        moe_hidden_dim=128,
        num_experts=8,
        num_shared_experts=1,
        router_top_k=2,
        router_score_func="sigmoid",
        router_num_expert_groups=4,
        router_num_limited_groups=2,
        router_route_scale=2.5,
        router_route_norm=True,
        attn_backend=attn_backend,
        moe_comm_backend=moe_comm_backend,
        non_blocking_capacity_factor=kwargs.get("non_blocking_capacity_factor"),
        linear_init=normal(0.02),
        norm_init=ones,
        depth_init=lambda layer: normal(0.02 / (2 * (layer + 1)) ** 0.5),
        depth_experts_init=lambda layer: {
            "w1_EFD": partial(nn.init.trunc_normal_, std=0.02),
            "w2_EDF": partial(nn.init.trunc_normal_, std=0.02 / (2 * (layer + 1)) ** 0.5),
            "w3_EFD": partial(nn.init.trunc_normal_, std=0.02),
        },
        rope=ComplexRoPE.Config(dim=rope_dim, max_seq_len=4096, theta=10000.0),
    )
    return DeepSeekV3Model.Config(
        vocab_size=vocab_size,
        dim=dim,
        tok_embeddings=Embedding.Config(
            num_embeddings=vocab_size, embedding_dim=dim, param_init={"weight": partial(nn.init.normal_, std=1.0)}
        ),
        norm=RMSNorm.Config(normalized_shape=dim, param_init=ones),
        lm_head=Linear.Config(in_features=dim, out_features=vocab_size, param_init=normal(dim**-0.5)),
        layers=layers,
    )


def model_registry(flavor: str, converters: list[ModelConfigConverter.Config] | None = None) -> ModelSpec:
    """The ModelSpec of one of FLAVORS, its configuration passed through `converters`."""
    deepseekv3_configs[_DEBUG] = _debug
    return v3.model_registry(FLAVORS[flavor], converters=converters)
