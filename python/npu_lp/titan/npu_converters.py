"""The converters that torchtitan-npu's users know, by their names and arguments."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torchtitan.components.quantization import QuantizationConverter
from torchtitan.tools.logging import logger

from npu_lp.config import Config as LayerConfig
from npu_lp.config import MXConfig
from npu_lp.device import check_npu
from npu_lp.recipes import Recipe
from npu_lp.titan.converter import convert_config, convert_named, convertible_names
from npu_lp.titan.param_swap import ParamsFilter, ParamSwapConfig

_MXFP8_RECIPES: dict[str, Callable[[], MXConfig]] = {
    "mxfp8_rceil": lambda: MXConfig(scale_rule="rceil"),
    "mxfp8_floor": lambda: MXConfig(scale_rule="floor"),
}


class MXFP8Converter(QuantizationConverter):
    """MXFP8 for the modules whose names contain one of ``fqns`` (case-sensitive)."""

    @dataclass(kw_only=True, slots=True)
    class Config(QuantizationConverter.Config):
        """``recipe_name``: "mxfp8_rceil" or "mxfp8_floor"."""

        recipe_name: str = "mxfp8_rceil"
        fqns: list[str] = field(default_factory=list)

    def __init__(self, config: Config) -> None:
        if config.recipe_name not in _MXFP8_RECIPES:
            raise ValueError(
                f"MXFP8Converter: recipe_name={config.recipe_name!r} is unknown. Pass one of "
                f"{', '.join(map(repr, _MXFP8_RECIPES))}."
            )
        layer = _MXFP8_RECIPES[config.recipe_name]()
        self.fqns = config.fqns
        self.recipe = Recipe(config.recipe_name, layer, layer, "MXFP8Converter")
        check_npu(layer)

    def convert(self, model_config: Any) -> Any:
        """Swap configs in place and return the model's config.

        Raises:
            ValueError: an entry of fqns matches nothing.
        """
        convert_named(model_config, self.recipe, self.fqns)
        return model_config


ConfigFilter = Callable[[Any, str], bool]


class NpuQuantizeConverter(QuantizationConverter):
    """One ParamSwapConfig for the modules that ``filter_fn`` picks."""

    @dataclass(kw_only=True, slots=True)
    class Config(QuantizationConverter.Config):
        """Which modules, and how.

        Attributes:
            base_config: how weights and activations are quantized; required.
            filter_fn: given a module's config and name, says whether it is converted. None: every module that can be.
            params_filter_fn: overrides base_config.params_filter_fn.
        """

        base_config: ParamSwapConfig | None = None
        filter_fn: ConfigFilter | None = None
        params_filter_fn: ParamsFilter | None = None

    def __init__(self, config: Config) -> None:
        if config.base_config is None:
            raise ValueError(
                "NpuQuantizeConverter: base_config is missing. Pass "
                "ParamSwapConfig(weight_config=..., activation_config=...)."
            )
        self.base_config = config.base_config
        self.filter_fn = config.filter_fn
        self.params_filter_fn = config.params_filter_fn or config.base_config.params_filter_fn
        check_npu(self.base_config.config)
        logger.info(f"Parameter quantize active with base_config={self.base_config}")

    def convert(self, model_config: Any) -> Any:
        """Swap configs in place and return the model's config.

        Raises:
            ValueError: the filters pick no module, or some but not all weights of one.
        """
        names = convertible_names(model_config)
        plan = convert_config(model_config, self._decide)
        if not plan.converted:
            raise ValueError(
                f"NpuQuantizeConverter: filter_fn and params_filter_fn pick none of the {len(names)} modules that can be "
                f"converted, such as {', '.join(names[:3])}."
            )
        logger.info("Applied parameter quantize wrapping (prepare step)")
        logger.info(f"Low-precision plan of NpuQuantizeConverter: {plan}")
        return model_config

    def _decide(self, fqn: str, config: Any) -> LayerConfig | str:
        if self.filter_fn is not None and not self.filter_fn(config, fqn):
            return "not picked by filter_fn"
        weights = [name for name in config.param_init or {} if name != "bias"]
        if self.params_filter_fn is not None:
            picked = [name for name in weights if self.params_filter_fn(f"{fqn}.{name}")]
            if not picked:
                return "not picked by params_filter_fn"
            if picked != weights:
                raise ValueError(
                    f"NpuQuantizeConverter: params_filter_fn picks {picked} of {fqn}, but not "
                    f"{[name for name in weights if name not in picked]}. The weights of a module are converted together."
                )
        return self.base_config.config
