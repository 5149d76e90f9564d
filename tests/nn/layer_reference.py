"""A float64 model of the layers: what each matmul multiplies, and how far an fp32 accumulation may lie from it.

Operands are quantized by the numpy oracle in tests/reference and decoded to exact float64 values; products are float64.
Nothing of npu_lp computes here but the Hadamard rotation of a research option, which is defined by its own tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from npu_lp import BlockMXConfig, HiF8Config, MXConfig
from npu_lp.autograd.hadamard import rotate
from npu_lp.config import Config
from reference import bits, fp32_scaled, hif8, matmul, mx

# Unit roundoff (half the distance from 1 to the next number) and smallest subnormal number.
_UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}
_TINY = {torch.bfloat16: 2.0**-133, torch.float16: 2.0**-24, torch.float32: 2.0**-149}
_U32 = _UNIT[torch.float32]


@dataclass(frozen=True)
class Interval:
    """A float64 result and how far from it the layer's may lie, element by element."""

    value: np.ndarray
    error: np.ndarray

    def rounded(self, dtype: torch.dtype) -> Interval:
        """After one rounding to dtype: half an ulp of a result anywhere in the interval, or half a subnormal step."""
        return Interval(self.value, self.error + _UNIT[dtype] * (np.abs(self.value) + self.error) + _TINY[dtype] / 2)

    def plus(self, other: np.ndarray) -> Interval:
        return Interval(self.value + other, self.error)

    def check(self, got: torch.Tensor, what: str) -> None:
        """got lies in the interval, element by element, and has no NaN."""
        v = bits.values(got.detach())
        assert v.shape == self.value.shape, f"{what}: shape {v.shape}, expected {self.value.shape}"
        # A negated comparison, so that NaN fails.
        bad = ~(np.abs(v - self.value) <= self.error)
        if bad.any():
            i = tuple(int(j) for j in np.argwhere(bad)[0])
            raise AssertionError(
                f"{what}: {bad.sum()} of {bad.size} outside the bound; first at {i}: got {v[i]!r}, "
                f"expected {self.value[i]!r} +- {self.error[i]!r}"
            )


@dataclass(frozen=True)
class Operand:
    """Values of the codes, and the fp32 scale of the whole tensor that HiF8 applies after the sum (1 for MX)."""

    values: np.ndarray
    scale: float | None = None

    @property
    def mT(self) -> Operand:
        return Operand(np.swapaxes(self.values, -1, -2), self.scale)


def gamma(roundings: int) -> float:
    """Higham's bound: n roundings in a row change a value by at most the factor 1 + gamma."""
    return roundings * _U32 / (1 - roundings * _U32)


def low_product(a: Operand, b: Operand) -> Interval:
    """fp32 accumulation in the defined order, before the rounding to the output dtype.

    A product enters the chain of its segment through a fused multiply-add: one rounding for it and for each later product
    of the segment, at most min(K, 256); then one for each later segment's addition. Both are at most
    min(K, 256) + segments - 1 factors 1 + d, |d| <= u, of each product. A rounding in the subnormal range adds at most
    half of 2^-149 instead.
    """
    k = a.values.shape[-1]
    segments = -(-k // matmul.SEGMENT)
    roundings = min(k, matmul.SEGMENT) + max(segments - 1, 0)
    value = a.values @ b.values
    magnitude = np.abs(a.values) @ np.abs(b.values)
    # The float64 sum is itself off by K of its own units.
    error = (gamma(roundings) + k * 2.0**-53) * magnitude + (k + segments) * 2.0**-150
    if a.scale is None or b.scale is None:
        return Interval(value, error)
    # One fp32 multiplication by the product of the scales, which the device cuts to 10 mantissa bits.
    scale = float(matmul.scale_product(np.array(a.scale), np.array(b.scale), True))
    scaled = Interval(value * scale, error * scale)
    return scaled.rounded(torch.float32)


def high_product(a: np.ndarray, b: np.ndarray) -> Interval:
    """A matmul of torch in high precision: K products and sums in fp32, in any order, each rounded."""
    k = a.shape[-1]
    magnitude = np.abs(a) @ np.abs(b)
    return Interval(a @ b, (gamma(k) + k * 2.0**-53) * magnitude + k * 2.0**-149)


def quantized(x: torch.Tensor, role: str, axis: int, config: Config) -> Operand:
    """The values that ``config`` gives x [.., M, N] for a sum over ``axis`` (-1 or -2)."""
    if isinstance(config, HiF8Config):
        codes, scale = fp32_scaled.hif8_quant(x, config.grad_dst_max if role == "grad" else config.dst_max)
        return Operand(hif8.decode(codes), float(bits.fp32_values(scale)[0]))
    fmt = config.grad_fmt if role == "grad" else config.fmt
    if isinstance(config, BlockMXConfig) and role == "weight":
        return Operand(_tiles(x, axis, config))
    block = config.block_size if isinstance(config, MXConfig) else 32
    if isinstance(config, MXConfig) and config.hadamard:
        x = rotate(x, axis)
    data, scale = mx.mx_quant(x, axis, fmt, config.scale_rule, block)
    return Operand(mx.dequantize_values(data, scale, axis, fmt, block))


def _tiles(weight: torch.Tensor, axis: int, config: BlockMXConfig) -> np.ndarray:
    features = weight.shape[-1]
    if config.weight_fake_quant is None:
        data, *scales = mx.mx_quant_block(weight, config.fmt)
    else:
        fp4, fp4_scale = _fp4(weight, config)
        data, *scales, _ = mx.mx_to_block(fp4, fp4_scale, config.weight_fake_quant.fmt, config.fmt)
    # An odd row got one zero more, which is a column of its own at the end.
    return mx.dequantize_values(data, scales[0 if axis == -1 else 1], axis, config.fmt)[..., :features]


def _fp4(weight: torch.Tensor, config: BlockMXConfig) -> tuple[np.ndarray, np.ndarray]:
    fake = config.weight_fake_quant
    assert fake is not None
    even = torch.nn.functional.pad(weight.detach(), (0, weight.shape[-1] % 2))
    return mx.mx_quant(even, -1, fake.fmt, fake.scale_rule, dst_max=fake.dst_max)


def seen_weight(weight: torch.Tensor, config: Config) -> np.ndarray:
    """The weight that matmuls kept in high precision multiply: fake-quantized if the config says so."""
    if isinstance(config, BlockMXConfig) and config.weight_fake_quant is not None:
        data, scale = _fp4(weight, config)
        values = mx.dequantize_values(data, scale, -1, config.weight_fake_quant.fmt)[..., : weight.shape[-1]]
        return bits.fl32(values) if weight.dtype == torch.float32 else _round(values, weight.dtype)
    return bits.values(weight)


def _round(values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    pattern = bits.round_to_dtype_bits(values, dtype)
    if dtype == torch.bfloat16:
        return bits.fp32_values(pattern.astype(np.uint32) << 16)
    return bits.ieee_values(pattern, exponent_bits=5, mantissa_bits=10)


def linear(
    x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor, config: Config
) -> tuple[Interval, Interval, Interval]:
    """(y, dx, dweight) of y = x weight.mT; x [.., M, K], weight [.., N, K], dy [.., M, N], equal leading dims."""
    keep, dtype = config.high_precision_gemms, x.dtype
    x, weight, dy = x.detach(), weight.detach(), dy.detach()
    if "forward" in keep:
        y = high_product(bits.values(x), np.swapaxes(seen_weight(weight, config), -1, -2))
    else:
        y = low_product(quantized(x, "activation", -1, config), quantized(weight, "weight", -1, config).mT)
    if "dgrad" in keep:
        dx = high_product(bits.values(dy), seen_weight(weight, config))
    else:
        dx = low_product(quantized(dy, "grad", -1, config), quantized(weight, "weight", -2, config))
    if "wgrad" in keep:
        dw = high_product(np.swapaxes(bits.values(dy), -1, -2), bits.values(x))
    else:
        dw = low_product(quantized(dy, "grad", -2, config).mT, quantized(x, "activation", -2, config))
    return y.rounded(dtype), dx.rounded(dtype), dw.rounded(dtype)


def grouped(
    x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor, sizes: list[int], config: Config
) -> tuple[Interval, Interval, Interval]:
    """(y, dx, dweight) of grouped_linear: each group as a linear of its own, zeros elsewhere.

    Only HiF8's scale is shared: it belongs to all rows of all groups, and to all weights.
    """
    total = sum(sizes)
    out = [np.zeros((2, *shape)) for shape in ((len(x), weight.shape[1]), tuple(x.shape), tuple(weight.shape))]
    start = 0
    for group, size in enumerate(sizes):
        rows = slice(start, start + size)
        start += size
        if size == 0:
            continue
        if isinstance(config, HiF8Config):
            parts = _hif8_group(x[:total], weight, dy[:total], rows, group, config)
        else:
            # The rotation leaves the token axis of groups out.
            parts = _group(x[rows], weight[group], dy[rows], config)
        for result, part, where in zip(out, parts, (rows, rows, group), strict=True):
            result[0][where], result[1][where] = part.value, part.error
    y, dx, dw = (Interval(value, error) for value, error in out)
    return y, dx, dw


def _group(
    x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor, config: MXConfig | BlockMXConfig
) -> tuple[Interval, Interval, Interval]:
    y, dx, dw = linear(x, weight, dy, config)
    if isinstance(config, MXConfig) and config.hadamard and "wgrad" not in config.high_precision_gemms:
        plain = MXConfig(config.fmt, config.grad_fmt, config.scale_rule, block_size=config.block_size)
        dw = linear(x, weight, dy, plain)[2]
    return y, dx, dw


def _hif8_group(
    x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor, rows: slice, group: int, config: HiF8Config
) -> tuple[Interval, Interval, Interval]:
    qx, qw, qdy = (
        quantized(t.detach(), role, -1, config) for t, role in ((x, "activation"), (weight, "weight"), (dy, "grad"))
    )
    own_x, own_w, own_dy = (
        Operand(q.values[part], q.scale) for q, part in ((qx, rows), (qw, group), (qdy, rows))
    )
    high_x, high_w, high_dy = bits.values(x[rows].detach()), bits.values(weight[group].detach()), bits.values(dy[rows])
    keep = config.high_precision_gemms
    y = high_product(high_x, high_w.T) if "forward" in keep else low_product(own_x, own_w.mT)
    dx = high_product(high_dy, high_w) if "dgrad" in keep else low_product(own_dy, own_w)
    dw = high_product(high_dy.T, high_x) if "wgrad" in keep else low_product(own_dy.mT, own_x)
    return y.rounded(x.dtype), dx.rounded(x.dtype), dw.rounded(x.dtype)


def operand(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Random values whose magnitude differs from block to block along both axes; some are zero.

    The spread is small enough for a product of fp16 operands to stay below 65504.
    """
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    for axis in (-1, -2):
        exponents = rng.integers(-2, 3, -(-shape[axis] // 16) + 1)[np.arange(shape[axis]) // 16]
        values = np.moveaxis(np.moveaxis(values, axis, -1) * np.exp2(exponents), -1, axis)
    values = np.where(rng.random(shape) < 0.05, 0.0, values)
    return torch.from_numpy(np.ascontiguousarray(values)).to(dtype)


CONFIGS: dict[str, Config] = {
    "mx": MXConfig(dual_axis_forward=True),
    "mx_single_axis": MXConfig(dual_axis_forward=False),
    "mx_floor": MXConfig(scale_rule="floor"),
    "mx_e5m2": MXConfig(fmt="e5m2", grad_fmt="e5m2"),
    "mx_e5m2_grad": MXConfig(grad_fmt="e5m2"),
    "mx_e3m2": MXConfig(fmt="e3m2"),
    "mx_e2m3": MXConfig(grad_fmt="e2m3"),
    "mx_block_16": MXConfig(block_size=16),
    "mx_block_128": MXConfig(block_size=128),
    "mx_hadamard": MXConfig(hadamard=True),
    "block": BlockMXConfig(),
    "block_floor_e5m2_grad": BlockMXConfig(scale_rule="floor", grad_fmt="e5m2"),
}
