"""A training step of the debug DeepSeek-V4 with every low-precision op on the twin gives the CPU backend's step.

Op by op, on the data of the step: quantizations give the same bytes, matmuls the same sums within sqrt(K) roundings (the
probabilistic bound of Higham and Mary, "A new approach to probabilistic rounding error analysis", SISC 2019). How far loss
and gradients may move by that is measured: the CPU's step is repeated with random errors of that size in every matmul.
"""

from __future__ import annotations

from collections import Counter
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
FUSED = ("mx_linear", "mx_linear_dual")
MATMULS = ("mx_quant_matmul", "mx_grouped_matmul", "hif8_quant_matmul", "hif8_grouped_matmul", *FUSED)
Step = Callable[[], dict[str, torch.Tensor]]


def exact_and_bound(func: Any, call: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """A matmul's sums in fp32 as the CPU backend adds them, and how far another order may be from them."""
    sums = func(**call | {"out_dtype": torch.float32})
    size = func(**call | {"x1": magnitude(call["x1"]), "x2": magnitude(call["x2"]), "out_dtype": torch.float32})
    return sums, size * (2 * call["x1"].shape[-1] ** 0.5 * 2.0**-24)


def unfused(func: Any, call: dict[str, Any]) -> tuple[Any, dict[str, Any], list[torch.Tensor]]:
    """The matmul within an op, its arguments, and what else the op returns: codes and scales along the other axis."""
    name = func._schema.name.removeprefix("npu_lp::")
    if name not in FUSED:
        return func, call, []
    how = {key: call[key] for key in ("fmt", "scale_rule", "block_size")}
    quantize = torch.ops.npu_lp.mx_quant if name == "mx_linear" else torch.ops.npu_lp.mx_quant_dual
    data, scale, *rest = quantize(call["x"], **how)
    matmul = torch.ops.npu_lp.mx_quant_matmul.default
    shared = {key: call[key] for key in ("x2", "x2_scale", "bias", "out_dtype", "x2_fmt", "block_size")}
    return matmul, shared | {"x1": data, "x1_scale": scale}, rest


def complete(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """All arguments of a call by name."""
    call = {argument.name: argument.default_value for argument in func._schema.arguments}
    call |= dict(zip(call, args, strict=False)) | (kwargs or {})
    if "out_dtype" in call and not isinstance(call["out_dtype"], torch.dtype):
        # Of x, or torch shows the schema's default as a number.
        call["out_dtype"] = call["x"].dtype if call["out_dtype"] is None else torch.bfloat16
    return call


class SumErrors(TorchDispatchMode):
    """Within it, low-precision matmuls err at random by up to the bound before they round to their output."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.matmuls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.removeprefix("npu_lp::") not in MATMULS:
            return func(*args, **(kwargs or {}))
        self.matmuls += 1
        matmul, call, rest = unfused(func, complete(func, args, kwargs))
        sums, bound = exact_and_bound(matmul, call)
        error = torch.rand(sums.shape, generator=self.generator) * 2 - 1
        result = (sums + error * bound).to(call["out_dtype"])
        return (result, *rest) if rest else result


class Shadow(TorchDispatchMode):
    """Within it, every low-precision op runs on the twin and on the CPU backend, and the two are compared."""

    def __init__(self) -> None:
        super().__init__()
        self.checked: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("npu_lp::")
        result = func(*args, **(kwargs or {}))
        if name == func._schema.name:
            return result
        call = complete(func, args, kwargs)
        with npu_lp.backend("cpu"):
            if name in MATMULS:
                matmul, call, codes = unfused(func, call)
                product, *rest = result if codes else (result,)
                sums, bound = exact_and_bound(matmul, call)
                low, high = (sums - bound).to(call["out_dtype"]), (sums + bound).to(call["out_dtype"])
                assert ((low <= product) & (product <= high)).all(), name
            else:
                codes, rest = func(*args, **(kwargs or {})), result
            for there, here in zip(rest, codes, strict=True):
                assert torch.equal(*(t.reshape(-1).view(torch.uint8) for t in (there, here))), name
        self.checked[name] += 1
        return result


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


@pytest.mark.parametrize(
    ("recipe", "op"), [("all_mxfp8", "mx_quant_grouped"), ("all_hif8", "hif8_quant"), ("mix", "mx_to_block")]
)
def test_a_step_on_the_twin_is_the_cpu_step_but_for_the_order_of_sums(recipe: str, op: str) -> None:
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
    with npu_lp.backend("twin"), Shadow() as shadow:
        on_twin = step()
    assert sum(shadow.checked[name] for name in MATMULS) == errors.matmuls
    assert sum(shadow.checked.values()) > errors.matmuls + 100
    assert shadow.checked[op] > 0
    assert twin.launches() > 300
    far = {
        name: (moved, allowed[name]) for name, moved in distance(on_twin, cpu).items() if moved > 2 * allowed[name] + 1e-6
    }
    assert not far
