"""One training step of the debug DeepSeek-V4, without a trainer around it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from npu_lp.titan import host
from npu_lp.titan.deepseek_v4 import config_registry
from torchtitan.config.override import apply_overrides


def step_of(recipe: str, batch: int, length: int, *, wide: bool) -> Callable[[], object]:
    """A function that computes loss and gradients of random tokens, in BF16 autocast as torchtitan trains on one device.

    wide: with the CPU's BF16 matmuls done in fp32 (`npu_lp.titan.host`), or as torch does them.
    """
    host.adapt_torchtitan()
    config = getattr(config_registry, f"debug_{recipe}")()
    host.adapt_config(config)
    host.adapt_model(config)
    if not wide:
        config.override.imports = [name for name in config.override.imports if ".wide_" not in name]
    apply_overrides(config.override, config)
    model = config.model_spec.model.build()
    torch.manual_seed(0)
    model.init_states()
    loss = config.loss.build()
    tokens = torch.randint(0, config.model_spec.model.vocab_size, (batch, length))
    positions = torch.arange(length).expand(batch, length).contiguous()

    def step() -> None:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            value, _ = loss(model(tokens, positions), tokens.roll(-1, 1), positions=positions)
        value.backward()

    return step
