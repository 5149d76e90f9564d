"""LowPrecisionLinear stands in for nn.Linear wherever a model, a trainer or a checkpoint meets one."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import layer_reference as reference
import npu_lp
import pytest
import torch
from npu_lp import BlockMXConfig, FakeQuantConfig, HiF8Config, LowPrecisionLinear, MXConfig
from npu_lp.autograd import low_precision_matmul
from npu_lp.config import GEMMS, Config
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

CONFIGS: dict[str, Config] = {
    "mx": MXConfig(dual_axis_forward=True),
    "mx_single_axis": MXConfig(dual_axis_forward=False),
    "mx_hadamard": MXConfig(hadamard=True),
    "block": BlockMXConfig(),
    "block_qat": BlockMXConfig(weight_fake_quant=FakeQuantConfig()),
    "hif8": HiF8Config(),
}


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> Config:
    return CONFIGS[request.param]


def layer_of(config: Config, dtype: torch.dtype = torch.float32, *, bias: bool = True) -> LowPrecisionLinear:
    torch.manual_seed(0)
    return LowPrecisionLinear(64, 32, bias=bias, config=config, dtype=dtype)


def step(forward: Callable[[Tensor], Tensor], layer: nn.Module, x: Tensor, dy: Tensor) -> list[Tensor]:
    """y, dx and the gradients of the parameters, starting from none."""
    layer.zero_grad()
    x = x.detach().requires_grad_()
    y = forward(x)
    y.backward(dy)
    grads = [x.grad, *(p.grad for p in layer.parameters() if p.requires_grad)]
    assert all(g is not None for g in grads)
    return [y.detach(), *(g.clone() for g in grads if g is not None)]


def assert_equal(got: list[Tensor], want: list[Tensor]) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and torch.equal(g, w)


X, DY = reference.operand((33, 64), torch.float32, 1), reference.operand((33, 32), torch.float32, 2)


class TestShapes:
    @pytest.mark.parametrize("leading", [(), (3,), (2, 3), (2, 3, 4), (0,), (2, 0, 4)], ids=str)
    def test_leading_dims_are_those_of_nn_linear(self, config: Config, leading: tuple[int, ...]) -> None:
        layer, plain = layer_of(config), nn.Linear(64, 32)
        x = torch.randn(*leading, 64, requires_grad=True)
        y = layer(x)
        assert y.shape == plain(x).shape and y.dtype == x.dtype
        y.backward(torch.randn_like(y))
        assert x.grad is not None and x.grad.shape == x.shape

    def test_rows_are_independent_of_their_leading_dims(self, config: Config) -> None:
        layer = layer_of(config)
        y = layer(X)
        assert torch.equal(layer(X.view(3, 11, 64)), y.view(3, 11, 32))
        if not isinstance(config, HiF8Config):  # whose scale belongs to the whole tensor
            assert torch.equal(layer(X[0]), y[0])

    def test_zero_rows_have_zero_gradients(self, config: Config) -> None:
        layer = layer_of(config)
        for p in layer.parameters():
            p.grad = None
        y = layer(torch.empty(0, 64))
        assert y.shape == (0, 32)
        y.sum().backward()
        assert layer.weight.grad is not None and layer.weight.grad.eq(0).all()
        assert layer.bias.grad is not None and layer.bias.grad.eq(0).all()

    @pytest.mark.parametrize(("features", "out"), [(0, 3), (3, 0), (1, 1)])
    def test_tiny_layers(self, config: Config, features: int, out: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's initialization of empty tensors warns
            layer = LowPrecisionLinear(features, out, config=config)
        x = torch.randn(5, features, requires_grad=True)
        layer(x).sum().backward()
        assert x.grad is not None and x.grad.shape == x.shape


class TestState:
    def test_state_dict_is_that_of_nn_linear(self, config: Config) -> None:
        plain, layer = nn.Linear(64, 32), layer_of(config)
        assert list(layer.state_dict()) == list(plain.state_dict()) == ["weight", "bias"]
        layer.load_state_dict(plain.state_dict())
        assert torch.equal(layer.weight, plain.weight)
        assert list(layer_of(config, bias=False).state_dict()) == ["weight"]

    def test_a_missing_or_unknown_key_is_an_error_that_names_it(self, config: Config) -> None:
        layer = layer_of(config)
        with pytest.raises(RuntimeError, match=r'Missing key.*"bias"'):
            layer.load_state_dict({"weight": torch.zeros(32, 64)})
        with pytest.raises(RuntimeError, match=r'Unexpected key.*"weight_scale"'):
            layer.load_state_dict({**layer.state_dict(), "weight_scale": torch.zeros(1)})

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
    @pytest.mark.parametrize("bias", [True, False])
    def test_from_linear_shares_parameters_and_keeps_their_properties(
        self, config: Config, dtype: torch.dtype, bias: bool
    ) -> None:
        plain = nn.Linear(64, 32, bias=bias, dtype=dtype).eval()
        plain.weight.requires_grad_(False)
        layer = LowPrecisionLinear.from_linear(plain, config)
        assert layer.weight is plain.weight and layer.bias is plain.bias
        assert layer.config == config and not layer.training and not layer.weight.requires_grad
        assert (layer.in_features, layer.out_features) == (64, 32)
        assert layer(torch.ones(2, 64, dtype=dtype)).dtype == dtype
        assert LowPrecisionLinear.from_linear(nn.Linear(2, 2)).training

    def test_from_linear_initializes_nothing_and_draws_no_random_numbers(self) -> None:
        plain, state = nn.Linear(64, 32), torch.get_rng_state()
        LowPrecisionLinear.from_linear(plain, MXConfig())
        assert torch.equal(torch.get_rng_state(), state)
        on_meta = nn.Linear(64, 32, device="meta")
        assert LowPrecisionLinear.from_linear(on_meta, MXConfig()).weight is on_meta.weight

    def test_deepcopy_pickle_and_torch_save(self, config: Config) -> None:
        layer = layer_of(config)
        layer.weight.requires_grad_(False)
        buffer = io.BytesIO()
        torch.save(layer, buffer)
        buffer.seek(0)
        copies = (
            copy.deepcopy(layer),
            pickle.loads(pickle.dumps(layer)),
            torch.load(buffer, weights_only=False),
        )
        for other in copies:
            assert other.config == config and other.weight is not layer.weight and not other.weight.requires_grad
            assert torch.equal(other(X), layer(X))

    def test_to_dtype_and_requires_grad_(self, config: Config) -> None:
        layer = layer_of(config)
        layer.weight.requires_grad_(False)
        layer.to(torch.bfloat16)
        assert layer.weight.dtype == layer.bias.dtype == torch.bfloat16 and not layer.weight.requires_grad
        assert layer(X.bfloat16()).dtype == torch.bfloat16
        layer.requires_grad_(True)
        assert layer.weight.requires_grad

    def test_construction_takes_device_dtype_and_config(self) -> None:
        layer = LowPrecisionLinear(4, 3, bias=False, device="meta", dtype=torch.float16)
        assert layer.config == MXConfig() and layer.weight.is_meta and layer.weight.dtype == torch.float16
        assert layer.bias is None

    def test_equal_seeds_initialize_as_nn_linear_does(self) -> None:
        torch.manual_seed(3)
        plain = nn.Linear(8, 4)
        torch.manual_seed(3)
        assert torch.equal(LowPrecisionLinear(8, 4).weight, plain.weight)

    def test_repr_shows_sizes_and_config(self, config: Config) -> None:
        assert repr(layer_of(config)) == (
            f"LowPrecisionLinear(in_features=64, out_features=32, bias=True, config={config})"
        )

    @pytest.mark.parametrize("wrong", ["all_mxfp8", MXConfig, 8], ids=repr)
    def test_what_is_no_config_is_refused_at_once(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="MXConfig, BlockMXConfig or HiF8Config"):
            LowPrecisionLinear(4, 4, config=wrong)
        with pytest.raises(TypeError, match="MXConfig, BlockMXConfig or HiF8Config"):
            LowPrecisionLinear.from_linear(nn.Linear(4, 4), wrong)
        with pytest.raises(TypeError, match="MXConfig, BlockMXConfig or HiF8Config"):
            low_precision_matmul(torch.ones(2, 4), torch.ones(3, 4), wrong)


class TestTraining:
    def test_the_weight_is_quantized_anew_in_every_forward(self, config: Config) -> None:
        layer = layer_of(config)
        for change in ("sgd", "adamw", "fused", "data", "load"):
            before = layer(X)
            layer.zero_grad()
            layer(X).backward(DY)
            if change == "data":
                layer.weight.data.copy_(torch.randn(32, 64))
            elif change == "load":
                layer.load_state_dict({"weight": torch.randn(32, 64), "bias": torch.randn(32)})
            else:
                kind: dict[str, Callable[..., torch.optim.Optimizer]] = {
                    "sgd": torch.optim.SGD,
                    "adamw": lambda p, lr: torch.optim.AdamW(p, lr=lr, foreach=True),
                    "fused": lambda p, lr: torch.optim.AdamW(p, lr=lr, fused=True),
                }
                kind[change](layer.parameters(), lr=0.5).step()
            fresh = LowPrecisionLinear.from_linear(copy.deepcopy(layer), config)
            assert torch.equal(layer(X), fresh(X)) and not torch.equal(layer(X), before)

    def test_gradients_accumulate(self, config: Config) -> None:
        layer = layer_of(config)
        once = step(layer, layer, X, DY)
        other = step(layer, layer, X * 2 + 1, DY)
        layer.zero_grad()
        for x in (X, X * 2 + 1):
            layer(x).backward(DY)
        assert layer.weight.grad is not None and torch.equal(layer.weight.grad, once[2] + other[2])

    def test_a_frozen_weight_gets_no_gradient_and_does_not_change_dx(self, config: Config) -> None:
        layer = layer_of(config)
        want = step(layer, layer, X, DY)
        layer.weight.requires_grad_(False)
        layer.zero_grad()
        got = step(layer, layer, X, DY)
        assert torch.equal(got[1], want[1]) and torch.equal(got[2], want[3])
        assert layer.weight.grad is None

    def test_an_input_without_gradient_does_not_change_dweight(self, config: Config) -> None:
        layer = layer_of(config)
        want = step(layer, layer, X, DY)
        layer.zero_grad()
        layer(X).backward(DY)
        assert layer.weight.grad is not None and torch.equal(layer.weight.grad, want[2])

    def test_eval_and_no_grad_then_train_is_as_a_fresh_layer(self, config: Config) -> None:
        layer, fresh = layer_of(config), layer_of(config)
        layer.eval()
        for context in (torch.no_grad(), torch.inference_mode()):
            with context:
                assert torch.equal(layer(X), fresh(X))
                assert not layer(X).requires_grad
        layer.train()
        assert_equal(step(layer, layer, X, DY), step(fresh, fresh, X, DY))

    @pytest.mark.parametrize("how", ["transposed", "sliced", "expanded", "sum", "mean"])
    def test_gradients_and_inputs_of_any_stride(self, config: Config, how: str) -> None:
        layer = layer_of(config)
        x, dy = X, DY
        if how == "transposed":
            x, dy = X.t().contiguous().t(), DY.t().contiguous().t()
        elif how == "sliced":
            x, dy = torch.stack([X, X + 1], -1)[..., 0], torch.stack([DY, DY], 1)[:, 1]
        elif how == "expanded":
            x, dy = X[:1].expand(33, 64), DY[:, :1].expand(33, 32)
        else:
            dy = torch.ones(33, 32) if how == "sum" else torch.full((33, 32), 1 / (33 * 32))
        want = step(layer, layer, x.contiguous(), dy.contiguous())
        if how in ("sum", "mean"):
            layer.zero_grad()
            x = x.detach().requires_grad_()
            y = layer(x)
            getattr(y, how)().backward()  # gives y's gradient strides of 0
            got = [y.detach(), x.grad, layer.weight.grad, layer.bias.grad]
        else:
            got = step(layer, layer, x, dy)
        # The bias's gradient is torch's sum, whose order depends on the strides.
        assert_equal(got[:3], want[:3])  # type: ignore[arg-type]
        torch.testing.assert_close(got[3], want[3])

    @pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
    def test_anomaly_mode(self, config: Config) -> None:
        layer = layer_of(config)
        want = step(layer, layer, X, DY)
        with torch.autograd.detect_anomaly():
            assert_equal(step(layer, layer, X, DY), want)

    def test_a_second_derivative_is_refused_with_a_reason(self, config: Config) -> None:
        layer = layer_of(config)
        x = X.clone().requires_grad_()
        (dx,) = torch.autograd.grad(layer(x).pow(2).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            dx.sum().backward()

    def test_a_weight_changed_between_forward_and_backward_is_noticed_or_harmless(self, config: Config) -> None:
        layer = layer_of(config)
        want = step(layer, layer, X, DY)
        layer.zero_grad()
        x = X.clone().requires_grad_()
        y = layer(x)
        with torch.no_grad():
            layer.weight.add_(1.0)
        if isinstance(config, HiF8Config) or config.dual_axis_forward:
            y.backward(DY)  # reads the codes of forward's weight
            assert x.grad is not None and torch.equal(x.grad, want[1])
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward(DY)

    @pytest.mark.parametrize("reentrant", [True, False])
    def test_activation_checkpointing_changes_no_bit(self, config: Config, reentrant: bool) -> None:
        layer = layer_of(config)
        block = nn.Sequential(layer, nn.GELU(), LowPrecisionLinear(32, 32, config=config))
        want = step(block, block, X, DY)
        got = step(lambda x: checkpoint(block, x, use_reentrant=reentrant), block, X, DY)
        assert_equal(got, want)


class TestAutocast:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    def test_autocast_computes_in_its_dtype_as_nn_linear_does(self, config: Config, dtype: torch.dtype) -> None:
        layer = layer_of(config)
        low = copy.deepcopy(layer).to(dtype)
        want = step(low, low, X.to(dtype), DY.to(dtype))

        def forward(x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype):
                y: Tensor = layer(x)
                assert y.dtype == dtype == nn.functional.linear(x, layer.weight, layer.bias).dtype
                return y

        got = step(forward, layer, X, DY.to(dtype))
        assert [g.dtype for g in got] == [dtype, torch.float32, torch.float32, torch.float32]
        assert_equal([g.to(dtype) for g in got], want)

    def test_backward_inside_autocast_gives_the_same_bits(self, config: Config) -> None:
        layer = layer_of(config)
        want = step(layer, layer, X, DY)
        x = X.clone().requires_grad_()
        layer.zero_grad()
        y = layer(x)
        with torch.autocast("cpu", torch.bfloat16):
            y.backward(DY)
        assert_equal([x.grad, layer.weight.grad], want[1:3])  # type: ignore[list-item]

    def test_autocast_makes_mixed_dtypes_possible(self, config: Config) -> None:
        layer = layer_of(config)
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(X.bfloat16()).dtype == torch.bfloat16

    def test_grouped_linear_follows_autocast(self, config: Config) -> None:
        x, w, offs = X, torch.randn(2, 32, 64), torch.tensor([10, 33])
        with torch.autocast("cpu", torch.bfloat16):
            y = npu_lp.grouped_linear(x, w, offs, config)
        assert torch.equal(y, npu_lp.grouped_linear(x.bfloat16(), w.bfloat16(), offs, config))


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_compiler")
class TestCompile:
    def test_linear_compiles_whole_and_gives_the_same_bits(self, config: Config) -> None:
        layer = layer_of(config, torch.bfloat16)
        x, dy = X.bfloat16(), DY.bfloat16()
        want = step(layer, layer, x, dy)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        assert_equal(step(compiled, layer, x, dy), want)

    @pytest.mark.parametrize("name", [*CONFIGS, "block_high"])
    def test_grouped_linear_compiles_whole_and_gives_the_same_bits(self, name: str) -> None:
        config = BlockMXConfig(high_precision_gemms=GEMMS) if name == "block_high" else CONFIGS[name]
        offs = torch.tensor([10, 10, 30], dtype=torch.int32)
        experts = nn.ParameterList([reference.operand((96, 64), torch.bfloat16, 3).view(3, 32, 64)])

        def forward(x: Tensor) -> Tensor:
            return npu_lp.grouped_linear(x, experts[0], offs, config)

        want = step(forward, experts, X.bfloat16(), DY.bfloat16())
        compiled = torch.compile(forward, fullgraph=True, backend="aot_eager")
        assert_equal(step(compiled, experts, X.bfloat16(), DY.bfloat16()), want)

    @pytest.mark.parametrize("name", ["mx", "block_qat", "hif8"])
    def test_compiled_for_any_number_of_rows_it_gives_the_same_bits(self, name: str) -> None:
        layer = layer_of(CONFIGS[name], torch.bfloat16)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
        for rows in (33, 7, 1, 32):
            want = step(layer, layer, X[:rows].bfloat16(), DY[:rows].bfloat16())
            assert_equal(step(compiled, layer, X[:rows].bfloat16(), DY[:rows].bfloat16()), want)


class TestErrors:
    def test_dtypes_that_differ(self, config: Config) -> None:
        layer = layer_of(config)
        with pytest.raises(ValueError, match=r"x has dtype torch.bfloat16 and weight torch.float32.*autocast"):
            layer(X.bfloat16())
        with pytest.raises(ValueError, match=r"x has dtype torch.bfloat16 and weight torch.float32"):
            npu_lp.grouped_linear(X.bfloat16(), torch.ones(1, 32, 64), torch.tensor([33]), config)

    def test_float64(self, config: Config) -> None:
        with pytest.raises(TypeError, match="float64"):
            layer_of(config, torch.float64)(X.double())

    @pytest.mark.parametrize("shape", [(3, 63), (65,), (2, 64, 1), ()], ids=str)
    def test_wrong_features(self, config: Config, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=r"features, but weight of shape \(32, 64\) takes 64"):
            layer_of(config)(torch.ones(shape))

    def test_batches_that_differ(self, config: Config) -> None:
        with pytest.raises(ValueError, match="same leading dimensions"):
            low_precision_matmul(torch.ones(2, 3, 8), torch.ones(3, 4, 8), config)

    def test_shapes_of_groups(self, config: Config) -> None:
        x, w, offs = torch.ones(5, 8), torch.ones(2, 4, 8), torch.tensor([2, 5])
        with pytest.raises(ValueError, match=r"\[T, K\] and \[G, N, K\]"):
            npu_lp.grouped_linear(x[None], w, offs, config)
        with pytest.raises(ValueError, match=r"\[T, K\] and \[G, N, K\]"):
            npu_lp.grouped_linear(x, w.mT, offs, config)
        with pytest.raises(ValueError, match="one end offset per group"):
            npu_lp.grouped_linear(x, w, offs[:1], config)
