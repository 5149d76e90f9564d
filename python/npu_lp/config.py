"""What a low-precision layer does, as data.

A config is a frozen dataclass: printable, comparable, hashable, and loadable by ``torch.load(weights_only=True)``. Which
matmuls a layer has: ``forward`` (y = x wᵀ), ``dgrad`` (the gradient of x) and ``wgrad`` (the gradient of w); each can be
kept in the input's precision by naming it in ``high_precision_gemms``.
"""

import os
from dataclasses import dataclass, field

import torch

from npu_lp.names import Format, GemmName, Rounding, ScaleRule

GEMMS: tuple[GemmName, ...] = ("forward", "dgrad", "wgrad")
HIF8_DST_MAX = (0.0, 15.0, 56.0, 224.0, 32768.0)
_FP8 = ("e4m3", "e5m2")
_FP4 = ("e2m1", "e1m2")
_RESEARCH = ("e3m2", "e2m3")


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


def _check_choice(config: str, name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{config}: {name}={value!r} is unknown. Pass one of {', '.join(map(repr, allowed))}.")


def _check_flag(config: str, name: str, value: object) -> None:
    # Not by truth: "0" and "False", from an environment or a command line, would be true.
    if not isinstance(value, bool):
        raise ValueError(f"{config}: {name}={value!r} is unknown. Pass True or False.")


def _check_gemms(config: str, gemms: tuple[GemmName, ...]) -> None:
    if not isinstance(gemms, tuple):
        raise ValueError(f"{config}: high_precision_gemms={gemms!r} must be a tuple of names from {GEMMS}.")
    for gemm in gemms:
        _check_choice(config, "high_precision_gemms", gemm, GEMMS)


@dataclass(frozen=True)
class MXConfig:
    """MXFP8: both operands of each matmul in blocks of 32 along the summed axis.

    Attributes:
        fmt: element format of activations and weights, "e4m3" or "e5m2" ("e3m2" and "e2m3" for research).
        grad_fmt: likewise of output gradients. e5m2 gradients are known to hurt convergence.
        scale_rule: "rceil" (torchtitan-npu's default: the block maximum never saturates) or "floor" (OCP).
        dual_axis_forward: quantize x and w along both axes in forward and save the codes for backward, which halves what
            is saved. False quantizes one axis in forward and requantizes from the saved high-precision operands in
            backward. The gradients are the same bits. Default: the environment's MXFP8_DUAL_AXIS_FORWARD, else True.
        high_precision_gemms: matmuls to leave in the input's precision, from "forward", "dgrad", "wgrad".
        block_size: 32; for research on the CPU also 16, 64, 128.
        grad_rounding: "rint"; for research on the CPU also "stochastic", from torch's default generator.
        hadamard: for research: rotate each 32 elements along the summed axis by an orthonormal Hadamard matrix before they
            are quantized, which spreads outliers and leaves the product as it was. The token axis of routed experts, whose
            groups have any size, is not rotated.
    """

    fmt: Format = "e4m3"
    grad_fmt: Format = "e4m3"
    scale_rule: ScaleRule = "rceil"
    dual_axis_forward: bool = field(default_factory=dual_axis_forward_from_environment)
    high_precision_gemms: tuple[GemmName, ...] = ()
    block_size: int = 32
    grad_rounding: Rounding = "rint"
    hadamard: bool = False

    def __post_init__(self) -> None:
        _check_choice("MXConfig", "fmt", self.fmt, _FP8 + _RESEARCH)
        _check_choice("MXConfig", "grad_fmt", self.grad_fmt, _FP8 + _RESEARCH)
        _check_choice("MXConfig", "scale_rule", self.scale_rule, ("floor", "rceil"))
        _check_choice("MXConfig", "block_size", self.block_size, (16, 32, 64, 128))
        _check_choice("MXConfig", "grad_rounding", self.grad_rounding, ("rint", "stochastic"))
        _check_flag("MXConfig", "dual_axis_forward", self.dual_axis_forward)
        _check_flag("MXConfig", "hadamard", self.hadamard)
        _check_gemms("MXConfig", self.high_precision_gemms)
        if self.fmt in _RESEARCH and self.grad_fmt in _RESEARCH and self.fmt != self.grad_fmt:
            raise ValueError(
                f"MXConfig: fmt={self.fmt!r} and grad_fmt={self.grad_fmt!r} are both stored as uint8 and could not be told "
                "apart. Use one of them for both, or an FP8 format for one."
            )

    @property
    def label(self) -> str:
        """Short name for logs: ``mxfp8_rceil``."""
        return f"mxfp{'8' if self.fmt in _FP8 else '6'}_{self.scale_rule}"

    @property
    def operands(self) -> tuple[str, str, str]:
        """How activations, weights and output gradients are quantized, in words."""
        tail = f"1x{self.block_size} {self.scale_rule}" + (" rotated" if self.hadamard else "")
        grad = " stochastic" if self.grad_rounding == "stochastic" else ""
        return f"{self.fmt} {tail}", f"{self.fmt} {tail}", f"{self.grad_fmt} {tail}{grad}"


@dataclass(frozen=True)
class FakeQuantConfig:
    """Quantization-aware training (QAT): a weight takes the values that it would have after quantization.

    The blocks lie along the weight's input features. Its gradient passes straight through.

    Attributes:
        fmt: "e2m1" (MXFP4) or "e1m2".
        scale_rule: "dtype_range" (torch_npu's scale_alg 2; e2m1 only) or "floor".
        dst_max: for dtype_range, the value that a block's maximum is scaled to: 0 (6, the format's own) or 6 to 12.
    """

    fmt: Format = "e2m1"
    scale_rule: ScaleRule = "dtype_range"
    dst_max: float = 0.0

    def __post_init__(self) -> None:
        _check_choice("FakeQuantConfig", "fmt", self.fmt, _FP4)
        allowed = ("dtype_range", "floor") if self.fmt == "e2m1" else ("floor",)
        _check_choice("FakeQuantConfig", "scale_rule", self.scale_rule, allowed)
        if self.dst_max != 0 and not (self.scale_rule == "dtype_range" and 6 <= self.dst_max <= 12):
            raise ValueError(
                f"FakeQuantConfig: dst_max={self.dst_max!r} is out of range. Pass 0, or for scale_rule='dtype_range' a "
                "value from 6 to 12."
            )


@dataclass(frozen=True)
class BlockMXConfig:
    """Block MX, which torchtitan-npu calls BlockFP8: the weight in 32x32 tiles with one e8m0 scale, the rest as in MXFP8.

    One set of weight codes serves forward and dgrad. It is not DeepSeek-V3's 128x128 blocks with fp32 scales.

    Attributes:
        fmt: element format of activations and weights, "e4m3" or "e5m2".
        grad_fmt: element format of output gradients.
        scale_rule: of activations and gradients, "rceil" or "floor"; the tiles of the weight always use "floor", the only
            rule that the device has for them.
        weight_fake_quant: fake-quantize the weight to FP4 first (MXFP4 QAT); None does not.
        dual_axis_forward: as in MXConfig.
        high_precision_gemms: likewise.
    """

    fmt: Format = "e4m3"
    grad_fmt: Format = "e4m3"
    scale_rule: ScaleRule = "rceil"
    weight_fake_quant: FakeQuantConfig | None = None
    dual_axis_forward: bool = field(default_factory=dual_axis_forward_from_environment)
    high_precision_gemms: tuple[GemmName, ...] = ()

    def __post_init__(self) -> None:
        _check_choice("BlockMXConfig", "fmt", self.fmt, _FP8)
        _check_choice("BlockMXConfig", "grad_fmt", self.grad_fmt, _FP8)
        _check_choice("BlockMXConfig", "scale_rule", self.scale_rule, ("floor", "rceil"))
        if self.weight_fake_quant is not None and not isinstance(self.weight_fake_quant, FakeQuantConfig):
            raise ValueError(
                f"BlockMXConfig: weight_fake_quant={self.weight_fake_quant!r} is unknown. Pass a FakeQuantConfig or None."
            )
        _check_flag("BlockMXConfig", "dual_axis_forward", self.dual_axis_forward)
        _check_gemms("BlockMXConfig", self.high_precision_gemms)

    @property
    def label(self) -> str:
        """Short name for logs: ``block_fp8`` or ``block_fp8_mxfp4_qat``."""
        return "block_fp8" if self.weight_fake_quant is None else "block_fp8_mxfp4_qat"

    @property
    def operands(self) -> tuple[str, str, str]:
        """How activations, weights and output gradients are quantized, in words."""
        fake = self.weight_fake_quant
        weight = f"{self.fmt} 32x32 floor"
        if fake is not None:
            weight = (
                f"{fake.fmt} 1x32 {fake.scale_rule}" + (f"({fake.dst_max:g})" if fake.dst_max else "") + f", then {weight}"
            )
        return f"{self.fmt} 1x32 {self.scale_rule}", weight, f"{self.grad_fmt} 1x32 {self.scale_rule}"


@dataclass(frozen=True)
class HiF8Config:
    """HiF8 with one current scale for each operand; backward quantizes only dy and reuses the saved codes.

    Attributes:
        dst_max: the value that the largest magnitude of activations and of weights is scaled to: 15, 56, 224, 32768, or 0,
            which means 32768. Small values leave more mantissa bits: HiF8 has 3 near 1 and 1 above 256.
        grad_dst_max: likewise of output gradients, whose range is wider. 15 and 224 are what MindSpeed trains with.
        high_precision_gemms: matmuls to leave in the input's precision, from "forward", "dgrad", "wgrad".
    """

    dst_max: float = 15.0
    grad_dst_max: float = 224.0
    high_precision_gemms: tuple[GemmName, ...] = ()

    def __post_init__(self) -> None:
        _check_choice("HiF8Config", "dst_max", self.dst_max, HIF8_DST_MAX)
        _check_choice("HiF8Config", "grad_dst_max", self.grad_dst_max, HIF8_DST_MAX)
        _check_gemms("HiF8Config", self.high_precision_gemms)

    @property
    def label(self) -> str:
        """Short name for logs: ``hif8``."""
        return "hif8"

    @property
    def operands(self) -> tuple[str, str, str]:
        """How activations, weights and output gradients are quantized, in words."""
        activation, grad = (f"hif8 tensor, max {value or 32768:g}" for value in (self.dst_max, self.grad_dst_max))
        return activation, activation, grad


Config = MXConfig | BlockMXConfig | HiF8Config


def check_config(config: object) -> None:
    """Raise unless ``config`` is a config.

    Raises:
        TypeError: it is something else, such as the class of one or the name of a recipe.
    """
    if not isinstance(config, Config):
        raise TypeError(
            f"config={config!r} is not a config. Pass an MXConfig, BlockMXConfig or HiF8Config; the names of recipes are "
            "for npu_lp.convert."
        )


torch.serialization.add_safe_globals([MXConfig, BlockMXConfig, FakeQuantConfig, HiF8Config])
