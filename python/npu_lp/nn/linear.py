"""LowPrecisionLinear: nn.Linear whose matmuls run in low precision."""

from typing import Self

import torch
from torch import Tensor, nn

from npu_lp.autograd import low_precision_matmul
from npu_lp.config import Config, MXConfig, check_config


def autocast_input(x: Tensor) -> tuple[Tensor, bool]:
    """Convert x to the autocast dtype where autocast is on, as torch does for nn.Linear; and whether it is, so that the
    weight is to be converted too."""
    if torch.is_autocast_enabled(x.device.type):
        return x.to(torch.get_autocast_dtype(x.device.type)), True
    return x, False


def autocast_matmul(x: Tensor, weight: Tensor, config: Config) -> Tensor:
    """low_precision_matmul of operands in the autocast dtype, where autocast is on."""
    x, cast = autocast_input(x)
    if not cast:
        return low_precision_matmul(x, weight, config)
    with torch.autocast(x.device.type, enabled=False):
        return low_precision_matmul(x, weight, config, cast_weight=True)


def low_precision_linear(x: Tensor, weight: Tensor, bias: Tensor | None, config: Config) -> Tensor:
    """``x [..., in] @ weight [out, in].T + bias``: the matmuls quantized, the bias added in x's precision.

    Under torch.autocast, x and weight are converted to its dtype first, as nn.Linear's are.
    """
    y = autocast_matmul(x, weight, config)
    return y if bias is None else y + bias.to(y.dtype)


class LowPrecisionLinear(nn.Linear):
    """A drop-in nn.Linear whose three matmuls (forward, dgrad, wgrad) quantize their operands as ``config`` says.

    The weight stays a high-precision parameter, is quantized in every forward, and has nn.Linear's state_dict keys. x may
    have any number of leading dimensions and any sizes, also 0, below 32 and not multiples of 32.

    Args:
        in_features: size of x's last dimension.
        out_features: size of the result's last dimension.
        bias: whether there is one; it is added in x's precision.
        config: what the matmuls do.
        device: as nn.Linear's.
        dtype: as nn.Linear's.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        config: Config | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        config = MXConfig() if config is None else config
        check_config(config)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.config: Config = config

    @classmethod
    def from_linear(cls, linear: nn.Linear, config: Config | None = None) -> Self:
        """Return a low-precision layer that shares ``linear``'s parameters (their identity, dtype and requires_grad)."""
        with torch.device("meta"):
            layer = cls(linear.in_features, linear.out_features, linear.bias is not None, config)
        layer.weight = linear.weight
        layer.bias = linear.bias
        layer.train(linear.training)
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., in_features]`` to ``[..., out_features]``, in x's dtype (autocast's, where that is on)."""
        return low_precision_linear(x, self.weight, self.bias, self.config)

    def extra_repr(self) -> str:
        """nn.Linear's, and the config."""
        return f"{super().extra_repr()}, config={self.config}"


def convert_linear(module: nn.Linear, config: Config) -> None:
    """Make an nn.Linear low-precision in place: its parameters, hooks and every reference to it stay as they are."""
    module.__class__ = LowPrecisionLinear
    module.config = config  # type: ignore[assignment]
