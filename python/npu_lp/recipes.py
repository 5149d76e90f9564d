"""Recipes: which kind of layer gets which config. A new recipe is an entry in the table below.

``linear`` is for dense projections (attention, shared experts, MTP), ``experts`` for the grouped matmuls of routed
experts; None leaves them as they are. Which modules of a model count is the model's business: each model package under
``npu_lp.titan`` lists them in LOW_PRECISION_FQNS.

Three environment variables, which torchtitan-npu's users know, set details: ENABLE_MXFP4_QAT, DST_TYPE_MAX and
MXFP8_DUAL_AXIS_FORWARD.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from npu_lp.config import HIF8_DST_MAX, BlockMXConfig, Config, FakeQuantConfig, HiF8Config, MXConfig, check_config


@dataclass(frozen=True)
class Options:
    """What the environment says about the details of recipes.

    Attributes:
        mxfp4_qat: ENABLE_MXFP4_QAT: fake-quantize the weights of routed experts to MXFP4 in mix and mix_mxfp8.
        dst_type_max: DST_TYPE_MAX: for MXFP4 QAT 0 or 6 to 12; for all_hif8 one of 0, 15, 56, 224, 32768 (activations and
            weights). None: the recipe's default, 0 and 15.
    """

    mxfp4_qat: bool = True
    dst_type_max: float | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Options":
        """Read the variables; an empty value counts as unset.

        Raises:
            ValueError: one has a value that it cannot have.
        """
        qat = environment.get("ENABLE_MXFP4_QAT", "").lower() or "true"
        if qat not in ("true", "false", "1", "0"):
            raise ValueError(f"ENABLE_MXFP4_QAT={qat!r} is unknown. Set it to true or false.")
        text = environment.get("DST_TYPE_MAX", "")
        try:
            dst_type_max = float(text) if text else None
        except ValueError:
            raise ValueError(
                f"DST_TYPE_MAX={text!r} is not a number. Set it to 0 or 6 to 12 (MXFP4 QAT), or to one of "
                f"{', '.join(f'{value:g}' for value in HIF8_DST_MAX)} (all_hif8)."
            ) from None
        return cls(qat in ("true", "1"), dst_type_max)


@dataclass(frozen=True)
class Recipe:
    """A named choice of configs."""

    name: str
    linear: Config | None
    experts: Config | None
    doc: str


@dataclass(frozen=True)
class _Entry:
    doc: str
    linear: Callable[[Options], Config | None]
    experts: Callable[[Options], Config | None]
    takes_dst_type_max: bool = False


def _mxfp8(_: Options) -> Config:
    return MXConfig()


def _block(_: Options) -> Config:
    return BlockMXConfig()


def _block_qat(options: Options) -> Config:
    if not options.mxfp4_qat:
        return BlockMXConfig()
    return BlockMXConfig(weight_fake_quant=FakeQuantConfig(dst_max=options.dst_type_max or 0.0))


def _hif8(options: Options) -> Config:
    return HiF8Config() if options.dst_type_max is None else HiF8Config(dst_max=options.dst_type_max)


def _unchanged(_: Options) -> None:
    return None


# Functions, so that the environment is read when a recipe is asked for, not at import.
_TABLE: dict[str, _Entry] = {
    "mix": _Entry(
        "block MX; routed experts with MXFP4 QAT (as torchtitan-npu's tutorial defines mix)", _block, _block_qat, True
    ),
    "mix_mxfp8": _Entry(
        "MXFP8; routed experts block MX with MXFP4 QAT (as torchtitan-npu's code defines mix)", _mxfp8, _block_qat, True
    ),
    "all_mxfp8": _Entry("MXFP8", _mxfp8, _mxfp8),
    "all_block_fp8": _Entry("block MX: weights in 32x32 tiles", _block, _block),
    "all_hif8": _Entry("HiF8, one scale for each tensor", _hif8, _hif8, True),
    "bf16": _Entry("nothing converted: the baseline", _unchanged, _unchanged),
}
WITH_MXFP4_QAT = tuple(name for name, entry in _TABLE.items() if entry.experts is _block_qat)
ALIASES = {"hif8": "all_hif8"}

NAMES: tuple[str, ...] = (*_TABLE, *ALIASES)


def get(name: str, options: Options | None = None) -> Recipe:
    """Return the recipe called ``name``, its details as ``options`` say; None reads the environment.

    Raises:
        ValueError: there is no such recipe (the message lists those that exist), or an option has no meaning for it.
    """
    name = ALIASES.get(name, name)
    if name not in _TABLE:
        raise ValueError(f"Recipe {name!r} is unknown. The recipes are: {', '.join(NAMES)}.")
    options = Options.from_environment() if options is None else options
    entry = _TABLE[name]
    takes = entry.takes_dst_type_max and (name == "all_hif8" or options.mxfp4_qat)
    if options.dst_type_max is not None and not takes:
        raise ValueError(
            f"DST_TYPE_MAX={options.dst_type_max:g} has no meaning for recipe {name!r}"
            + (" without MXFP4 QAT" if entry.takes_dst_type_max else "")
            + ". Unset it, or choose a recipe that takes it: "
            + ", ".join(other for other, e in _TABLE.items() if e.takes_dst_type_max)
            + "."
        )
    return Recipe(name, entry.linear(options), entry.experts(options), entry.doc)


def resolve(config_or_recipe: Config | Recipe | str) -> Recipe:
    """Return a recipe as it is, a name's recipe, or for a config the recipe that gives it to every layer.

    Raises:
        TypeError: it is none of these.
        ValueError: the name of no recipe.
    """
    if isinstance(config_or_recipe, Recipe):
        return config_or_recipe
    if isinstance(config_or_recipe, str):
        return get(config_or_recipe)
    check_config(config_or_recipe)
    return Recipe(repr(config_or_recipe), config_or_recipe, config_or_recipe, "one config for every layer")


def _gemms(config: Config | None) -> str:
    if config is None:
        return "none"
    return ", ".join(gemm for gemm in ("forward", "dgrad", "wgrad") if gemm not in config.high_precision_gemms)


def table() -> str:
    """Return every recipe (which modules, how operands are quantized, which matmuls) for ``python -m npu_lp recipes``."""
    rows = [("recipe", "modules", "activations", "weights", "gradients", "low-precision matmuls")]
    for name in _TABLE:
        recipe = get(name, Options())
        for first, modules, config in (
            (name, "attention, shared experts, MTP", recipe.linear),
            ("", "routed experts", recipe.experts),
        ):
            operands = ("unchanged",) * 3 if config is None else config.operands
            rows.append((first, modules, *operands, _gemms(config)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    aliases = ", ".join(f"{alias} = {name}" for alias, name in ALIASES.items())
    return "\n".join(
        [
            *lines,
            "",
            "1x32: 32 elements along the summed axis share an e8m0 scale; 32x32: a tile does; tensor: one fp32 scale.",
            "Routers, compressors, norms, embeddings and lm_head stay in high precision.",
            f"Alias: {aliases}. Choose with RECIPE, details with ENABLE_MXFP4_QAT, DST_TYPE_MAX, MXFP8_DUAL_AXIS_FORWARD.",
        ]
    )
