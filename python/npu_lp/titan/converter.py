"""The torchtitan converter: swaps configs of linear and expert layers for low-precision ones, before the model is built.

Three kinds of module can be converted, each by the one method that its matmuls go through:

- torchtitan's ``Linear``: its forward;
- experts with ``_grouped_mm(A, B_t, offs)``, as torchtitan's ``GroupedExperts``;
- modules with ``_matmul(x [G, T, in], w [G, out, in])``, as ``npu_lp.titan.deepseek_v4.GroupedLinear``.

Converters may come in any order, several to a model. A module that one has converted is not converted again: that is an
error, not a silent choice.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torchtitan.components.quantization import QuantizationConverter
from torchtitan.config.override import derive
from torchtitan.models.common.linear import Linear
from torchtitan.protocols.module import Module
from torchtitan.tools.logging import logger

from npu_lp import recipes
from npu_lp.config import Config, MXConfig
from npu_lp.device import check_npu
from npu_lp.nn.grouped import LowPrecisionExperts
from npu_lp.nn.linear import autocast_matmul, low_precision_linear
from npu_lp.nn.plan import Plan, PlanEntry, check_all_match, named_by
from npu_lp.titan.param_swap import ParamSwapConfig


class LowPrecisionForward(nn.Module):
    """Mixed in before torchtitan's Linear."""

    low_precision: Config

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., in]`` to ``[..., out]``."""
        return low_precision_linear(x, self.weight, self.bias, self.low_precision)  # type: ignore[arg-type]


class LowPrecisionBatchedMatmul(nn.Module):
    """Mixed in before a module that multiplies through ``_matmul``."""

    low_precision: Config

    def _matmul(self, x: Tensor, w: Tensor) -> Tensor:
        return autocast_matmul(x, w, self.low_precision)


MIXINS = (LowPrecisionForward, LowPrecisionBatchedMatmul, LowPrecisionExperts)


def mixin_of(config: Any) -> type[nn.Module] | None:
    """Return what makes a module of this config low-precision, None where nothing does."""
    owner = type(config)._owner
    if type(config) is Linear.Config:
        return LowPrecisionForward
    if hasattr(owner, "_grouped_mm"):
        return LowPrecisionExperts
    if hasattr(owner, "_matmul"):
        return LowPrecisionBatchedMatmul
    return None


_classes: dict[type, type] = {}


def _low_precision_class(owner: type, mixin: type[nn.Module]) -> Any:
    """Return ``LowPrecision<owner>``, a torchtitan Module whose Config has one more field, ``low_precision``."""
    if owner not in _classes:

        class LowPrecision(mixin, owner):  # type: ignore[valid-type, misc]
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


Decision = Config | str
"""The config that a module gets, or the reason why it stays."""


def convert_config(model_config: Any, decide: Callable[[str, Any], Decision]) -> Plan:
    """Swap module configs inside a torchtitan model's config, in place.

    Args:
        model_config: the config of the whole model.
        decide: from the name and the config of a module that can be converted, what becomes of it.

    Returns:
        The plan: every module that has parameters.

    Raises:
        ValueError: a module would be converted a second time.
    """
    entries = []
    replacements = []
    for fqn, config, parent, attribute in _modules(model_config):
        owner = type(config)._owner
        mixin = mixin_of(config)
        if mixin is None and not issubclass(owner, MIXINS):
            if config.param_init is not None:
                own = isinstance(config, Linear.Config)
                reason = "a Linear with a forward of its own" if own else "not a matmul that can be converted"
                entries.append(PlanEntry(fqn, owner.__name__, reason, converted=False))
            continue
        decision = decide(fqn, config)
        if issubclass(owner, MIXINS):
            if not isinstance(decision, str):
                raise ValueError(
                    f"{fqn} is named by two converters: it is {config.low_precision} already, and would become {decision}. "
                    "Name each module in one converter."
                )
            decision = f"converted before, {config.low_precision}"
        if isinstance(decision, str):
            entries.append(PlanEntry(fqn, owner.__name__, decision, converted=False))
            continue
        assert mixin is not None
        converted = _low_precision_class(owner, mixin)
        replacements.append((parent, attribute, derive(config, converted.Config, low_precision=decision)))
        entries.append(PlanEntry(fqn, owner.__name__, f"{converted.__name__}, {decision.label}", True, decision))
    # Everything is decided before anything changes: an error leaves the model's config as it was.
    for parent, attribute, replacement in replacements:
        if isinstance(parent, list):
            parent[attribute] = replacement
        else:
            setattr(parent, attribute, replacement)
    return Plan(tuple(entries))


def _modules(model_config: Any) -> list[tuple[str, Any, Any, Any]]:
    """Name, config, parent and attribute of every module inside the model."""
    return [entry for entry in model_config.traverse(Module.Config, recurse=True) if entry[0]]


def convertible_names(model_config: Any) -> list[str]:
    """Return the names of the modules that converters can convert."""
    return [fqn for fqn, config, _, _ in _modules(model_config) if mixin_of(config)]


def convert_named(model_config: Any, recipe: recipes.Recipe, fqns: list[str]) -> Plan:
    """Give the modules whose names contain one of ``fqns`` the configs of ``recipe``; log it as torchtitan-npu does.

    Raises:
        ValueError: an entry of fqns matches no module that can be converted; the message shows the nearest names.
    """
    names = [fqn for fqn, config, _, _ in _modules(model_config) if mixin_of(config) or hasattr(config, "low_precision")]
    check_all_match(fqns, names)

    def decide(fqn: str, config: Any) -> Decision:
        if not named_by(fqn, fqns):
            return "not named by fqns"
        experts = mixin_of(config) is LowPrecisionExperts or issubclass(type(config)._owner, LowPrecisionExperts)
        chosen = recipe.experts if experts else recipe.linear
        return f"recipe {recipe.name} leaves it in high precision" if chosen is None else chosen

    plan = convert_config(model_config, decide)
    operations = [(recipe.experts, "grouped_mm"), (recipe.linear, "linear")]
    if recipe.experts == recipe.linear:
        operations = [(recipe.linear, "grouped_mm and linear")]
    for config, what in operations:
        if isinstance(config, MXConfig):
            if "grouped_mm" in what:
                logger.info("MXFP8 MoE training enabled")
            logger.info(f"Converted layers matching FQNS {fqns} to use dynamic {config.label} quantization for {what} ops")
        elif config is not None:
            logger.info(f"Parameter quantize active with base_config={ParamSwapConfig.of(config)} for {what} ops")
    logger.info(f"Low-precision plan of {recipe.name}: {plan}")
    return plan


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
        check_npu(self.recipe.linear, self.recipe.experts)

    def convert(self, model_config: Any) -> Any:
        """Swap configs in place and return the model's config; errors are those of convert_named."""
        convert_named(model_config, self.recipe, self.fqns)
        return model_config
