"""The vector kernels on the twin give the CPU backend's bytes, for random shapes, options and orders of the pipes, and
move each byte between memory and a core once."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import npu_lp
import pytest
import torch
from checks import assert_same_tensors, ops, random_codes, spread
from npu_lp import twin

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
FP8, FP4 = ("e4m3", "e5m2"), ("e2m1", "e1m2")
Tensors = tuple[torch.Tensor, ...]


def same_on_the_twin(rng: Random, call: Callable[[], Tensors]) -> None:
    want = call()
    mode = rng.choice(["order", "shuffled"])
    with (
        npu_lp.backend("twin"),
        twin.options(mode=mode, seed=rng.randrange(1 << 30), cores=rng.choice([1, 2, 32, 32]), record=False),
    ):
        assert_same_tensors(call(), want)


def random_options(rng: Random, *, grouped: bool = False, tiles: bool = False) -> dict[str, Any]:
    fmt = rng.choice(FP8 + FP4)
    options: dict[str, Any] = {"fmt": fmt, "underflow": rng.choice(["ocp", "flush_emax", "flush_subnormal"])}
    rules = ["floor"]
    if fmt in FP8 and not tiles:
        rules.append("rceil")
    if fmt == "e2m1" or (fmt == "e1m2" and grouped):
        rules.append("dtype_range")
    options["scale_rule"] = rng.choice(rules)
    if options["scale_rule"] == "dtype_range":
        maxima = {"e1m2": [0.0, 1.75, 1.875, 2.5], "e2m1": [0.0, 6.0, 7.0] if tiles else [0.0, 6.0, 7.0, 9.5, 12.0]}
        options["dst_max"] = rng.choice(maxima[fmt])
    if fmt in FP4:
        options["rounding"] = rng.choice(["rint", "round", "floor"])
    return options


def random_matrix(rng: Random, options: dict[str, Any], rank: int = 2) -> torch.Tensor:
    rows = rng.choice([rng.randint(1, 150), 64 * rng.randint(1, 3)])
    cols = rng.choice([rng.randint(1, 300), 64 * rng.randint(1, 12), rng.randint(1, 1500)])
    cols += cols % 2 if options.get("fmt") in FP4 else 0
    shape = [rng.randint(1, 3) for _ in range(rank - 2)] + [rows, cols]
    return spread(shape, rng.choice(FLOATS), rng.randrange(1 << 30))


@pytest.mark.parametrize("seed", range(24))
def test_mx_quant(seed: int) -> None:
    rng = Random(seed)
    options = random_options(rng)
    x = random_matrix(rng, options, rng.randint(2, 4))
    axis = rng.randrange(-x.dim(), 0)
    if options["scale_rule"] == "rceil":
        options["max_low_bound"] = rng.choice([0.0, 0.75])
    same_on_the_twin(rng, lambda: ops.mx_quant(x, axis, **options))


@pytest.mark.parametrize("seed", range(16))
def test_mx_quant_dual(seed: int) -> None:
    rng = Random(100 + seed)
    options = random_options(rng)
    x = random_matrix(rng, options, rng.randint(2, 3))
    same_on_the_twin(rng, lambda: ops.mx_quant_dual(x, **options))


@pytest.mark.parametrize("seed", range(16))
def test_mx_quant_block(seed: int) -> None:
    rng = Random(200 + seed)
    options = random_options(rng, tiles=True)
    x = random_matrix(rng, options, rng.randint(2, 3))
    same_on_the_twin(rng, lambda: ops.mx_quant_block(x, **options))


@pytest.mark.parametrize("seed", range(24))
def test_mx_to_block(seed: int) -> None:
    rng = Random(600 + seed)
    options = {"fmt": rng.choice(FP4)}
    shape = random_matrix(rng, options, rng.randint(2, 3)).shape
    data, scale = ops.mx_quant(torch.zeros(shape), -1, **options, scale_rule="floor")
    data = random_codes(data.shape, torch.uint8, rng.randrange(1 << 30), finite=False)
    # Rows of a tile near each other, far from each other, and anything, NaN and the pad bytes included.
    distance = rng.choice([1, 8, 40, 256])
    lowest = rng.choice([0, 256 - distance, rng.randint(0, 256 - distance)])
    above = random_codes(scale.shape, torch.uint8, rng.randrange(1 << 30), finite=False).to(torch.int32) % distance
    scale = (lowest + above).to(torch.uint8).view(scale.dtype)
    to, nan_as_number = rng.choice(FP8), rng.choice([False, True])
    same_on_the_twin(rng, lambda: ops.mx_to_block(data, scale, options["fmt"], to, nan_as_number=nan_as_number))


@pytest.mark.parametrize("seed", range(16))
def test_mx_quant_grouped(seed: int) -> None:
    rng = Random(300 + seed)
    options = random_options(rng, grouped=True)
    x = random_matrix(rng, options)
    ends = sorted(rng.randint(0, x.size(0)) for _ in range(rng.randint(0, 6)))
    if ends and rng.random() < 0.5:
        ends[-1] = x.size(0)
    offs = torch.tensor(ends, dtype=rng.choice([torch.int32, torch.int64]))
    same_on_the_twin(rng, lambda: ops.mx_quant_grouped(x, offs, **options))


@pytest.mark.parametrize("seed", range(24))
def test_mx_dequant(seed: int) -> None:
    rng = Random(400 + seed)
    fmt = rng.choice(FP8 + FP4)
    shape = [rng.randint(1, 2), rng.randint(1, 150), rng.choice([2 * rng.randint(1, 150), 64 * rng.randint(1, 12)])]
    axis = rng.choice([-1, -2])
    _, scale = ops.mx_quant(torch.zeros(shape), axis, fmt=fmt, scale_rule="floor")
    scale = random_codes(scale.shape, torch.uint8, rng.randrange(1 << 30), finite=False).view(scale.dtype)
    storage = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}.get(fmt, torch.uint8)
    if fmt in FP4:
        shape[-1] //= 2
    data = random_codes(shape, torch.uint8, rng.randrange(1 << 30), finite=False).view(storage)
    dtype = rng.choice(FLOATS)
    same_on_the_twin(rng, lambda: (ops.mx_dequant(data, scale, axis, fmt=fmt, out_dtype=dtype),))


@pytest.mark.parametrize("granularity", ["tensor", "token", "channel"])
@pytest.mark.parametrize("seed", range(6))
def test_hif8_quant(granularity: str, seed: int) -> None:
    rng = Random(500 + seed)
    x = random_matrix(rng, {}, rng.randint(2, 3))
    if seed == 0:  # rows that do not fit into UB
        x = spread((2, 40000), torch.float32, 7, specials=False)
    dst_max = rng.choice([0.0, 15.0, 224.0])
    same_on_the_twin(rng, lambda: ops.hif8_quant(x, dst_max, granularity))


def moved(call: Callable[[], Tensors]) -> tuple[int, int]:
    """Return the bytes of all results, and those that the kernels moved between memory and the cores."""
    twin.clear()
    with npu_lp.backend("twin"), twin.options(mode="timing", record=True):
        results = call()
        summaries = [launch.summary() for launch in twin.records()]
    return sum(t.nbytes for t in results), sum(s[pipe][1] for s in summaries for pipe in ("MTE2", "MTE3"))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("fmt", ["e4m3", "e2m1"])
@pytest.mark.parametrize("shape", [(512, 4096), (1024, 7168)])
def test_every_byte_moves_once(shape: tuple[int, int], fmt: str, dtype: torch.dtype) -> None:
    x = torch.zeros(shape, dtype=dtype)
    offs = torch.tensor([shape[0] // 4, shape[0] // 2, shape[0]])
    rule = {"fmt": fmt, "scale_rule": "floor"}
    for call in (
        lambda: ops.mx_quant(x, -1, **rule),
        lambda: ops.mx_quant(x, -2, **rule),
        lambda: ops.mx_quant_dual(x, **rule),
        lambda: ops.mx_quant_block(x, **rule),
        lambda: ops.mx_quant_grouped(x, offs, **rule),
    ):
        written, total = moved(call)
        assert total <= 1.02 * (x.nbytes + written)


@pytest.mark.parametrize("shape", [(512, 4096), (1024, 7168)])
def test_every_byte_of_mx_to_block_moves_once(shape: tuple[int, int]) -> None:
    given = ops.mx_quant(torch.zeros(shape), -1, "e2m1", "floor")
    written, total = moved(lambda: ops.mx_to_block(*given))
    assert total <= 1.02 * (sum(t.nbytes for t in given) + written)
