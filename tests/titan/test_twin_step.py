"""A training step of the debug DeepSeek-V4 with every low-precision op on the twin gives the CPU backend's step.

Matmuls may differ by the order of their sums; quantizations may not differ at all, but see inputs that do. How far loss and
gradients may move is measured, not guessed: the CPU's step is repeated with random errors in every matmul, as large as the
bound that the op tests hold the twin's matmuls to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import npu_lp
import pytest
import torch
from npu_lp import twin
from npu_lp.titan import host
from npu_lp.titan.deepseek_v4 import config_registry
from torch.utils._python_dispatch import TorchDispatchMode
from torchtitan.config.override import apply_overrides

BATCH, LENGTH = 1, 64
MATMULS = ("mx_quant_matmul", "mx_grouped_matmul", "hif8_quant_matmul", "hif8_grouped_matmul")
Step = Callable[[], dict[str, torch.Tensor]]


class SumErrors(TorchDispatchMode):
    """Within it, low-precision matmuls err at random by up to 2 K eps sum|a||b| before they round to their output."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.matmuls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("npu_lp::")
        if name not in MATMULS:
            return func(*args, **kwargs)
        self.matmuls += 1
        call = {argument.name: argument.default_value for argument in func._schema.arguments}
        call |= dict(zip(call, args, strict=False)) | kwargs
        # torch shows the schema's default dtype, bfloat16, as a number.
        out_dtype = call["out_dtype"] if isinstance(call["out_dtype"], torch.dtype) else torch.bfloat16
        call["out_dtype"] = torch.float32
        exact = func(**call)
        size = func(**call | {"x1": magnitude(call["x1"]), "x2": magnitude(call["x2"])})
        error = torch.rand(exact.shape, generator=self.generator) * 2 - 1
        return (exact + error * size * (2 * call["x1"].shape[-1] * 2.0**-24)).to(out_dtype)


def magnitude(codes: torch.Tensor) -> torch.Tensor:
    """|x| of fp8 or HiF8 codes: all without the sign bit."""
    return (codes.view(torch.uint8) & 0x7F).view(codes.dtype)


def training_step(recipe: str) -> Step:
    """Loss and gradients, by name, of the debug model at random tokens."""
    host.adapt_torchtitan()
    config = getattr(config_registry, f"debug_{recipe}")()
    host.adapt_config(config)
    host.adapt_model(config)
    apply_overrides(config.override, config)
    model = config.model_spec.model.build()
    torch.manual_seed(0)
    model.init_states()
    loss = config.loss.build()
    tokens = torch.randint(0, config.model_spec.model.vocab_size, (BATCH, LENGTH))
    positions = torch.arange(LENGTH).expand(BATCH, LENGTH).contiguous()

    def step() -> dict[str, torch.Tensor]:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            value, _ = loss(model(tokens, positions), tokens.roll(-1, 1), positions=positions)
        value.backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        return {"loss": value.detach().clone(), **gradients}

    return step


def distance(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> dict[str, float]:
    """Relative to the larger norm, by name."""
    assert a.keys() == b.keys()
    return {name: float((a[name] - b[name]).norm() / max(b[name].norm(), 1e-30)) for name in a}


@pytest.mark.parametrize("recipe", ["all_mxfp8", "all_hif8"])
def test_a_step_on_the_twin_is_the_cpu_step_but_for_the_order_of_sums(recipe: str) -> None:
    step = training_step(recipe)
    cpu = step()
    assert all(torch.equal(a, b) for a, b in zip(cpu.values(), step().values(), strict=True))
    allowed = dict.fromkeys(cpu, 0.0)
    for seed in range(3):
        with SumErrors(seed) as errors:
            moved = distance(step(), cpu)
        assert errors.matmuls > 100
        allowed = {name: max(allowed[name], moved[name]) for name in cpu}
    twin.clear()
    with npu_lp.backend("twin"):
        on_twin = step()
    assert twin.launches() > 300
    far = {
        name: (moved, allowed[name]) for name, moved in distance(on_twin, cpu).items() if moved > 2 * allowed[name] + 1e-6
    }
    assert not far
