"""What the device does not have: other block sizes, MXFP6, stochastic rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from checks import FLOATS, assert_bits, assert_same_tensors, e8m0, from_bits, ops, random_codes, random_scales, spread
from reference import bits, matmul, mx
from reference.minifloat import FORMATS

pytestmark = pytest.mark.usefixtures("backend")

SIZES = (16, 64, 128)
MXFP6 = ("e3m2", "e2m3")


def compare(got: Any, want: Any) -> None:
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert_bits(g, w, f"result {i}")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("block_size", SIZES)
def test_other_block_sizes(block_size: int, dtype: torch.dtype) -> None:
    for shape in ((200, 330), (1, 15), (17, 1), (129, 256), (0, 5)):
        x = spread(shape, dtype, 1)
        for axis in (-1, -2):
            for fmt, rule in (("e4m3", "rceil"), ("e5m2", "floor")):
                got = ops.mx_quant(x, axis, fmt, rule, block_size)
                compare(got, mx.mx_quant(x, axis, fmt, rule, block_size))
                back = ops.mx_dequant(*got, axis, fmt, torch.float32, block_size=block_size)
                data, scale = (bits.storage_bits(t) for t in got)
                assert_bits(back, mx.mx_dequant(data, scale, axis, fmt, torch.float32, block_size))
        compare(ops.mx_quant_dual(x, block_size=block_size), mx.mx_quant_dual(x, block_size=block_size))
        offs = [shape[0] // 3, shape[0] // 3, shape[0] // 2]
        got = ops.mx_quant_grouped(x, torch.tensor(offs), block_size=block_size)
        compare(got, mx.mx_quant_grouped(x, offs, block_size=block_size))


@pytest.mark.parametrize("block_size", SIZES)
def test_matmuls_with_other_block_sizes(block_size: int) -> None:
    pairs = math.ceil(300 / (2 * block_size))
    x1, x2 = random_codes((20, 300), torch.float8_e4m3fn, 1), random_codes((300, 12), torch.float8_e5m2, 2)
    s1, s2 = random_scales((20, pairs, 2), 3), random_scales((pairs, 12, 2), 4)
    a = mx.dequantize_values(bits.storage_bits(x1), bits.storage_bits(s1), -1, "e4m3", block_size)
    b = mx.dequantize_values(bits.storage_bits(x2), bits.storage_bits(s2), -2, "e5m2", block_size)
    got = ops.mx_quant_matmul(x1, x2, s1, s2, out_dtype=torch.float32, block_size=block_size)
    assert_bits(got, matmul.matmul(a, b, None, torch.float32))

    x, dy = spread((300, 20), torch.bfloat16, 5, specials=False), spread((300, 12), torch.bfloat16, 6, specials=False)
    ends = [70, 70, 270]
    offs = torch.tensor(ends)
    (xq, xs), (dq, ds) = (ops.mx_quant_grouped(t, offs, block_size=block_size) for t in (x, dy))
    got = ops.mx_grouped_matmul(xq.t(), dq, xs, ds, offs, "k", torch.float32, block_size=block_size)

    def part(data: torch.Tensor, scale: torch.Tensor, group: int, start: int, end: int) -> np.ndarray:
        first = start // (2 * block_size) + group
        rows = scale[first : first + math.ceil((end - start) / (2 * block_size))]
        stored = bits.storage_bits(data[start:end]), bits.storage_bits(rows)
        return mx.dequantize_values(*stored, 0, "e4m3", block_size)

    want = matmul.grouped_matmul_k(
        lambda g, start, end: part(xq, xs, g, start, end).T,
        lambda g, start, end: part(dq, ds, g, start, end),
        ends, (20, 12), torch.float32,
    )  # fmt: skip
    assert_bits(got, want)


@pytest.mark.parametrize("fmt", MXFP6)
@pytest.mark.parametrize("dtype", FLOATS)
def test_mxfp6(dtype: torch.dtype, fmt: str) -> None:
    x = spread((200, 330), dtype, 2)
    for rule in ("floor", "rceil"):
        for axis in (-1, -2):
            compare(ops.mx_quant(x, axis, fmt, rule), mx.mx_quant(x, axis, fmt, rule))
    codes = np.arange(64, dtype=np.uint8)[:, None]
    got = ops.mx_dequant(torch.from_numpy(codes), e8m0(np.full((64, 1, 2), 127)), -1, fmt, torch.float32)
    assert_bits(got, bits.round_to_dtype_bits(FORMATS[fmt].decode(codes), torch.float32))


@pytest.mark.parametrize("fmt", MXFP6)
def test_mxfp6_matmul(fmt: str) -> None:
    a, b = spread((20, 130), torch.bfloat16, 3, specials=False), spread((130, 12), torch.bfloat16, 4, specials=False)
    (x1, s1), (x2, s2) = ops.mx_quant(a, -1, fmt, "rceil"), ops.mx_quant(b, -2, fmt, "rceil")
    got = ops.mx_quant_matmul(x1, x2, s1, s2, x1_fmt=fmt, x2_fmt=fmt)
    va = mx.dequantize_values(bits.storage_bits(x1), bits.storage_bits(s1), -1, fmt)
    vb = mx.dequantize_values(bits.storage_bits(x2), bits.storage_bits(s2), -2, fmt)
    assert_bits(got, matmul.matmul(va, vb))


STOCHASTIC = [("e4m3", "rceil"), ("e5m2", "floor"), ("e2m1", "floor"), ("e1m2", "floor"), ("e3m2", "floor")]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("fmt", "rule"), STOCHASTIC)
def test_stochastic_rounding_takes_one_of_the_two_neighbours_and_keeps_the_mean(fmt: str, rule: str) -> None:
    """Field report BC-026: each element of 40,000 blocks, mean within 4 sigma; exact values never move."""
    top = FORMATS[fmt].max_value
    elements = np.array([top, 0.3, -0.3, 1.0, 0.51, -1.26, 0.01, 0.0, -0.0, 1.375, top * 0.77, 0.125])
    x = torch.from_numpy(np.tile(elements, (40_000, 1))).float()
    data, scale = ops.mx_quant(x, -1, fmt, rule, rounding="stochastic", generator=seeded(1))
    got = ops.mx_dequant(data, scale, -1, fmt, torch.float32).numpy().astype(np.float64)
    unit = float(bits.fp32_values(np.array(int(scale.view(torch.uint8)[0, 0, 0]) << 23)))
    grid = np.unique(FORMATS[fmt].decode(np.arange(1 << FORMATS[fmt].bits)))
    grid = grid[np.isfinite(grid)] * unit
    for i, exact in enumerate(bits.values(x[0])):
        low, high = grid[grid <= exact].max(), grid[grid >= exact].min()
        column = got[:, i]
        assert set(np.unique(column)) <= {low, high}
        sigma = math.sqrt((exact - low) * (high - exact) / len(column))
        assert abs(column.mean() - exact) <= 4 * sigma


def test_stochastic_rounding_follows_its_generator() -> None:
    """Field report BC-027: equal seeds give equal bits, successive calls differ, torch.manual_seed is obeyed."""
    x = spread((64, 96), torch.bfloat16, 5, specials=False)

    def call(generator: torch.Generator | None) -> Any:
        return ops.mx_quant(x, -1, "e4m3", "rceil", rounding="stochastic", generator=generator)

    generator = seeded(3)
    first, second = call(generator), call(generator)
    assert_same_tensors(call(seeded(3)), first)
    assert (first[0].view(torch.uint8) != second[0].view(torch.uint8)).any()
    assert (call(seeded(4))[0].view(torch.uint8) != first[0].view(torch.uint8)).any()
    torch.manual_seed(7)
    default = call(None)
    state = torch.get_rng_state()
    after = call(None)
    torch.manual_seed(7)
    assert_same_tensors(call(None), default)
    torch.set_rng_state(state)
    assert_same_tensors(call(None), after)


@pytest.mark.usefixtures("restore_threads")
def test_stochastic_rounding_does_not_depend_on_threads_or_strides() -> None:
    x = spread((300, 260), torch.bfloat16, 6, specials=False)
    for call in (
        lambda t: ops.mx_quant(t, -1, rounding="stochastic", generator=seeded(1)),
        lambda t: ops.mx_quant(t, -2, rounding="stochastic", generator=seeded(1)),
        lambda t: ops.mx_quant_dual(t, rounding="stochastic", generator=seeded(1)),
        lambda t: ops.mx_quant_grouped(t, torch.tensor([70, 70, 200]), rounding="stochastic", generator=seeded(1)),
    ):
        torch.set_num_threads(1)
        want = call(x)
        for threads in (2, 3, 7):
            torch.set_num_threads(threads)
            assert_same_tensors(call(x), want)
            assert_same_tensors(call(x.t().contiguous().t()), want)


def test_neighbouring_elements_draw_independent_numbers() -> None:
    """Correlation of the rounding of 0.3 in neighbouring elements, rows and blocks is noise."""
    x = torch.full((4096, 64), 0.3)
    x[:, ::32] = 6.0
    data, _ = ops.mx_quant(x, -1, "e2m1", "floor", rounding="stochastic", generator=seeded(2))
    scale = e8m0(np.full((4096, 1, 2), 127))
    up = ops.mx_dequant(data, scale, -1, "e2m1", torch.float32).numpy() == 0.5
    columns = [c for c in range(64) if c % 32]
    centred = up[:, columns] - 0.6
    sigma = 0.24 / math.sqrt(4096)
    for a, b in ((centred[:, :-1], centred[:, 1:]), (centred[:, :31], centred[:, 31:]), (centred[:-1], centred[1:])):
        covariance = (a * b).mean(axis=0)
        assert np.abs(covariance).max() <= 5 * sigma


def test_seeds_cannot_be_given_where_nothing_is_random() -> None:
    x = torch.ones(4, 32)
    before = torch.get_rng_state()
    ops.mx_quant(x)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_not_offered_is_an_error() -> None:
    for block_size in (0, 8, 33, 256, -32):
        with pytest.raises(ValueError, match=f"block_size.*{block_size}|{block_size}.*block_size"):
            ops.mx_quant(torch.ones(4, 32), block_size=block_size)
    scale = ops.mx_quant(torch.ones(4, 100))[1]
    with pytest.raises(ValueError, match="scale"):
        ops.mx_dequant(from_bits(np.zeros((4, 100)), torch.float8_e4m3fn), scale, block_size=16)
