"""cache_quantized_weights: the same bits, fewer quantizations, and nothing kept that may have changed."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import npu_lp
import pytest
import torch
from npu_lp import BlockMXConfig, FakeQuantConfig, HiF8Config, LowPrecisionLinear, MXConfig, cache_quantized_weights
from npu_lp.autograd import weight_cache
from npu_lp.autograd.schemes import scheme_of
from npu_lp.config import Config
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

CONFIGS: dict[str, Config] = {
    "mx": MXConfig(),
    "mx_single_axis": MXConfig(dual_axis_forward=False),
    "mx_hadamard_stochastic": MXConfig(hadamard=True, grad_rounding="stochastic"),
    "mx_forward_kept": MXConfig(high_precision_gemms=("forward",)),
    "mx_dgrad_kept": MXConfig(high_precision_gemms=("dgrad",)),
    "block": BlockMXConfig(),
    "block_qat": BlockMXConfig(weight_fake_quant=FakeQuantConfig()),
    "hif8": HiF8Config(),
}
N, K = 48, 80


class Quantizations(TorchDispatchMode):
    """Counts quantizations of tensors of a weight's shape."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("npu_lp::")
        if name in ("mx_quant", "mx_quant_dual", "mx_quant_block", "hif8_quant") and args[0].shape[-2:] == (N, K):
            self.count += 1
        return func(*args, **(kwargs or {}))


class Experts(nn.Module):
    """Three experts that multiply through the seam, weights passed as views of the parameter."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, N, K))
        self.offs = torch.tensor([5, 5, 33])
        npu_lp.nn.grouped.convert_experts(self, config)

    def _grouped_mm(self, *, A: Tensor, B_t: Tensor, offs: Tensor) -> Tensor:
        raise AssertionError("not converted")

    def forward(self, x: Tensor) -> Tensor:
        return self._grouped_mm(A=x, B_t=self.weight.mT, offs=self.offs)


def make(kind: str, config: Config) -> Any:
    torch.manual_seed(0)
    return LowPrecisionLinear(K, N, config=config) if kind == "linear" else Experts(config)


def step(layer: nn.Module, *, autocast: bool = False, seed: int = 1) -> list[Tensor]:
    """y and all gradients of one forward and backward, which are not accumulated."""
    torch.manual_seed(seed)
    layer.zero_grad()
    x, dy = torch.randn(33, K, requires_grad=True), torch.randn(33, N)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        y = layer(x)
    y.backward(dy.to(y.dtype))
    assert x.grad is not None
    return [y.detach(), x.grad, *(p.grad.clone() for p in layer.parameters() if p.grad is not None)]


def assert_equal(got: list[Tensor], want: list[Tensor]) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and torch.equal(g, w)


def quantizations(function: Callable[[], object]) -> int:
    with Quantizations() as counter:
        function()
    return counter.count


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    yield
    assert not weight_cache._entries


@pytest.mark.parametrize("kind", ["linear", "experts"])
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("autocast", [False, True], ids=["fp32", "autocast"])
def test_same_bits_from_one_quantization(kind: str, name: str, autocast: bool) -> None:
    layer = make(kind, CONFIGS[name])
    want = [step(layer, autocast=autocast, seed=seed) for seed in (1, 2)]
    with cache_quantized_weights(layer) as cache:
        assert cache.nbytes == 0
        assert_equal(step(layer, autocast=autocast, seed=1), want[0])
        assert quantizations(lambda: assert_equal(step(layer, autocast=autocast, seed=2), want[1])) == 0
        assert cache.nbytes > 0
    assert cache.nbytes == 0
    assert quantizations(lambda: assert_equal(step(layer, autocast=autocast, seed=2), want[1])) > 0


def test_memory_is_reported() -> None:
    layer, elements = LowPrecisionLinear(128, 64, bias=False), 128 * 64
    for config, per_element in ((MXConfig(), 2 + 2 / 32), (BlockMXConfig(), 1 + 2 / 32), (HiF8Config(), 1)):
        layer.config = config
        with cache_quantized_weights(layer) as cache:
            layer(torch.ones(2, 128, requires_grad=True)).sum().backward()
            assert cache.nbytes == elements * per_element + 4 * isinstance(config, HiF8Config)


def scaled(layer: nn.Module) -> Tensor:
    return torch.randn(N, K, generator=torch.Generator().manual_seed(7)) * 5


def assign_state(layer: Any) -> None:
    layer.load_state_dict({"weight": scaled(layer), "bias": layer.bias.detach() + 1}, assign=True)


def optimizer_step(layer: Any, **kw: Any) -> None:
    step(layer)
    torch.optim.AdamW(layer.parameters(), lr=0.5, **kw).step()


def data_of_the_same_storage(layer: Any) -> None:
    layer.weight.data = layer.weight.data.flip(0).view(-1)[: N * K].view(N, K)
    layer.weight.data = layer.weight.data.view(K, N).t()


def refilled(layer: Any) -> None:
    new = scaled(layer)
    layer.weight.data = torch.empty(0)
    layer.weight.data = new


CHANGES: dict[str, Callable[[Any], object]] = {
    "optimizer step": optimizer_step,
    "foreach optimizer step": lambda layer: optimizer_step(layer, foreach=True),
    "fused optimizer step": lambda layer: optimizer_step(layer, fused=True),
    "copy_ under no_grad": lambda layer: layer.weight.detach().copy_(scaled(layer)),
    "through a view": lambda layer: layer.weight.detach()[3:5].zero_(),
    "data": lambda layer: setattr(layer.weight, "data", scaled(layer)),
    "data freed and set again": refilled,
    "data of other strides": data_of_the_same_storage,
    "load_state_dict": lambda layer: layer.load_state_dict({"weight": scaled(layer), "bias": layer.bias}),
    "load_state_dict with assign": assign_state,
    "a new parameter": lambda layer: setattr(layer, "weight", nn.Parameter(scaled(layer))),
    "another config": lambda layer: setattr(layer, "config", MXConfig(scale_rule="floor")),
    "fake quantization": lambda layer: setattr(layer, "config", BlockMXConfig(weight_fake_quant=FakeQuantConfig())),
    "another dtype": lambda layer: layer.to(torch.float8_e5m2).float(),
    "reset_parameters": lambda layer: layer.reset_parameters(),
    "nothing but inference_mode": lambda layer: layer.eval(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("autocast", [False, True], ids=["fp32", "autocast"])
def test_a_change_is_seen(change: str, autocast: bool) -> None:
    layer = make("linear", MXConfig())
    with cache_quantized_weights(layer):
        before = step(layer, autocast=autocast)
        CHANGES[change](layer)
        after = step(layer, autocast=autocast)
    assert_equal(after, step(layer, autocast=autocast))
    assert torch.equal(after[0], before[0]) == (change == "nothing but inference_mode")


def test_autocast_and_dtypes_are_apart() -> None:
    layer = make("linear", MXConfig())
    with torch.no_grad():
        layer.weight.mul_(1.1)
    want = [step(layer, autocast=autocast) for autocast in (False, True)]
    with cache_quantized_weights(layer):
        for _ in range(2):
            assert_equal(step(layer), want[0])
            assert_equal(step(layer, autocast=True), want[1])


def test_filled_in_inference_used_in_training() -> None:
    layer = make("linear", MXConfig())
    want = step(layer)
    with cache_quantized_weights(layer):
        with torch.inference_mode():
            layer(torch.randn(3, K))
        assert_equal(step(layer), want)


class HiddenWrites(torch.optim.Optimizer):
    """Steps on ``.data``, which raises no version."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                p.data.mul_(3)


def test_writes_that_raise_no_version() -> None:
    """Those of an optimizer are seen; others are not, as the docstring says."""
    layer = make("linear", MXConfig())
    x = torch.randn(3, K)
    with cache_quantized_weights(layer):
        y = layer(x)
        HiddenWrites(layer.parameters()).step()
        tripled = layer(x)
        assert not torch.equal(tripled, y)
        layer.weight.data.mul_(3)
        assert torch.equal(layer(x), tripled)
    assert not torch.equal(layer(x), tripled)


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(dual: bool, reentrant: bool) -> None:
    layer = make("linear", MXConfig(dual_axis_forward=dual))
    want = step(layer)

    def run(inside: bool) -> list[Tensor]:
        torch.manual_seed(1)
        layer.zero_grad()
        x, dy = torch.randn(33, K, requires_grad=True), torch.randn(33, N)
        with cache_quantized_weights(layer):
            y = checkpoint(layer, x, use_reentrant=reentrant)
            if inside:
                y.backward(dy)
        if not inside:
            y.backward(dy)
        assert x.grad is not None
        return [y.detach(), x.grad, *(p.grad for p in layer.parameters() if p.grad is not None)]

    assert_equal(run(inside=True), want)
    assert_equal(run(inside=False), want)


def test_gradient_accumulation() -> None:
    layer, plain = make("linear", MXConfig()), make("linear", MXConfig())
    xs = torch.randn(4, 33, K)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (layer, plain)]
    with cache_quantized_weights(layer), Quantizations() as counter:
        for _ in range(3):
            for x in xs:
                layer(x).square().sum().backward()
            optimizers[0].step()
            optimizers[0].zero_grad()
    assert counter.count == 3
    for _ in range(3):
        for x in xs:
            plain(x).square().sum().backward()
        optimizers[1].step()
        optimizers[1].zero_grad()
    assert_equal(list(layer.parameters()), list(plain.parameters()))


def test_it_is_in_no_copy_and_no_checkpoint() -> None:
    layer = make("linear", MXConfig())
    sizes = []
    with cache_quantized_weights(layer):
        for _ in range(2):
            buffer = io.BytesIO()
            torch.save(layer, buffer)
            sizes.append((len(pickle.dumps(layer)), len(buffer.getvalue()), list(layer.state_dict()), len(vars(layer))))
            step(layer)
        twin = copy.deepcopy(layer)
        with torch.no_grad():
            twin.weight.mul_(2)
        assert_equal(step(twin), step(copy.deepcopy(twin)))
        assert not torch.equal(step(twin)[0], step(layer)[0])
    assert sizes[0] == sizes[1]
    layer.zero_grad()
    assert len(pickle.dumps(copy.deepcopy(layer))) == sizes[0][0]


def test_threads_that_fill_it_together() -> None:
    """As two threads may: while one writes the codes along the last axis, the other fills the first."""
    scheme, weight = scheme_of(MXConfig()), torch.randn(N, K)

    class Interrupted(weight_cache.QuantizedWeight):
        interrupted = False

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_last" and value is not None and not self.interrupted:
                self.interrupted = True
                self.quantize(scheme, weight, weight.dtype, last=False, first=True)

    kept = Interrupted()
    kept.quantize(scheme, weight, weight.dtype, last=True, first=False)
    assert kept._last is not None and kept._first is not None


def test_a_thread_that_sees_the_new_version_sees_no_old_codes() -> None:
    layer = make("linear", MXConfig())
    with cache_quantized_weights(layer):
        layer(torch.randn(3, K))
        entry = weight_cache._entries[id(layer.weight)]
        (old,) = entry.forms.values()
        with torch.no_grad():
            layer.weight.mul_(2)
        seen = []

        class Watched(type(entry)):  # type: ignore[misc]
            def __setattr__(self, name: str, value: Any) -> None:
                super().__setattr__(name, value)
                if self.version == self.parameter._version:
                    seen.append(old in self.forms.values())

        entry.__class__ = Watched
        layer(torch.randn(3, K))
    assert seen and not any(seen)


def test_nested_and_repeated() -> None:
    model = nn.Sequential(make("linear", MXConfig()), nn.ReLU())
    with cache_quantized_weights(model) as outer:
        step(model)
        kept = outer.nbytes
        with cache_quantized_weights(model) as inner:
            step(model)
            assert inner.nbytes == 0
        assert outer.nbytes == kept > 0
    with outer:
        assert outer.nbytes == 0
    cache_quantized_weights(model)(lambda: step(model))()
    with pytest.raises(ZeroDivisionError), cache_quantized_weights(model):
        _ = 1 / 0


def test_torch_compile_goes_around_it() -> None:
    layer = make("linear", MXConfig())
    x = torch.randn(33, K)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    with cache_quantized_weights(layer) as cache:
        assert torch.equal(compiled(x), layer(x))
        kept = cache.nbytes
        with torch.no_grad():
            layer.weight.mul_(2)
        assert torch.equal(compiled(x), layer(x))
        assert cache.nbytes == kept


def test_what_cannot_be_cached_is_an_error() -> None:
    with pytest.raises(ValueError, match="no low-precision layers"), cache_quantized_weights(nn.Linear(3, 4)):
        pass
    with torch.inference_mode():
        uncounted = make("linear", MXConfig())
    with pytest.raises(ValueError, match="weight was made under"), cache_quantized_weights(uncounted):
        pass
    flat = make("linear", MXConfig())
    flat.weight._fsdp_flattened = True
    with pytest.raises(ValueError, match="weight is sharded"), cache_quantized_weights(flat):
        pass


def test_sharded_weights_are_refused() -> None:
    dist: Any = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        layer = make("linear", MXConfig())
        layer.weight = nn.Parameter(distribute_tensor(layer.weight.detach(), mesh))
        with pytest.raises(ValueError, match="weight is sharded"), cache_quantized_weights(layer):
            pass
        model = nn.Sequential(make("linear", MXConfig()), nn.ReLU())
        inside = make("linear", MXConfig())
        want = step(inside)
        with cache_quantized_weights(inside) as cache:  # sharded afterwards: its weight is another parameter then
            fully_shard(inside, mesh=mesh)
            got = step(inside)
            assert cache.nbytes == 0
            torch.optim.SGD(inside.parameters(), lr=1.0).step()
            assert not torch.equal(step(inside)[0], got[0])
        assert torch.equal(got[0], want[0])
        fully_shard(model, mesh=mesh)
        with pytest.raises(ValueError, match="sharded by FSDP"), cache_quantized_weights(model):
            pass
    finally:
        dist.destroy_process_group()
