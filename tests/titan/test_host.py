"""Host adaptation: what it changes on a machine that needs it, and that it changes nothing on one that does not."""

from __future__ import annotations

import importlib.util
import math
import sys
from types import SimpleNamespace

import pytest
import torch
from npu_lp.titan import cpu_modules, host
from npu_lp.titan.deepseek_v3 import config_registry as v3
from npu_lp.titan.deepseek_v4 import config_registry as v4
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torchtitan.components.metrics import build_device_memory_monitor
from torchtitan.config.override import apply_overrides
from torchtitan.models.common.attention import FlexAttention
from torchtitan.models.common.linear import Linear
from torchtitan.models.common.moe import GroupedExperts
from torchtitan.tools import utils

needs_cpu = pytest.mark.skipif(not host.on_cpu(), reason="about machines without an accelerator; this one has one")


def test_second_call_has_nothing_left_to_do():
    assert host.adapt_torchtitan() == ()


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="about machines without triton")
def test_triton_stays_absent_and_its_kernels_cannot_be_launched():
    from torch.utils._triton import has_triton_package
    from torchtitan.distributed.minimal_async_ep import kernels

    assert "triton" not in sys.modules
    assert not has_triton_package()
    with pytest.raises(RuntimeError, match="triton, which is not installed"):
        kernels._copy_full_counts_to_peer_ptrs_kernel[(1, 1)]


@needs_cpu
def test_every_torchtitan_module_sees_the_cpu():
    import torchtitan.trainer  # noqa: F401  # pulls in all that import device_type

    for name, module in list(sys.modules.items()):
        if name.startswith("torchtitan.") and isinstance(vars(module).get("device_type"), str):
            assert module.device_type == "cpu", name
    monitor = build_device_memory_monitor()
    stats = monitor.get_peak_stats()
    assert 0 < stats.max_reserved_gib < monitor.device_capacity_gib


@needs_cpu
def test_no_device_gets_the_peak_of_another():
    assert math.isnan(utils.get_peak_flops(utils.device_module.get_device_name()))


def test_a_machine_that_needs_nothing_is_left_alone(monkeypatch):
    monkeypatch.setattr(host, "on_cpu", lambda: False)
    monkeypatch.setattr(host.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.distributed, "set_timeout", lambda *args: None, raising=False)
    monkeypatch.setattr(torch, "__version__", "2.14.0")
    monkeypatch.setattr(host.inspect, "getsource", lambda module: "a torch that sizes integers itself")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(utils, "device_type", "cuda")
    monkeypatch.setattr(utils, "device_module", SimpleNamespace(get_device_name=lambda: "NVIDIA H100"))
    monkeypatch.setattr(utils, "get_peak_flops", lambda name: 989e12)
    config = v3.debug_bf16()
    before, parallelize = repr(config), config.model_spec.parallelize_fn
    assert host.adapt_torchtitan() == ()
    assert host.adapt_config(config) == ()
    assert host.adapt_model(config) == ()
    assert repr(config) == before
    assert config.model_spec.parallelize_fn is parallelize


def test_an_unknown_accelerator_does_not_get_the_peak_of_an_a100(monkeypatch):
    monkeypatch.setattr(utils, "device_type", "cuda")
    monkeypatch.setattr(utils, "device_module", SimpleNamespace(get_device_name=lambda: "Brand New GPU"))
    monkeypatch.setattr(utils, "get_peak_flops", lambda name: 312e12)
    assert "Brand New GPU" in host._no_foreign_peak_flops()
    assert math.isnan(utils.get_peak_flops("Brand New GPU"))


def packed_mask(lengths):
    """Block mask and bool [L, L] of causal attention within documents of these lengths."""
    documents = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))

    def allowed(b, h, q, k):
        return (q >= k) & (documents[q] == documents[k])

    size = sum(lengths)
    q, k = torch.arange(size)[:, None], torch.arange(size)[None, :]
    return create_block_mask(allowed, 2, None, size, size, device="cpu"), allowed(0, 0, q, k)


@pytest.mark.parametrize("lengths", [[7, 1, 33], [41]])
def test_dense_attention_equals_masked_softmax_with_gradients(lengths):
    torch.manual_seed(0)
    block_mask, allowed = packed_mask(lengths)
    q, k, v = (torch.randn(2, sum(lengths), 4, 16, dtype=torch.float32, requires_grad=True) for _ in range(3))
    out = cpu_modules.DenseAttention.Config().build()(q, k, v, attention_masks=block_mask, scale=0.3)

    q64, k64, v64 = (x.detach().double().transpose(1, 2).requires_grad_() for x in (q, k, v))
    scores = (0.3 * q64 @ k64.mT).masked_fill(~allowed, float("-inf"))
    expected = scores.softmax(-1) @ v64
    torch.testing.assert_close(out.double(), expected.transpose(1, 2), rtol=1e-5, atol=1e-5)
    flex = flex_attention(*(x.detach().transpose(1, 2) for x in (q, k, v)), block_mask=block_mask, scale=0.3)
    torch.testing.assert_close(out, flex.transpose(1, 2), rtol=1e-5, atol=1e-5)

    grad = torch.randn_like(out)
    out.backward(grad)
    expected.backward(grad.double().transpose(1, 2))
    for x, x64 in ((q, q64), (k, k64), (v, v64)):
        torch.testing.assert_close(x.grad.double(), x64.grad.transpose(1, 2), rtol=1e-4, atol=1e-5)


def test_dense_attention_refuses_what_it_cannot_compute():
    block_mask, _ = packed_mask([8])
    x = torch.zeros(2, 8, 1, 4)
    with pytest.raises(NotImplementedError, match="cannot be trained on the CPU"):
        cpu_modules.DenseAttention.Config().build()(x, x, x, attention_masks=block_mask, score_mod=lambda s, *_: s)


def test_wide_linear_rounds_the_exact_product_once():
    torch.manual_seed(0)
    # Sums of these integers are exact in fp32, so that the only rounding is the one to BF16.
    x = torch.randint(-8, 9, (5, 3, 64)).bfloat16().requires_grad_()
    layer = cpu_modules.WideLinear.Config(in_features=64, out_features=32).build().bfloat16()
    with torch.no_grad():
        layer.weight.copy_(torch.randint(-8, 9, (32, 64)))
    y = layer(x)
    y.backward(grad := torch.randint(-8, 9, y.shape).bfloat16())
    w64, x64, g64 = layer.weight.double(), x.double(), grad.double()
    assert torch.equal(y, (x64 @ w64.mT).bfloat16())
    assert torch.equal(x.grad, (g64 @ w64).bfloat16())
    assert torch.equal(layer.weight.grad, (g64.reshape(-1, 32).mT @ x64.reshape(-1, 64)).bfloat16())


def test_wide_grouped_linear_rounds_the_exact_product_once():
    torch.manual_seed(0)
    x = torch.randint(-8, 9, (5, 4, 64)).bfloat16()
    layer = cpu_modules.WideGroupedLinear.Config(n_groups=4, in_features=64, out_features=32).build().bfloat16()
    with torch.no_grad():
        layer.weight.copy_(torch.randint(-8, 9, (4 * 32, 64)))
    expected = torch.einsum("tgi,goi->tgo", x.double(), layer.weight.double().view(4, 32, 64))
    assert torch.equal(layer(x), expected.bfloat16())


def test_wide_grouped_mm_rounds_the_exact_product_once_and_allows_empty_groups():
    torch.manual_seed(0)
    a = torch.randint(-8, 9, (12, 32)).bfloat16()
    b = torch.randint(-8, 9, (3, 32, 16)).bfloat16()
    offs = torch.tensor([5, 5, 12], dtype=torch.int32)
    y = cpu_modules.wide_grouped_mm(None, A=a, B_t=b, offs=offs)
    expected = torch.cat([a[:5].double() @ b[0].double(), a[5:].double() @ b[2].double()]).bfloat16()
    assert torch.equal(y, expected)


class DtypesMultiplied(TorchDispatchMode):
    """Dtypes of the operands of torch's matmuls."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.name() in ("aten::mm", "aten::bmm", "aten::addmm", "aten::_grouped_mm"):
            self.seen.update(a.dtype for a in args[-2:] if isinstance(a, torch.Tensor))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("bias", [False, True])
def test_wide_layers_stay_wide_under_autocast(bias):
    """As torch's layers under autocast, operands are rounded to BF16 and so is the result, but the products are fp32."""
    torch.manual_seed(0)
    linear = cpu_modules.WideLinear.Config(in_features=64, out_features=32, bias=bias).build()
    grouped = cpu_modules.WideGroupedLinear.Config(n_groups=4, in_features=64, out_features=32).build()
    with torch.no_grad():
        for parameter in (*linear.parameters(), *grouped.parameters()):
            parameter.copy_(torch.randint(-8, 9, parameter.shape) + 2.0**-10)  # gone in BF16, unless 0
    x = torch.randint(-8, 9, (5, 4, 64)).float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        plain = torch.nn.functional.linear(x, linear.weight, linear.bias)
        with DtypesMultiplied() as multiplied:
            y, z = linear(x), grouped(x)
    with multiplied:
        (y.float().sum() + z.float().sum()).backward()
    assert multiplied.seen == {torch.float32}
    assert y.dtype == z.dtype == plain.dtype == torch.bfloat16
    assert torch.equal(y, plain)
    wide = torch.einsum("tgi,goi->tgo", x.double(), grouped.weight.bfloat16().double().view(4, 32, 64))
    assert torch.equal(z, wide.bfloat16())


def module_kinds(config):
    return {fqn: type(cfg).__qualname__ for fqn, cfg, _, _ in config.model_spec.traverse(Linear.Config)} | {
        fqn: type(cfg)._owner.__name__ for fqn, cfg, _, _ in config.model_spec.traverse(GroupedExperts.Config)
    }


@needs_cpu
@pytest.mark.parametrize("registry", [v3, v4], ids=["deepseek_v3", "deepseek_v4"])
def test_layers_that_a_recipe_converted_are_not_replaced_again(registry, monkeypatch):
    monkeypatch.setattr(cpu_modules, "has_bf16_instructions", lambda: False)
    config = registry.debug_all_mxfp8()
    converted = {fqn: kind for fqn, kind in module_kinds(config).items() if "LowPrecision" in kind}
    host.adapt_model(config)
    apply_overrides(config.override, config)
    after = module_kinds(config)
    assert converted
    assert {fqn: after[fqn] for fqn in converted} == converted
    assert after["model_spec.model.lm_head" if "model_spec.model.lm_head" in after else "model.lm_head"].startswith("Wide")


@needs_cpu
def test_baseline_layers_are_all_multiplied_in_fp32_without_bf16_instructions(monkeypatch):
    monkeypatch.setattr(cpu_modules, "has_bf16_instructions", lambda: False)
    config = v3.debug_bf16()
    host.adapt_model(config)
    apply_overrides(config.override, config)
    linears = [type(cfg) for _, cfg, _, _ in config.model_spec.traverse(Linear.Config)]
    experts = [type(cfg)._owner.__name__ for _, cfg, _, _ in config.model_spec.traverse(GroupedExperts.Config)]
    attention = [type(cfg) for _, cfg, _, _ in config.model_spec.traverse(FlexAttention.Config)]
    assert cpu_modules.WideLinear.Config in linears
    assert Linear.Config not in linears
    assert set(experts) == {"WideGroupedExperts"}
    assert set(attention) == {cpu_modules.DenseAttention.Config}
