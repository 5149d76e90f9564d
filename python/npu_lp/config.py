"""What a low-precision layer does, as data.

A config is a frozen dataclass: printable, comparable, hashable, and loadable by ``torch.load(weights_only=True)``. Which
matmuls a layer has: ``forward`` (y = x wᵀ), ``dgrad`` (the gradient of x) and ``wgrad`` (the gradient of w).
"""

import os
from dataclasses import dataclass, field

import torch

from npu_lp.names import Format, GemmName, ScaleRule

GEMMS: tuple[GemmName, ...] = ("forward", "dgrad", "wgrad")
_MX_FP8 = ("e4m3", "e5m2")
_FP8_RULES = ("floor", "rceil")


def dual_axis_forward_from_environment() -> bool:
    """``MXFP8_DUAL_AXIS_FORWARD``: 1 (the default) or 0.

    Raises:
        ValueError: it has another value.
    """
    value = os.environ.get("MXFP8_DUAL_AXIS_FORWARD", "1")
    if value not in ("0", "1"):
        raise ValueError(
            f"MXFP8_DUAL_AXIS_FORWARD={value!r} is unknown. Set it to 1 (quantize along both axes in forward) or 0 (along "
            "one in forward, and again in backward)."
        )
    return value == "1"


def check_choice(config: str, name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise ValueError unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{config}: {name}={value!r} is unknown. Pass one of {', '.join(map(repr, allowed))}.")


def check_gemms(config: str, gemms: tuple[GemmName, ...]) -> None:
    """Raise ValueError unless ``gemms`` is a tuple of names from GEMMS."""
    if not isinstance(gemms, tuple):
        raise ValueError(f"{config}: high_precision_gemms={gemms!r} must be a tuple of names from {GEMMS}.")
    for gemm in gemms:
        check_choice(config, "high_precision_gemms", gemm, GEMMS)


@dataclass(frozen=True)
class MXConfig:
    """MXFP8: both operands of each matmul in blocks of 32 along the summed axis.

    Attributes:
        fmt: element format of activations and weights, "e4m3" or "e5m2".
        grad_fmt: element format of output gradients. e5m2 gradients are known to hurt convergence (docs/semantics.md).
        scale_rule: "rceil" (torchtitan-npu's default: the block maximum never saturates) or "floor" (OCP).
        dual_axis_forward: quantize x and w along both axes in forward and save the codes for backward, which halves what
            is saved. False quantizes one axis in forward and requantizes from the saved high-precision operands in
            backward. The gradients are the same bits. Default: the environment's MXFP8_DUAL_AXIS_FORWARD, else True.
        high_precision_gemms: matmuls to leave in the input's precision, from "forward", "dgrad", "wgrad".
    """

    fmt: Format = "e4m3"
    grad_fmt: Format = "e4m3"
    scale_rule: ScaleRule = "rceil"
    dual_axis_forward: bool = field(default_factory=dual_axis_forward_from_environment)
    high_precision_gemms: tuple[GemmName, ...] = ()

    def __post_init__(self) -> None:
        check_choice("MXConfig", "fmt", self.fmt, _MX_FP8)
        check_choice("MXConfig", "grad_fmt", self.grad_fmt, _MX_FP8)
        check_choice("MXConfig", "scale_rule", self.scale_rule, _FP8_RULES)
        check_gemms("MXConfig", self.high_precision_gemms)

    @property
    def label(self) -> str:
        """Short name for logs: ``mxfp8_rceil``."""
        return f"mxfp8_{self.scale_rule}"


Config = MXConfig

torch.serialization.add_safe_globals([MXConfig])
