"""ParamSwapConfig: torchtitan-npu's pair of a weight's and an activation's config, for NpuQuantizeConverter."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from npu_lp.config import BlockMXConfig, Config, MXConfig

ParamsFilter = Callable[[str], bool]


@dataclass(frozen=True)
class ParamSwapConfig:
    """How the weights of the chosen modules, and the activations that they meet, are quantized.

    ================  ==================  ==============================================================
    weight_config     activation_config   layer
    ================  ==================  ==============================================================
    MXConfig          the same MXConfig   MXFP8
    BlockMXConfig     MXConfig            block MX; the activation's fmt, grad_fmt and scale_rule are used
    HiF8Config        the same            HiF8
    ================  ==================  ==============================================================

    Attributes:
        weight_config: how weights are quantized.
        activation_config: how activations and output gradients are.
        params_filter_fn: given the name of a parameter, says whether it is converted. The matmuls of one module are
            converted together, so it must say the same of all of a module's weights. None: all.

    Raises:
        ValueError: one of the two is missing, or they do not go together.
    """

    weight_config: Config | None = None
    activation_config: Config | None = None
    params_filter_fn: ParamsFilter | None = None

    def __post_init__(self) -> None:
        if self.weight_config is None or self.activation_config is None:
            missing = "weight_config" if self.weight_config is None else "activation_config"
            raise ValueError(f"ParamSwapConfig: {missing} is missing. Pass both weight_config and activation_config.")
        weight, activation = self.weight_config, self.activation_config
        if isinstance(weight, BlockMXConfig):
            if isinstance(activation, MXConfig):
                agree = activation == MXConfig(
                    fmt=weight.fmt,
                    grad_fmt=activation.grad_fmt,
                    scale_rule=activation.scale_rule,
                    dual_axis_forward=weight.dual_axis_forward,
                    high_precision_gemms=weight.high_precision_gemms,
                )
            else:
                agree = activation == weight
        else:
            agree = activation == weight
        if not agree:
            raise ValueError(
                f"ParamSwapConfig: weight_config={weight} and activation_config={activation} do not go together. Pass the "
                "same config twice, or a BlockMXConfig with an MXConfig that agrees with it."
            )

    @property
    def config(self) -> Config:
        """The one config of the layer."""
        assert self.weight_config is not None
        if isinstance(self.weight_config, BlockMXConfig) and isinstance(self.activation_config, MXConfig):
            activation = self.activation_config
            return replace(self.weight_config, grad_fmt=activation.grad_fmt, scale_rule=activation.scale_rule)
        return self.weight_config

    @classmethod
    def of(cls, config: Config) -> "ParamSwapConfig":
        """Return the pair that stands for a layer's config."""
        return cls(weight_config=config, activation_config=config)
