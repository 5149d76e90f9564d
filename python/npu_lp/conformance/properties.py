"""Cases that state a rule instead of bytes; each rule is checked on data made here, the same on every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from npu_lp import _formats
from npu_lp.conformance import arguments
from npu_lp.conformance.arguments import NotAvailable, op
from npu_lp.conformance.cases import Case
from npu_lp.conformance.comparison import Comparison, holds, same

_FP8 = [("e4m3", "floor"), ("e4m3", "rceil"), ("e5m2", "floor"), ("e5m2", "rceil")]
_FP4 = [("e2m1", "floor"), ("e2m1", "dtype_range"), ("e1m2", "floor")]
_ALG = {"floor": 0, "rceil": 1, "dtype_range": 2}


def _random(shape: tuple[int, int], seed: int) -> torch.Tensor:
    """bf16 with magnitudes from 2^-60 to 2^60 that differ by block, and blocks of zeros."""
    generator = torch.Generator().manual_seed(seed)
    exponent = torch.randint(-60, 60, (-(-shape[0] // 16), -(-shape[1] // 16)), generator=generator).float()
    scale = torch.exp2(exponent).repeat_interleave(16, 0).repeat_interleave(16, 1)[: shape[0], : shape[1]]
    x = torch.randn(shape, generator=generator) * scale
    x[:32, 32:64] = 0.0
    return x.bfloat16()


def dual_equals_single(case: Case, device: torch.device) -> Iterator[Comparison]:
    """mx_quant_dual equals mx_quant along -1 and -2 where no scale byte is 0, each as its own device kernel."""
    dual, single = op("mx_quant_dual"), op("mx_quant")
    x = _random((130, 226), 1).to(device)
    for fmt, rule in _FP8 + _FP4:
        arguments.known_format(fmt)
        got = dual(x, fmt, rule, underflow=arguments.DUAL_AXIS[_ALG[rule]])
        kernel = arguments.SINGLE_AXIS[_ALG[rule]]
        want = (*single(x, -1, fmt, rule, underflow=kernel), *single(x, -2, fmt, rule, underflow=kernel))
        for name, g, w in zip(("y1", "mxscale1", "y2", "mxscale2"), got, want, strict=True):
            yield same(f"{name} {fmt} {rule}", g, w)


def mul_precision(case: Case, device: torch.device) -> Iterator[Comparison]:
    """A bf16 tensor and its fp32 copy give the same bytes, except with FP4, floor and a product that underflows."""
    quant = op("mx_quant")
    x = _random((64, 224), 2)
    x[:, ::7] *= 2.0**-40
    # Negative products below 2^-134 beside a block maximum of 2^103: the bf16 product is -0.
    x[0, :32] = 0.0
    x[0, :3] = torch.tensor([1.5 * 2.0**103, -(2.0**-40), -(2.0**-30)])
    x = x.to(device)
    for fmt, rule in _FP8 + _FP4:
        arguments.known_format(fmt)
        for rounding in ("rint", "round") if (fmt, rule) in _FP4 else ("rint",):
            for name, g, w in zip(
                ("y", "mxscale"), quant(x, -1, fmt, rule, rounding=rounding),
                quant(x.float(), -1, fmt, rule, rounding=rounding), strict=True,
            ):  # fmt: skip
                yield same(f"{name} {fmt} {rule} {rounding}", g, w)
    for fmt in ("e2m1", "e1m2"):
        narrow, _ = quant(x[:1, :32], -1, fmt, "floor", rounding="floor")
        wide, _ = quant(x[:1, :32].float(), -1, fmt, "floor", rounding="floor")
        nibble = (int(narrow.view(torch.uint8)[0, 0]) >> 4, int(wide.view(torch.uint8)[0, 0]) >> 4)
        yield holds(f"y {fmt} floor", nibble == (0x8, 0x9), f"bf16 and fp32 codes of -2^-40 are {nibble}, expected (8, 9)")


def block_scale_broadcast(case: Case, device: torch.device) -> Iterator[Comparison]:
    """Inside a tile of mx_quant_block, scale1 is the same in all rows and scale2 in all columns."""
    quant = op("mx_quant_block")
    x = _random((97, 130), 3).to(device)
    _, scale_row, scale_col = (t.view(torch.uint8) for t in quant(x, "e4m3", "floor"))
    first_row, first_col = scale_row[::32], scale_col[:, ::32]
    yield same("scale1", scale_row, first_row.repeat_interleave(32, 0)[: x.shape[0]])
    yield same("scale2", scale_col, first_col.repeat_interleave(32, 1)[:, : x.shape[1]])
    # Tile (i, j): scale1 [row, j // 2, j % 2], scale2 [i // 2, column, i % 2].
    by_row = first_row.flatten(-2)[:, : -(-x.shape[1] // 32)]
    by_col = first_col.permute(0, 2, 1).reshape(-1, first_col.shape[1])[: -(-x.shape[0] // 32)]
    yield same("scale1 against scale2", by_row, by_col)
    yield holds("tiles", len(by_row.unique()) > 4, "the data has too few different scales to show anything")


def hif8_round_trip(case: Case, device: torch.device) -> Iterator[Comparison]:
    """Every finite code is the code of its value, and no two codes have the same value."""
    arguments.known_format("hif8")
    codes = np.arange(256, dtype=np.uint8)
    values = _formats.decode("hif8", codes)
    finite = np.isfinite(values)
    yield holds("finite codes", int(finite.sum()) == 253, f"{int(finite.sum())} codes are finite, expected 253")
    back = _formats.encode("hif8", values[finite], rounding="round", saturate=True)
    yield same("encode(decode(c))", torch.from_numpy(back), torch.from_numpy(codes[finite]))
    distinct = np.unique(values[finite]).size
    yield holds("strictly monotone", distinct == 253, f"the finite codes have {distinct} different values")


_PROPERTIES: dict[str, Callable[[Case, torch.device], Iterator[Comparison]]] = {
    "prop-dual-equals-single": dual_equals_single,
    "prop-mul-precision": mul_precision,
    "prop-block-scale-broadcast": block_scale_broadcast,
    "hif8-roundtrip": hif8_round_trip,
}


def check_property(case: Case, device: torch.device) -> Iterator[Comparison]:
    """The property that the case names by its id."""
    if case.id not in _PROPERTIES:
        raise NotAvailable(f"no check for the property {case.id}; known are {', '.join(_PROPERTIES)}")
    return _PROPERTIES[case.id](case, device)
