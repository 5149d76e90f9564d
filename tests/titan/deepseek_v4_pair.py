"""A tiny DeepSeek-V4 and Hugging Face's model of the same sizes, with the same random weights."""

from __future__ import annotations

import dataclasses

import torch
from npu_lp.titan.deepseek_v4 import FLAVORS, DeepSeekV4Model, DeepSeekV4StateDictAdapter, Flavor, model_config
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

_KINDS = {0: "sliding_attention", 4: "compressed_sparse_attention", 16: "heavily_compressed_attention"}

TINY = dataclasses.replace(
    FLAVORS["debug"],
    dim=64,
    ratios=(0, 4, 16, 4),
    n_heads=4,
    head_dim=32,
    rope_dim=16,
    q_rank=32,
    o_groups=2,
    o_rank=24,
    num_experts=8,
    top_k=3,
    moe_dim=32,
    index_heads=8,
    index_dim=16,
    index_top_k=4,
    window=8,
    swiglu_limit=1.0,
    vocab_size=97,
    max_seq_len=512,
    yarn_factor=8.0,
    yarn_original_seq_len=64,
)
"""All kinds of layers and both routers; a window, a selection and clamps that are small enough to matter."""


def our_model(flavor: Flavor = TINY, *, mtp: int = 0, seed: int = 0) -> DeepSeekV4Model:
    """A model in which every parameter and every buffer of a checkpoint has a random value that matters."""
    model = model_config(flavor, num_mtp_layers=mtp).build()
    model.init_states()
    generator = torch.Generator().manual_seed(seed)

    def noise(x: torch.Tensor) -> torch.Tensor:
        return torch.randn(x.shape, generator=generator)

    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.copy_(1 + 0.2 * noise(p))
            elif p.ndim == 1 or name.endswith("ape"):
                p.copy_(0.5 * noise(p))
            elif "tok_embeddings" in name:
                p.copy_(noise(p))
            else:
                p.copy_(noise(p) * p.shape[-1] ** -0.5)
        for name, b in model.named_buffers():
            if name.endswith("expert_bias_E"):
                b.copy_(0.3 * noise(b))
            elif name.endswith("tid2eid"):
                b.copy_(torch.rand(b.shape[0], flavor.num_experts, generator=generator).topk(b.shape[1]).indices)
    return model


def hf_config(flavor: Flavor = TINY) -> DeepseekV4Config:
    """The configuration of Hugging Face's model with the sizes of `flavor`."""
    layers = len(flavor.ratios)
    return DeepseekV4Config(
        vocab_size=flavor.vocab_size,
        hidden_size=flavor.dim,
        moe_intermediate_size=flavor.moe_dim,
        num_hidden_layers=layers,
        num_attention_heads=flavor.n_heads,
        head_dim=flavor.head_dim,
        q_lora_rank=flavor.q_rank,
        num_experts_per_tok=flavor.top_k,
        n_routed_experts=flavor.num_experts,
        routed_scaling_factor=flavor.route_scale,
        max_position_embeddings=flavor.max_seq_len,
        layer_types=[_KINDS[ratio] for ratio in flavor.ratios],
        compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": 16},
        mlp_layer_types=["hash_moe"] * flavor.hash_layers + ["moe"] * (layers - flavor.hash_layers),
        hc_mult=flavor.n_streams,
        hc_sinkhorn_iters=flavor.sinkhorn_iterations,
        swiglu_limit=flavor.swiglu_limit,
        sliding_window=flavor.window,
        o_groups=flavor.o_groups,
        o_lora_rank=flavor.o_rank,
        index_n_heads=flavor.index_heads,
        index_head_dim=flavor.index_dim,
        index_topk=flavor.index_top_k,
        partial_rotary_factor=flavor.rope_dim / flavor.head_dim,
        rope_theta=flavor.theta,
        compress_rope_theta=flavor.compressed_theta,
        rope_parameters={
            "rope_type": "yarn",
            "factor": flavor.yarn_factor,
            "original_max_position_embeddings": flavor.yarn_original_seq_len,
            "beta_fast": 32,
            "beta_slow": 1,
        },
        attn_implementation="eager",
    )


def adapter(model: DeepSeekV4Model, layout: str = "transformers") -> DeepSeekV4StateDictAdapter:
    return DeepSeekV4StateDictAdapter(model.config, None, layout=layout)


def hf_model(model: DeepSeekV4Model, flavor: Flavor = TINY) -> DeepseekV4ForCausalLM:
    """Hugging Face's model with the weights of ours, in fp32."""
    theirs = DeepseekV4ForCausalLM(hf_config(flavor)).float()
    weights = adapter(model).to_hf({k: v.clone() for k, v in model.state_dict().items()})
    theirs.load_state_dict({k: v for k, v in weights.items() if not k.startswith("mtp.")})
    return theirs
