"""npu_lp.convert: which modules change, which stay and why, and that an error leaves the model as it was."""

from __future__ import annotations

import copy
import io
import re
import warnings
from typing import Any

import npu_lp
import pytest
import torch
from npu_lp import BlockMXConfig, FakeQuantConfig, HiF8Config, LowPrecisionLinear, MXConfig, Plan, recipes
from npu_lp.nn.grouped import LowPrecisionExperts
from torch import Tensor, nn


class Experts(nn.Module):
    """Multiplies through ``_grouped_mm``, as torchtitan's GroupedExperts does."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(3, 48, 32))
        self.w2 = nn.Parameter(torch.randn(3, 32, 48))

    def _grouped_mm(self, *, A: Tensor, B_t: Tensor, offs: Tensor) -> Tensor:
        return torch.cat([a @ b for a, b in zip(A.tensor_split(offs[:-1].tolist()), B_t, strict=True)])

    def forward(self, x: Tensor, offs: Tensor) -> Tensor:
        h = self._grouped_mm(A=x, B_t=self.w1.mT, offs=offs).relu()
        return self._grouped_mm(A=h, B_t=self.w2.mT, offs=offs)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.wq = nn.Linear(32, 32, bias=False)
        self.WQ = nn.Linear(32, 32)
        self.gate = nn.Linear(32, 3, bias=False)
        self.router = nn.Linear(32, 3, bias=False)
        self.gate_proj = nn.Linear(32, 32)
        self.experts = Experts()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.gate_proj(self.WQ(self.wq(self.norm(x))))
        expert = self.gate(x).argmax(-1)
        order = expert.argsort(stable=True)
        offs = expert.bincount(minlength=3).cumsum(0).to(torch.int32)
        y = torch.empty_like(x)
        y[order] = self.experts(x[order], offs)
        return x + y


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(32))
        self.embed = nn.Embedding(10, 32)
        self.layers = nn.ModuleList([Block(), Block()])
        self.output = nn.Linear(32, 10, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) * self.scale
        for layer in self.layers:
            x = layer(x)
        y: Tensor = self.output(x)
        return y


def model() -> Model:
    torch.manual_seed(0)
    return Model()


def converted_names(plan: Plan) -> list[str]:
    return [entry.fqn for entry in plan.converted]


def reason(plan: Plan, fqn: str) -> str:
    (entry,) = [entry for entry in plan.kept if entry.fqn == fqn]
    return entry.outcome


def snapshot(m: nn.Module) -> list[tuple[str, int, type]]:
    return [(name, id(module), type(module)) for name, module in m.named_modules()]


class TestPlan:
    def test_every_module_with_parameters_is_listed_once_in_order(self) -> None:
        m = model()
        want = [name for name, module in m.named_modules() if list(module.parameters(recurse=False))]
        plan = npu_lp.convert(m, "all_mxfp8")
        assert [entry.fqn for entry in plan.entries] == want
        assert set(plan.converted) | set(plan.kept) == set(plan.entries)
        assert all(entry.outcome for entry in plan.entries)

    def test_projections_and_experts_are_converted_and_the_rest_stays_with_a_reason(self) -> None:
        plan = npu_lp.convert(model(), "all_mxfp8")
        assert converted_names(plan) == [
            f"layers.{i}.{name}" for i in (0, 1) for name in ("wq", "WQ", "gate_proj", "experts")
        ]
        for name in ("output", "layers.0.gate", "layers.1.router"):
            last = name.rsplit(".")[-1]
            assert reason(plan, name) == f"modules called {last} stay in high precision unless fqns names them"
        for name in ("", "embed", "layers.0.norm"):
            assert reason(plan, name) == "not a matmul that can be converted"

    def test_it_prints_as_a_table(self) -> None:
        plan = npu_lp.convert(model(), MXConfig(), ["layers.1.wq"])
        text = str(plan)
        assert text.splitlines()[0] == f"1 of {len(plan.entries)} modules in low precision"
        assert all(f"\n  {entry.fqn or '(the model)'} " in text for entry in plan.entries)
        assert repr(MXConfig()) in text
        assert re.search(r"layers\.1\.wq +Linear +-> LowPrecisionLinear, mxfp8_rceil", text)
        assert "layers.0.wq" in text and "stays: not named by fqns" in text

    @pytest.mark.parametrize("name", ["lm_head", "output", "gate", "router"])
    def test_a_kept_name_can_be_asked_for(self, name: str) -> None:
        m = nn.ModuleDict({name: nn.Linear(4, 4), "other": nn.Linear(4, 4)})
        assert converted_names(npu_lp.convert(copy.deepcopy(m), "all_mxfp8")) == ["other"]
        assert converted_names(npu_lp.convert(m, "all_mxfp8", [name])) == [name]

    def test_only_whole_last_names_are_kept(self) -> None:
        m = nn.ModuleDict({"gate_proj": nn.Linear(4, 4), "gate": nn.ModuleDict({"w": nn.Linear(4, 4)})})
        assert converted_names(npu_lp.convert(m, "all_mxfp8")) == ["gate_proj", "gate.w"]


class TestFqns:
    def test_they_are_case_sensitive_substrings(self) -> None:
        assert converted_names(npu_lp.convert(model(), MXConfig(), ["wq"])) == ["layers.0.wq", "layers.1.wq"]
        assert converted_names(npu_lp.convert(model(), MXConfig(), ["WQ"])) == ["layers.0.WQ", "layers.1.WQ"]
        assert converted_names(npu_lp.convert(model(), MXConfig(), ("1.w", "0.W"))) == ["layers.0.WQ", "layers.1.wq"]

    def test_every_entry_must_match_and_the_error_shows_the_nearest_names(self) -> None:
        m = model()
        before = snapshot(m)
        with pytest.raises(ValueError, match="contains 'Wq'") as error:
            npu_lp.convert(m, MXConfig(), ["wq", "Wq", "expertz", "qqqqqqqqqqqq"])
        message = str(error.value)
        assert "'Wq' (did you mean 'WQ'" in message
        assert "'expertz' (did you mean 'experts'" in message
        assert "; 'qqqqqqqqqqqq'. fqns are case-sensitive" in message  # nothing is near it
        assert "'wq'" not in message and "the model has 13 convertible modules" in message
        assert snapshot(m) == before

    def test_an_entry_that_matches_only_what_cannot_be_converted_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="No convertible module's name contains 'norm'"):
            npu_lp.convert(model(), MXConfig(), ["norm"])

    def test_a_string_is_an_error_that_shows_the_list(self) -> None:
        m = model()
        before = snapshot(m)
        with pytest.raises(TypeError, match=r"fqns='wq' is a string.*\['wq'\]"):
            npu_lp.convert(m, MXConfig(), "wq")
        assert snapshot(m) == before

    def test_an_empty_list_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="fqns is empty"):
            npu_lp.convert(model(), MXConfig(), [])


class TestWhatStays:
    def test_tied_weights(self) -> None:
        m = model()
        m.output.weight = m.embed.weight  # type: ignore[assignment]
        m.layers[0].wq.weight = m.layers[1].wq.weight  # type: ignore[union-attr]
        plan = npu_lp.convert(m, "all_mxfp8", ["wq", "WQ", "output"])
        assert converted_names(plan) == ["layers.0.WQ", "layers.1.WQ"]
        for name in ("output", "layers.0.wq", "layers.1.wq"):
            assert reason(plan, name) == "its weight is tied to another module's"
        assert m.output.weight is m.embed.weight

    def test_a_layer_used_under_two_names_is_converted_under_both(self) -> None:
        m = model()
        m.layers[1].wq = m.layers[0].wq
        plan = npu_lp.convert(m, "all_mxfp8")
        assert "layers.0.wq" in converted_names(plan)
        assert m.layers[0].wq is m.layers[1].wq and isinstance(m.layers[1].wq, LowPrecisionLinear)

    def test_subclasses_of_linear(self) -> None:
        m = nn.ModuleDict({"attention": nn.MultiheadAttention(8, 2), "up": nn.Linear(8, 8)})
        plan = npu_lp.convert(m, "all_mxfp8")
        assert converted_names(plan) == ["up"]
        assert reason(plan, "attention.out_proj") == (
            "NonDynamicallyQuantizableLinear is a subclass of Linear with a forward of its own"
        )
        x = torch.randn(3, 1, 8)
        m["attention"](x, x, x)

    def test_layers_whose_forward_was_replaced(self) -> None:
        m = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        m[0].forward = lambda x: x  # as libraries for offloading do
        plan = npu_lp.convert(m, "all_mxfp8")
        assert converted_names(plan) == ["1"] and reason(plan, "0").startswith("its forward has been replaced")

    def test_parametrized_layers(self) -> None:
        m = nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), nn.Linear(8, 8))
        plan = npu_lp.convert(m, "all_mxfp8")
        assert converted_names(plan) == ["1"]

    def test_recipes_leave_what_they_do_not_name(self) -> None:
        recipe = recipes.Recipe("mine", MXConfig(), None, "")
        plan = npu_lp.convert(model(), recipe)
        assert "layers.0.wq" in converted_names(plan) and "layers.0.experts" not in converted_names(plan)
        assert reason(plan, "layers.0.experts") == "recipe mine leaves it in high precision"

    def test_bf16_converts_nothing_and_says_so(self) -> None:
        m = model()
        before = snapshot(m)
        plan = npu_lp.convert(m, "bf16")
        assert plan.converted == () and reason(plan, "layers.0.wq") == "recipe bf16 leaves it in high precision"
        assert snapshot(m) == before

    def test_nothing_to_convert_is_an_error_that_shows_why(self) -> None:
        with pytest.raises(ValueError, match=r"matches nothing in ModuleDict:(.|\n)*lm_head.*stay in high precision"):
            npu_lp.convert(nn.ModuleDict({"lm_head": nn.Linear(4, 4)}), "all_mxfp8")


class TestInPlace:
    def test_parameters_hooks_and_references_stay(self) -> None:
        m = model()
        names, parameters = list(m.state_dict()), dict(m.named_parameters())
        seen: list[str] = []
        wq = m.layers[0].wq
        wq.register_forward_hook(lambda *_: seen.append("forward"))
        wq.weight.requires_grad_(False)  # type: ignore[union-attr]
        m.eval()
        npu_lp.convert(m, "all_mxfp8")
        assert list(m.state_dict()) == names
        assert all(p is parameters[name] for name, p in m.named_parameters())
        assert m.layers[0].wq is wq and not wq.training and not m.layers[0].wq.weight.requires_grad  # type: ignore[union-attr]
        m(torch.arange(10))
        assert seen == ["forward"]

    def test_weights_made_by_hooks_are_quantized_too(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            layer = torch.nn.utils.weight_norm(nn.Linear(32, 8))
        m = nn.Sequential(layer)
        npu_lp.convert(m, MXConfig())
        x = torch.randn(4, 32)
        y = m(x)
        y.sum().backward()
        want = npu_lp.autograd.low_precision_matmul(x, layer.weight, MXConfig()) + layer.bias
        assert torch.equal(y, want) and layer.weight_g.grad is not None

    def test_a_model_that_is_one_layer(self) -> None:
        layer = nn.Linear(8, 8)
        plan = npu_lp.convert(layer, MXConfig())
        assert isinstance(layer, LowPrecisionLinear) and converted_names(plan) == [""]

    def test_the_converted_model_trains(self) -> None:
        m = model()
        tokens = torch.arange(10)
        plain = m(tokens)
        npu_lp.convert(m, "all_mxfp8")
        y = m(tokens)
        assert not torch.equal(y, plain)
        assert (y - plain).norm() < 0.2 * plain.norm()
        y.sum().backward()
        # The gate's choice has no gradient here, and the router is not used.
        used = {name: p for name, p in m.named_parameters() if "gate." not in name and "router." not in name}
        assert all(p.grad is not None and p.grad.isfinite().all() for p in used.values())

    def test_experts_multiply_as_grouped_linear_does(self) -> None:
        torch.manual_seed(0)
        experts = Experts()
        m = nn.Sequential(experts)
        config = MXConfig(scale_rule="floor")
        npu_lp.convert(m, config)
        assert isinstance(experts, LowPrecisionExperts) and type(experts).__name__ == "LowPrecisionExperts"
        x, offs = torch.randn(20, 32, requires_grad=True), torch.tensor([7, 7, 20], dtype=torch.int32)
        y = experts(x, offs)
        h = npu_lp.grouped_linear(x, experts.w1, offs, config).relu()
        assert torch.equal(y, npu_lp.grouped_linear(h, experts.w2, offs, config))
        y.sum().backward()
        assert experts.w1.grad is not None and experts.w1.grad[1].eq(0).all() and experts.w1.grad[0].ne(0).any()

    def test_converted_models_can_be_copied_and_saved(self) -> None:
        m = model()
        npu_lp.convert(m, "all_mxfp8")
        buffer = io.BytesIO()
        torch.save(m, buffer)
        buffer.seek(0)
        tokens = torch.arange(10)
        for other in (copy.deepcopy(m), torch.load(buffer, weights_only=False)):
            assert [type(a) for a in other.modules()] == [type(a) for a in m.modules()]
            assert other.output.weight is not m.output.weight
            assert torch.equal(other(tokens), m(tokens))


class TestTwice:
    def test_the_second_config_wins(self) -> None:
        m = model()
        npu_lp.convert(m, "all_mxfp8")
        classes = [type(module) for module in m.modules()]
        plan = npu_lp.convert(m, HiF8Config())
        assert len(plan.converted) == 8 and [type(module) for module in m.modules()] == classes
        configs = {getattr(module, "config", None) or getattr(module, "low_precision", None) for module in m.modules()}
        assert configs == {None, HiF8Config()}

    def test_layers_that_are_not_named_keep_theirs(self) -> None:
        m = model()
        npu_lp.convert(m, MXConfig())
        npu_lp.convert(m, BlockMXConfig(), ["layers.1.wq"])
        assert m.layers[0].wq.config == MXConfig() and m.layers[1].wq.config == BlockMXConfig()  # type: ignore[union-attr]


class TestRecipes:
    @pytest.mark.parametrize("name", [name for name in recipes.NAMES if name != "bf16"])
    def test_each_name_gives_its_configs(self, name: str) -> None:
        m = model()
        npu_lp.convert(m, name)
        recipe = recipes.get(name)
        assert m.layers[0].wq.config == recipe.linear and m.layers[0].experts.low_precision == recipe.experts  # type: ignore[union-attr]
        m(torch.arange(10)).sum().backward()

    def test_a_recipe_with_other_options(self) -> None:
        m = model()
        npu_lp.convert(m, recipes.get("mix", recipes.Options(dst_type_max=7.0)))
        assert m.layers[0].experts.low_precision == BlockMXConfig(weight_fake_quant=FakeQuantConfig(dst_max=7.0))  # type: ignore[union-attr]

    @pytest.mark.parametrize("wrong", ["mxfp8", "ALL_MXFP8", ""])
    def test_an_unknown_name_lists_the_known_ones(self, wrong: str) -> None:
        m = model()
        before = snapshot(m)
        with pytest.raises(ValueError, match=f"Recipe '{wrong}' is unknown. The recipes are: mix, mix_mxfp8, all_mxfp8"):
            npu_lp.convert(m, wrong)
        assert snapshot(m) == before

    @pytest.mark.parametrize("wrong", [None, MXConfig, 3, {"fmt": "e4m3"}], ids=repr)
    def test_what_is_no_config_is_an_error(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="is not a config"):
            npu_lp.convert(model(), wrong)
