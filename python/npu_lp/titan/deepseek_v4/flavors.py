"""Sizes of the DeepSeek-V4 models, and the configs built from them.

`flash` and `pro` have the published numbers. `debug` is small enough to train on two CPU cores in minutes and has every
kind of layer and both routers; `1b` is a size in between that fits one accelerator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn
from torchtitan.models.common.config_utils import make_token_dispatcher_config
from torchtitan.models.common.embedding import Embedding
from torchtitan.models.common.linear import Linear
from torchtitan.models.common.moe import RoutedExperts
from torchtitan.models.common.param_init import depth_scaled_std

from npu_lp.titan.deepseek_v4.attention import Attention, WindowSinkAttention
from npu_lp.titan.deepseek_v4.block import DeepSeekV4TransformerBlock
from npu_lp.titan.deepseek_v4.compressor import Compressor
from npu_lp.titan.deepseek_v4.grouped_linear import GroupedLinear
from npu_lp.titan.deepseek_v4.hyper_connections import HyperConnection, HyperHead
from npu_lp.titan.deepseek_v4.indexer import Indexer
from npu_lp.titan.deepseek_v4.model import DeepSeekV4Model
from npu_lp.titan.deepseek_v4.moe import (
    ClampedFeedForward,
    ClampedGroupedExperts,
    DeepSeekV4MoE,
    HashRouter,
    SqrtSoftplusRouter,
)
from npu_lp.titan.deepseek_v4.mtp import DeepSeekV4MTPBlock
from npu_lp.titan.deepseek_v4.precision import Float32Linear, Float32RMSNorm
from npu_lp.titan.deepseek_v4.rope import TrailingRoPE

# Layer kinds, in `Flavor.ratios`: 0 is a layer with a sliding window only.
_WINDOW_ONLY = 0
_PUBLISHED_STD = 0.02


@dataclass(frozen=True, kw_only=True)
class Flavor:
    """The numbers of one model size. Defaults are those that `flash` and `pro` share.

    Attributes:
        ratios: compression ratio of each layer; 0 for a layer without compressor. A ratio equal to `csa_ratio` makes a
            CSA layer (overlapping compressor, indexer), another one an HCA layer. MTP blocks have no compressor.
        q_rank, o_rank: ranks of the query's and (per group) of the output projection.
        hash_layers: number of first layers that route by token id.
        init_std: standard deviation of the initial weights, lm_head's apart. The published 0.02 suits a width of thousands;
            in a narrow model it is small next to a step of the optimizer, and gradients explode in the first 50 steps.
    """

    dim: int
    ratios: tuple[int, ...]
    n_heads: int
    q_rank: int
    o_groups: int
    o_rank: int
    num_experts: int
    top_k: int
    moe_dim: int
    index_heads: int
    index_dim: int
    index_top_k: int
    head_dim: int = 512
    rope_dim: int = 64
    window: int = 128
    csa_ratio: int = 4
    hash_layers: int = 3
    route_scale: float = 1.5
    swiglu_limit: float = 10.0
    n_streams: int = 4
    sinkhorn_iterations: int = 20
    vocab_size: int = 129280
    max_seq_len: int = 1048576
    theta: float = 10000.0
    compressed_theta: float = 160000.0
    yarn_factor: float = 16.0
    yarn_original_seq_len: int = 65536
    init_std: float = _PUBLISHED_STD


FLAVORS: dict[str, Flavor] = {
    "debug": Flavor(
        dim=128,
        ratios=(0, 4, 32, 4),
        n_heads=4,
        head_dim=64,
        rope_dim=32,
        q_rank=64,
        o_groups=2,
        o_rank=64,
        num_experts=8,
        top_k=2,
        moe_dim=64,
        index_heads=4,
        index_dim=32,
        index_top_k=16,
        window=64,
        hash_layers=2,
        vocab_size=2048,
        max_seq_len=16384,
        yarn_original_seq_len=1024,
        init_std=0.08,
    ),
    "1b": Flavor(
        dim=1024,
        ratios=(0, 0, *(4, 128) * 5),
        n_heads=16,
        head_dim=128,
        rope_dim=64,
        q_rank=512,
        o_groups=4,
        o_rank=256,
        num_experts=32,
        top_k=4,
        moe_dim=512,
        index_heads=16,
        index_dim=64,
        index_top_k=256,
    ),
    "flash": Flavor(
        dim=4096,
        ratios=(0, 0, 4, *(128, 4) * 20),
        n_heads=64,
        q_rank=1024,
        o_groups=8,
        o_rank=1024,
        num_experts=256,
        top_k=6,
        moe_dim=2048,
        index_heads=64,
        index_dim=128,
        index_top_k=512,
    ),
    "pro": Flavor(
        dim=7168,
        ratios=(128, *(128, 4) * 30),
        n_heads=128,
        q_rank=1536,
        o_groups=16,
        o_rank=1024,
        num_experts=384,
        top_k=6,
        moe_dim=3072,
        index_heads=64,
        index_dim=128,
        index_top_k=1024,
        route_scale=2.5,
    ),
}


def model_config(
    flavor: Flavor,
    *,
    num_mtp_layers: int = 1,
    moe_comm_backend: str = "standard",
    non_blocking_capacity_factor: float | None = None,
) -> DeepSeekV4Model.Config:
    """The config of a model; see `model_registry` for the arguments."""
    builder = _Builder(flavor, moe_comm_backend, non_blocking_capacity_factor)
    n_layers = len(flavor.ratios)
    return DeepSeekV4Model.Config(
        dim=flavor.dim,
        vocab_size=flavor.vocab_size,
        tok_embeddings=Embedding.Config(
            num_embeddings=flavor.vocab_size,
            embedding_dim=flavor.dim,
            param_init=_init(flavor.init_std),
        ),
        layers=[DeepSeekV4TransformerBlock.Config(**builder.block(i, flavor.ratios[i])) for i in range(n_layers)],
        mtp_layers=[builder.mtp_block(n_layers + depth) for depth in range(num_mtp_layers)],
        hc_head=builder.head(),
        norm=builder.norm(flavor.dim),
        lm_head=_linear(flavor.dim, flavor.vocab_size, _PUBLISHED_STD),
    )


def _init(std: float, name: str = "weight") -> dict[str, Callable]:
    return {name: partial(nn.init.trunc_normal_, std=std, a=-3 * std, b=3 * std)}


def _linear(in_features: int, out_features: int, std: float) -> Linear.Config:
    return Linear.Config(in_features=in_features, out_features=out_features, param_init=_init(std))


class _Builder:
    """Builds the configs of a flavor's modules, method by method."""

    def __init__(self, flavor: Flavor, comm_backend: str, capacity_factor: float | None) -> None:
        self.flavor = flavor
        self.comm_backend = comm_backend
        self.capacity_factor = capacity_factor

    def init(self, name: str = "weight") -> dict[str, Callable]:
        return _init(self.flavor.init_std, name)

    def linear(self, in_features: int, out_features: int, std: float | None = None) -> Linear.Config:
        return _linear(in_features, out_features, self.flavor.init_std if std is None else std)

    def norm(self, size: int) -> Float32RMSNorm.Config:
        return Float32RMSNorm.Config(normalized_shape=size, param_init={"weight": nn.init.ones_})

    def block(self, layer_id: int, ratio: int) -> dict[str, Any]:
        """Fields that blocks of the main model and of MTP share."""
        return {
            "attention": self.attention(layer_id, ratio),
            "attention_norm": self.norm(self.flavor.dim),
            "ffn_norm": self.norm(self.flavor.dim),
            "moe": self.moe(layer_id),
            "hc_attn": self.hyper_connection(),
            "hc_ffn": self.hyper_connection(),
        }

    def mtp_block(self, layer_id: int) -> DeepSeekV4MTPBlock.Config:
        dim = self.flavor.dim
        return DeepSeekV4MTPBlock.Config(
            **self.block(layer_id, _WINDOW_ONLY),
            enorm=self.norm(dim),
            hnorm=self.norm(dim),
            e_proj=self.linear(dim, dim),
            h_proj=self.linear(dim, dim),
            hc_head=self.head(),
            mtp_norm=self.norm(dim),
        )

    def hyper_connection(self) -> HyperConnection.Config:
        return HyperConnection.Config(
            dim=self.flavor.dim,
            n_streams=self.flavor.n_streams,
            sinkhorn_iterations=self.flavor.sinkhorn_iterations,
            param_init={**self.init("fn"), "base": nn.init.zeros_, "scale": nn.init.ones_},
        )

    def head(self) -> HyperHead.Config:
        return HyperHead.Config(
            dim=self.flavor.dim,
            n_streams=self.flavor.n_streams,
            param_init={**self.init("fn"), "base": nn.init.zeros_, "scale": nn.init.ones_},
        )

    def attention(self, layer_id: int, ratio: int) -> Attention.Config:
        f = self.flavor
        group_features = f.n_heads * f.head_dim // f.o_groups
        selects = ratio == f.csa_ratio
        return Attention.Config(
            n_heads=f.n_heads,
            head_dim=f.head_dim,
            wq_a=self.linear(f.dim, f.q_rank),
            q_norm=self.norm(f.q_rank),
            wq_b=self.linear(f.q_rank, f.n_heads * f.head_dim),
            wkv=self.linear(f.dim, f.head_dim),
            kv_norm=self.norm(f.head_dim),
            inner_attention=WindowSinkAttention.Config(
                n_heads=f.n_heads, window=f.window, param_init={"attn_sink": nn.init.zeros_}
            ),
            wo_a=GroupedLinear.Config(
                n_groups=f.o_groups, in_features=group_features, out_features=f.o_rank, param_init=self.init()
            ),
            wo_b=self.linear(f.o_groups * f.o_rank, f.dim, depth_scaled_std(self.flavor.init_std, layer_id)),
            rope=self.rope(compressed=ratio != _WINDOW_ONLY),
            compressor=None if ratio == _WINDOW_ONLY else self.compressor(f.head_dim, ratio, overlap=selects),
            indexer=self.indexer() if selects else None,
        )

    def rope(self, *, compressed: bool) -> TrailingRoPE.Config:
        f = self.flavor
        if not compressed:
            return TrailingRoPE.Config(dim=f.rope_dim, max_seq_len=f.max_seq_len, theta=f.theta)
        return TrailingRoPE.Config(
            dim=f.rope_dim,
            max_seq_len=f.max_seq_len,
            theta=f.compressed_theta,
            scaling="yarn",
            rope_factor=f.yarn_factor,
            original_seq_len=f.yarn_original_seq_len,
        )

    def compressor(self, head_dim: int, ratio: int, *, overlap: bool) -> Compressor.Config:
        channels = head_dim * (2 if overlap else 1)
        projection = partial(
            Float32Linear.Config, in_features=self.flavor.dim, out_features=channels, param_init=self.init()
        )
        return Compressor.Config(
            head_dim=head_dim,
            ratio=ratio,
            overlap=overlap,
            wkv=projection(),
            wgate=projection(),
            norm=self.norm(head_dim),
            param_init={"ape": nn.init.zeros_},
        )

    def indexer(self) -> Indexer.Config:
        f = self.flavor
        return Indexer.Config(
            n_heads=f.index_heads,
            head_dim=f.index_dim,
            top_k=f.index_top_k,
            wq_b=self.linear(f.q_rank, f.index_heads * f.index_dim),
            weights_proj=self.linear(f.dim, f.index_heads),
            compressor=self.compressor(f.index_dim, f.csa_ratio, overlap=True),
        )

    def moe(self, layer_id: int) -> DeepSeekV4MoE.Config:
        f = self.flavor
        depth_std = depth_scaled_std(self.flavor.init_std, layer_id)
        return DeepSeekV4MoE.Config(
            num_experts=f.num_experts,
            router=self.router(layer_id),
            routed_experts=RoutedExperts.Config(
                inner_experts=ClampedGroupedExperts.Config(
                    dim=f.dim,
                    hidden_dim=f.moe_dim,
                    num_experts=f.num_experts,
                    limit=f.swiglu_limit,
                    param_init={**self.init("w1_EFD"), **_init(depth_std, "w2_EDF"), **self.init("w3_EFD")},
                ),
                token_dispatcher=make_token_dispatcher_config(
                    num_experts=f.num_experts,
                    top_k=f.top_k,
                    comm_backend=self.comm_backend,
                    non_blocking_capacity_factor=self.capacity_factor,
                    hidden_dim=f.dim,
                ),
            ),
            shared_experts=ClampedFeedForward.Config(
                w1=self.linear(f.dim, f.moe_dim),
                w2=self.linear(f.moe_dim, f.dim, depth_std),
                w3=self.linear(f.dim, f.moe_dim),
                limit=f.swiglu_limit,
            ),
        )

    def router(self, layer_id: int) -> SqrtSoftplusRouter.Config:
        f = self.flavor
        fields: dict[str, Any] = {
            "num_experts": f.num_experts,
            "top_k": f.top_k,
            "route_scale": f.route_scale,
            "gate": Float32Linear.Config(in_features=f.dim, out_features=f.num_experts, param_init=self.init()),
        }
        if layer_id < f.hash_layers:
            return HashRouter.Config(**fields, vocab_size=f.vocab_size, seed=layer_id)
        return SqrtSoftplusRouter.Config(**fields)
