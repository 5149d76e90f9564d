"""Conversion of any PyTorch model: nn.Linear and experts modules become low-precision, in place, by name."""

from collections import Counter
from collections.abc import Sequence

from torch import nn

from npu_lp import recipes
from npu_lp.config import Config
from npu_lp.nn.grouped import GroupedExperts, LowPrecisionExperts, convert_experts
from npu_lp.nn.linear import LowPrecisionLinear, convert_linear
from npu_lp.nn.plan import Plan, PlanEntry, check_all_match, named_by

# Last parts of names that stay in high precision unless fqns names them: output projections and routers, whose errors
# reach the loss, or the choice of experts, directly.
KEPT_BY_DEFAULT = ("lm_head", "output", "gate", "router")


def convert(model: nn.Module, config_or_recipe: Config | recipes.Recipe | str, fqns: Sequence[str] | None = None) -> Plan:
    """Make the named layers of ``model`` low-precision, in place.

    Converted are ``nn.Linear`` modules, which become :class:`LowPrecisionLinear` with the same parameters, and experts
    modules that multiply through ``_grouped_mm(A, B_t, offs)``, as torchtitan's do. state_dict keys do not change.

    Args:
        model: any module.
        config_or_recipe: a config for every layer, a recipe, or a recipe's name.
        fqns: case-sensitive substrings of the names of the modules to convert. None converts all but output projections,
            routers (names ending in one of KEPT_BY_DEFAULT) and tied weights.

    Returns:
        The plan: every module that holds parameters, what it became or why it stayed.

    Raises:
        ValueError: an unknown recipe, an entry of fqns that matches no convertible module, or nothing to convert.
        TypeError: fqns is a string.
    """
    recipe = recipes.resolve(config_or_recipe)
    modules = {name: module for name, module in model.named_modules() if list(module.parameters(recurse=False))}
    convertible = [name for name, module in modules.items() if _is_convertible(module)]
    if fqns is not None:
        check_all_match(fqns, convertible)
    shared = Counter(id(p) for m in model.modules() for p in m.parameters(recurse=False))
    decisions = {name: _decide(name, module, recipe, fqns, shared) for name, module in modules.items()}
    # Everything is decided before anything changes: an error leaves the model as it was.
    entries = [_apply(name, modules[name], decision) for name, decision in decisions.items()]
    plan = Plan(tuple(entries))
    if not plan.converted and (recipe.linear is not None or recipe.experts is not None):
        raise ValueError(f"Recipe {recipe.name!r} matches nothing in {type(model).__name__}:\n{plan}")
    return plan


def _is_convertible(module: nn.Module) -> bool:
    # Subclasses of Linear are left alone: their owners may read the weight without calling forward.
    return type(module) in (nn.Linear, LowPrecisionLinear) or isinstance(module, GroupedExperts)


def _decide(
    name: str, module: nn.Module, recipe: recipes.Recipe, fqns: Sequence[str] | None, shared: Counter[int]
) -> Config | str:
    """Return the config that the module gets, or the reason why it stays."""
    if isinstance(module, nn.Linear) and not _is_convertible(module):
        return f"{type(module).__name__} is a subclass of Linear with a forward of its own"
    if not _is_convertible(module):
        return "not a matmul that can be converted"
    if "forward" in vars(module):
        return "its forward has been replaced on the instance, and would be called in place of the low-precision one"
    if fqns is not None and not named_by(name, fqns):
        return "not named by fqns"
    if any(shared[id(p)] > 1 for p in module.parameters(recurse=False)):
        return "its weight is tied to another module's"
    last = name.rsplit(".", 1)[-1]
    if fqns is None and last in KEPT_BY_DEFAULT:
        return f"modules called {last} stay in high precision unless fqns names them"
    config = recipe.linear if isinstance(module, nn.Linear) else recipe.experts
    return f"recipe {recipe.name} leaves it in high precision" if config is None else config


def _apply(name: str, module: nn.Module, decision: Config | str) -> PlanEntry:
    kind = type(module).__name__
    if isinstance(decision, str):
        return PlanEntry(name, kind, decision, converted=False)
    if isinstance(module, nn.Linear):
        convert_linear(module, decision)
    elif isinstance(module, LowPrecisionExperts):
        module.low_precision = decision
    else:
        convert_experts(module, decision)
    return PlanEntry(name, kind, f"{type(module).__name__}, {decision.label}", converted=True, config=decision)
