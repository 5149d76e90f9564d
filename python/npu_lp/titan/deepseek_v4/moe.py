"""DeepSeek-V4's mixture of experts: sqrt-softplus router, hash router, clamped SwiGLU.

Dispatching, combining and the load-balancing bias are torchtitan's. Differences from its DeepSeek-V3:

- Scores are sqrt(softplus(gate(x))), not grouped; the bias serves selection only; weights are normalized and scaled.
- In the first layers a fixed table `tid2eid` names each token id's experts, and the gate gives their weights only.
- SwiGLU clamps its gate from above and its other factor from both sides, in routed and shared experts.
- Experts compute in the dtype of their input (torchtitan's always in bf16).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.distributed.tensor import DTensor
from torchtitan.models.common.feed_forward import FeedForward
from torchtitan.models.common.moe import GroupedExperts, MoE, TokenChoiceTopKRouter

from npu_lp.nn.grouped import LowPrecisionExperts


def clamped_swiglu(gate: torch.Tensor, up: torch.Tensor, limit: float) -> torch.Tensor:
    """silu(min(gate, limit)) * clamp(up, -limit, limit), elementwise."""
    return F.silu(gate.clamp(max=limit)) * up.clamp(min=-limit, max=limit)


class ClampedFeedForward(FeedForward):
    """torchtitan's SwiGLU feed-forward with DeepSeek-V4's clamps; the shared expert."""

    @dataclass(kw_only=True, slots=True)
    class Config(FeedForward.Config):
        """`limit` bounds the pre-activations."""

        limit: float = 10.0

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.limit = config.limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., dim] -> [..., dim]."""
        return self.w2(clamped_swiglu(self.w1(x), self.w3(x), self.limit))


class ClampedGroupedExperts(GroupedExperts):
    """torchtitan's grouped experts with DeepSeek-V4's clamps, in the dtype of the input.

    All products go through `_grouped_mm`, torchtitan's seam for low-precision versions.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(GroupedExperts.Config):
        """`limit` bounds the pre-activations."""

        limit: float = 10.0

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.limit = config.limit

    def forward(self, x_RD: torch.Tensor, num_tokens_per_expert_E: torch.Tensor) -> torch.Tensor:
        """x [R, dim], its rows sorted by expert; int [E] rows per expert -> [R, dim] in x's dtype."""
        x = x_RD
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        # Low-precision experts convert weights themselves under autocast: a cache of quantized weights knows parameters.
        as_they_are = isinstance(self, LowPrecisionExperts) and torch.is_autocast_enabled(x.device.type)
        w1, w2, w3 = (
            (w.to_local() if isinstance(w, DTensor) else w)
            .to(self.w1_EFD.dtype if as_they_are else x.dtype)
            .transpose(-2, -1)
            for w in (self.w1_EFD, self.w2_EDF, self.w3_EFD)
        )
        offs = num_tokens_per_expert_E.cumsum(dim=0, dtype=torch.int32)
        gate = self._grouped_mm(A=x, B_t=w1, offs=offs)
        up = self._grouped_mm(A=x, B_t=w3, offs=offs)
        h = clamped_swiglu(gate, up, self.limit)
        return self._grouped_mm(A=h, B_t=w2, offs=offs).to(x_RD.dtype)


class SqrtSoftplusRouter(TokenChoiceTopKRouter):
    """Chooses the `top_k` experts with the highest sqrt(softplus(logit)) + bias; in fp32."""

    @dataclass(kw_only=True, slots=True)
    class Config(TokenChoiceTopKRouter.Config):
        """torchtitan's fields; scores are not grouped, weights are normalized."""

        route_norm: bool = True
        route_scale: float = 1.5

    def forward(
        self,
        x_BLD: torch.Tensor,
        expert_bias_E: torch.Tensor | None = None,
        tokens_BL: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Route tokens.

        Args:
            x_BLD: [B, L, dim].
            expert_bias_E: fp32 [E], added to the scores for the selection only.
            tokens_BL: int64 [B, L] token ids; only the hash router looks at them.

        Returns:
            (weights fp32 [B, L, K], expert ids int64 [B, L, K], scores fp32 [B, L, E]).
        """
        scores = F.softplus(self.gate(x_BLD)).sqrt()
        ids = self._select(scores, expert_bias_E, tokens_BL)
        weights = scores.gather(-1, ids)
        if self._debug_force_load_balance:
            ids, weights = self._debug_force_load_balance_routing(scores)
        if self.route_norm:
            weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
        return weights * self.route_scale, ids, scores

    def _select(self, scores: torch.Tensor, expert_bias: torch.Tensor | None, tokens: torch.Tensor | None) -> torch.Tensor:
        biased = scores if expert_bias is None else scores + expert_bias
        return biased.topk(self.top_k, dim=-1, sorted=False).indices


class HashRouter(SqrtSoftplusRouter):
    """Takes each token's experts from the fixed table `tid2eid` [vocab_size, top_k]; the gate gives their weights.

    The table is a buffer that is saved with the model. A checkpoint brings its own; a new model gets a random one in
    which each token id has top_k different experts and all experts are named equally often, up to rounding.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(SqrtSoftplusRouter.Config):
        """`seed` makes the tables of different layers differ."""

        vocab_size: int
        seed: int = 0

        def __post_init__(self) -> None:
            if self.top_k > self.num_experts:
                raise ValueError(
                    f"top_k = {self.top_k} different experts per token need at least as many experts, "
                    f"got num_experts = {self.num_experts}"
                )

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.seed = config.seed
        self.tid2eid: torch.Tensor
        self.register_buffer("tid2eid", torch.zeros(config.vocab_size, config.top_k, dtype=torch.int64))

    def _select(self, scores: torch.Tensor, expert_bias: torch.Tensor | None, tokens: torch.Tensor | None) -> torch.Tensor:
        if tokens is None:
            raise ValueError("hash routing needs the token ids, but the router was called without them")
        return self.tid2eid[tokens]

    def _init_self_buffers(self, *, buffer_device: torch.device | None = None) -> None:
        device = self.tid2eid.device if buffer_device is None else buffer_device
        self.tid2eid = hash_table(self.tid2eid.shape[0], self.num_experts, self.top_k, self.seed).to(device)


def hash_table(vocab_size: int, num_experts: int, top_k: int, seed: int) -> torch.Tensor:
    """int64 [vocab_size, top_k]: a random assignment of experts to token ids, the same on every machine.

    Each row's ids differ; each expert is first choice of vocab_size / num_experts ids, up to rounding.
    """
    generator = torch.Generator().manual_seed(seed)
    first = torch.randperm(vocab_size, generator=generator) % num_experts
    # Multiples 0..top_k-1 of a step that is small enough not to wrap around to an id that is taken.
    largest_step = max(1, (num_experts - 1) // max(1, top_k - 1))
    step = torch.randint(1, largest_step + 1, (vocab_size,), generator=generator)
    return (first[:, None] + step[:, None] * torch.arange(top_k)) % num_experts


class DeepSeekV4MoE(MoE):
    """torchtitan's MoE whose router may look at token ids.

    Hash-routed layers keep a load-balancing bias, because torchtitan balances either all layers or none, but do not use
    it and do not save it.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(MoE.Config):
        """As torchtitan's."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        if isinstance(self.router, HashRouter):
            self.register_buffer("expert_bias_E", self.expert_bias_E, persistent=False)

    def forward(self, x_BLD: torch.Tensor, tokens_BL: torch.Tensor) -> torch.Tensor:
        """x [B, L, dim], token ids int64 [B, L] -> [B, L, dim]."""
        weights, ids, scores = self.router(x_BLD, self.expert_bias_E, tokens_BL)
        # Counted with repetition: a table may name one expert twice for a token, which then gets two rows.
        flat_ids = ids.flatten()
        counts = torch.zeros(scores.shape[-1], dtype=torch.int64, device=ids.device)
        counts.scatter_add_(0, flat_ids, torch.ones_like(flat_ids))
        if self.training:
            with torch.no_grad():
                self.tokens_per_expert_E.add_(counts)
        out = self.routed_experts(x_BLD, weights, ids, counts)
        return out if self.shared_experts is None else out + self.shared_experts(x_BLD)
