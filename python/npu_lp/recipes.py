"""Recipes: which kind of layer gets which config. A new recipe is an entry in the table below.

``linear`` is for dense projections (attention, shared experts, MTP), ``experts`` for the grouped matmuls of routed
experts; None leaves them as they are. Which modules of a model count is the model's business: each model package under
``npu_lp.titan`` lists them in LOW_PRECISION_FQNS.
"""

from collections.abc import Callable
from dataclasses import dataclass

from npu_lp.config import Config, MXConfig


@dataclass(frozen=True)
class Recipe:
    """A named choice of configs."""

    name: str
    linear: Config | None
    experts: Config | None
    doc: str


# Functions, so that a config's environment defaults are read when a recipe is asked for, not at import.
_TABLE: dict[str, Callable[[], Recipe]] = {
    "all_mxfp8": lambda: Recipe("all_mxfp8", MXConfig(), MXConfig(), "every converted matmul in MXFP8"),
    "bf16": lambda: Recipe("bf16", None, None, "nothing converted: the baseline"),
}

NAMES: tuple[str, ...] = tuple(_TABLE)


def get(name: str) -> Recipe:
    """Return the recipe called ``name``.

    Raises:
        ValueError: there is none; the message lists those that exist.
    """
    if name not in _TABLE:
        raise ValueError(f"Recipe {name!r} is unknown. The recipes are: {', '.join(NAMES)}.")
    return _TABLE[name]()


def resolve(config_or_recipe: Config | Recipe | str) -> Recipe:
    """Return a recipe as it is, a name's recipe, or for a config the recipe that gives it to every layer."""
    if isinstance(config_or_recipe, Recipe):
        return config_or_recipe
    if isinstance(config_or_recipe, str):
        return get(config_or_recipe)
    return Recipe(repr(config_or_recipe), config_or_recipe, config_or_recipe, "one config for every layer")
