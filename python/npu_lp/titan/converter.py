"""The torchtitan converter: swaps configs of linear and expert layers for low-precision ones, before the model is built.

Three kinds of module can be converted, each by the one method that its matmuls go through:

- torchtitan's ``Linear``: its forward;
- experts with ``_grouped_mm(A, B_t, offs)``, as torchtitan's ``GroupedExperts``;
- modules with ``_matmul(x [G, T, in], w [G, out, in])``, as ``npu_lp.titan.deepseek_v4.GroupedLinear``.
"""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torchtitan.components.quantization import QuantizationConverter
from torchtitan.config.override import derive
from torchtitan.models.common.linear import Linear
from torchtitan.protocols.module import Module
from torchtitan.tools.logging import logger

from npu_lp import recipes
from npu_lp.autograd import low_precision_matmul
from npu_lp.config import Config
from npu_lp.nn.grouped import LowPrecisionExperts
from npu_lp.nn.linear import autocast_operands, low_precision_linear
from npu_lp.nn.plan import Plan, PlanEntry, check_all_match, named_by


class _LowPrecisionForward(nn.Module):
    """Mixed in before torchtitan's Linear."""

    low_precision: Config

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., in]`` to ``[..., out]``."""
        return low_precision_linear(x, self.weight, self.bias, self.low_precision)  # type: ignore[arg-type]


class _LowPrecisionBatchedMatmul(nn.Module):
    """Mixed in before a module that multiplies through ``_matmul``."""

    low_precision: Config

    def _matmul(self, x: Tensor, w: Tensor) -> Tensor:
        return low_precision_matmul(*autocast_operands(x, w), self.low_precision)


def _mixin_of(config: Any) -> type[nn.Module] | None:
    """Return what makes a module of this config low-precision, None where nothing does."""
    owner = getattr(type(config), "_owner", None)
    if type(config) is Linear.Config:
        return _LowPrecisionForward
    if hasattr(owner, "_grouped_mm"):
        return LowPrecisionExperts
    if hasattr(owner, "_matmul"):
        return _LowPrecisionBatchedMatmul
    return None


_classes: dict[type, type] = {}


def _low_precision_class(owner: type, mixin: type[nn.Module]) -> Any:
    """Return ``LowPrecision<owner>``, a torchtitan Module whose Config has one more field, ``low_precision``."""
    if owner not in _classes:

        class LowPrecision(mixin, owner):  # type: ignore[valid-type]
            @dataclass(kw_only=True, slots=True)
            class Config(owner.Config):  # type: ignore[misc, name-defined]
                low_precision: Any

            def __init__(self, config: Any) -> None:
                super().__init__(config)
                self.low_precision = config.low_precision

            def extra_repr(self) -> str:
                """The owner's, and the config."""
                return ", ".join(filter(None, [super().extra_repr(), str(self.low_precision)]))

        LowPrecision.__name__ = LowPrecision.__qualname__ = f"LowPrecision{owner.__name__}"
        _classes[owner] = LowPrecision
    return _classes[owner]


class LowPrecisionConverter(QuantizationConverter):
    """Gives the named modules of a torchtitan model the configs of a recipe, and logs the plan."""

    @dataclass(kw_only=True, slots=True)
    class Config(QuantizationConverter.Config):
        """``recipe``: its name. ``fqns``: case-sensitive substrings of module names, at least one."""

        recipe: str
        fqns: list[str] = field(default_factory=list)

    def __init__(self, config: Config) -> None:
        self.fqns = config.fqns
        self.recipe = recipes.get(config.recipe)

    def convert(self, model_config: Any) -> Any:
        """Swap the configs in place and return the model's config.

        Raises:
            ValueError: an entry of fqns matches no module that can be converted; the message shows the nearest names.
        """
        modules = [entry for entry in model_config.traverse(Module.Config, recurse=True) if entry[0]]
        check_all_match(self.fqns, [fqn for fqn, config, _, _ in modules if _mixin_of(config)])
        plan = Plan(
            tuple(
                self._convert_one(fqn, config, parent, attribute)
                for fqn, config, parent, attribute in modules
                if _mixin_of(config) or config.param_init is not None
            )
        )
        self._log(plan)
        return model_config

    def _convert_one(self, fqn: str, config: Any, parent: Any, attribute: Any) -> PlanEntry:
        mixin = _mixin_of(config)
        owner = type(config)._owner
        kind = owner.__name__
        if mixin is None:
            reason = "a Linear with a forward of its own" if isinstance(config, Linear.Config) else "not a matmul"
            return PlanEntry(fqn, kind, f"{reason} that can be converted", converted=False)
        if not named_by(fqn, self.fqns):
            return PlanEntry(fqn, kind, "not named by fqns", converted=False)
        low_precision = self.recipe.experts if mixin is LowPrecisionExperts else self.recipe.linear
        if low_precision is None:
            return PlanEntry(fqn, kind, f"recipe {self.recipe.name} leaves it in high precision", converted=False)
        converted = _low_precision_class(owner, mixin)
        replacement = derive(config, converted.Config, low_precision=low_precision)
        if isinstance(parent, list):
            parent[attribute] = replacement
        else:
            setattr(parent, attribute, replacement)
        return PlanEntry(fqn, kind, f"{converted.__name__}, {low_precision}", converted=True)

    def _log(self, plan: Plan) -> None:
        experts, linear = self.recipe.experts, self.recipe.linear
        if experts is not None and any("Experts" in entry.kind for entry in plan.converted):
            logger.info("MXFP8 MoE training enabled")
        for config, what in _operations(linear, experts):
            logger.info(
                f"Converted layers matching FQNS {self.fqns} to use dynamic {config.label} quantization for {what} ops"
            )
        logger.info(f"Low-precision plan of recipe {self.recipe.name}: {plan}")


def _operations(linear: Config | None, experts: Config | None) -> list[tuple[Config, str]]:
    """Configs and the operations that they govern, as torchtitan-npu's log words them."""
    if linear is not None and experts is not None and linear.label == experts.label:
        return [(linear, "grouped_mm and linear")]
    return [(config, what) for config, what in ((experts, "grouped_mm"), (linear, "linear")) if config is not None]
