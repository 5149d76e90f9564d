"""Load balancing of experts without an auxiliary loss, MTP blocks included."""

from typing import Any

from torch import nn
from torchtitan.components.optimizer import register_moe_load_balancing_hook
from torchtitan.distributed import ParallelDims

from npu_lp.titan.deepseek_v4.model import DeepSeekV4Model


def register_load_balancing(optimizers: Any, model_parts: list[DeepSeekV4Model], parallel_dims: ParallelDims) -> None:
    """torchtitan's post_optimizer_build_fn: before each optimizer step, move each expert's bias by its load.

    torchtitan's hook looks at `layers` only; MTP blocks are shown to it as further model parts.
    """
    parts: list[nn.Module] = list(model_parts)
    for model in model_parts:
        if model.mtp_layers is not None:
            view = nn.Module()
            view.layers = nn.ModuleDict({str(i): layer for i, layer in enumerate(model.mtp_layers)})
            parts.append(view)
    register_moe_load_balancing_hook(optimizers, parts, parallel_dims)
