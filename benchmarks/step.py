"""One training step of a DeepSeek-V4 that fits a CPU, without a trainer around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from npu_lp import recipes
from npu_lp.titan import configs, host
from npu_lp.titan.converter import LowPrecisionConverter
from npu_lp.titan.deepseek_v4 import LOW_PRECISION_FQNS, config_registry, model_registry
from npu_lp.titan.deepseek_v4.flavors import FLAVORS
from torch import nn
from torchtitan.config.override import apply_overrides

MODELS = ("debug", "mid")


def model_and_loss(recipe: str, *, wide: bool, model: str = "debug") -> tuple[nn.Module, Callable[..., Any], int]:
    """A model, its loss and the size of its vocabulary.

    "debug" is the flavor of that name, "mid" four layers of "1b" (dim 1024) with eight experts.
    wide: with the CPU's BF16 matmuls done in fp32 (`npu_lp.titan.host`), or as torch does them.
    """
    host.adapt_torchtitan()
    config = _config(recipe, model)
    host.adapt_config(config)
    host.adapt_model(config)
    if not wide:
        config.override.imports = [name for name in config.override.imports if ".wide_" not in name]
    apply_overrides(config.override, config)
    built = config.model_spec.model.build()
    torch.manual_seed(0)
    built.init_states()
    return built, config.loss.build(), config.model_spec.model.vocab_size


def _config(recipe: str, model: str) -> Any:
    if model == "debug":
        return getattr(config_registry, f"debug_{recipe}")()
    low_precision = recipes.get(recipe).linear is not None or recipes.get(recipe).experts is not None
    converters = [LowPrecisionConverter.Config(recipe=recipe, fqns=LOW_PRECISION_FQNS)] if low_precision else []
    size = replace(FLAVORS["1b"], ratios=(0, 0, 4, 128), num_experts=8, top_k=2, vocab_size=2048)
    FLAVORS[model] = size
    try:
        spec = model_registry(model, converters=converters)
    finally:
        del FLAVORS[model]
    return configs.trainer_config(spec, configs.DEBUG, low_precision=low_precision, loss=config_registry._loss)


def step_of(
    recipe: str, batch: int, length: int, *, wide: bool, model: str = "debug", optimize: bool = False
) -> Callable[[], object]:
    """A function that computes loss and gradients of random tokens, in BF16 autocast as torchtitan trains on one device.

    wide and model: as for `model_and_loss`. optimize: with a step of fused AdamW, as torchtitan's.
    """
    net, loss, vocab_size = model_and_loss(recipe, wide=wide, model=model)
    tokens = torch.randint(0, vocab_size, (batch, length))
    positions = torch.arange(length).expand(batch, length).contiguous()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True) if optimize else None

    def step() -> None:
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            value, _ = loss(net(tokens, positions), tokens.roll(-1, 1), positions=positions)
        value.backward()
        if optimizer is not None:
            optimizer.step()

    return step
