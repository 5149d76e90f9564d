"""mx_linear and mx_linear_dual: bit for bit the quantizer followed by the matmul, for any sizes, strides and batches."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
import torch
from checks import FLOATS, assert_same_tensors, on_twin, ops, spread
from hypothesis import example, given
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("backend")

SIZES = (0, 1, 2, 31, 32, 33, 63, 64, 65)
E4M3 = torch.float8_e4m3fn


def weight(n: int, k: int, fmt: str = "e4m3", rule: str = "floor", batch: tuple[int, ...] = (), block: int = 32) -> Any:
    """Codes and scales of a weight [N, K], as views [K, N]."""
    data, scale = ops.mx_quant(spread((*batch, n, k), torch.bfloat16, 2), -1, fmt, rule, block)
    return data.mT, scale.transpose(-3, -2)


def two_ops(x: Any, x2: Any, x2_scale: Any, bias: Any = None, fmt: str = "e4m3", rule: str = "rceil", **kw: Any) -> Any:
    """What mx_linear_dual is defined as."""
    block = kw.get("block_size", 32)
    data, scale, data_col, scale_col = ops.mx_quant_dual(x, fmt, rule, block_size=block)
    stored = fmt if data.dtype == torch.uint8 else None
    out = ops.mx_quant_matmul(
        data, x2, scale, x2_scale, bias, kw.get("out_dtype") or x.dtype, x1_fmt=stored, x2_fmt=kw.get("x2_fmt"),
        block_size=block,
    )  # fmt: skip
    return out, data_col, scale_col


def check(x: torch.Tensor, *args: Any, **kw: Any) -> None:
    want = two_ops(x, *args, **kw)
    assert_same_tensors([ops.mx_linear(x, *args, **kw)], want[:1])
    assert_same_tensors(ops.mx_linear_dual(x, *args, **kw), want)


@given(
    m=st.sampled_from(SIZES), n=st.sampled_from(SIZES), k=st.sampled_from((*SIZES, 257, 300)),
    fmt=st.sampled_from(["e4m3", "e5m2"]), rule=st.sampled_from(["floor", "rceil"]), dtype=st.sampled_from(FLOATS),
    out_dtype=st.sampled_from((None, *FLOATS)), with_bias=st.booleans(), seed=st.integers(0, 9),
)  # fmt: skip
@example(m=0, n=33, k=5, fmt="e4m3", rule="rceil", dtype=torch.float32, out_dtype=None, with_bias=True, seed=0)
@example(m=33, n=0, k=65, fmt="e4m3", rule="rceil", dtype=torch.bfloat16, out_dtype=None, with_bias=False, seed=0)
@example(m=33, n=5, k=0, fmt="e5m2", rule="floor", dtype=torch.bfloat16, out_dtype=torch.float32, with_bias=True, seed=0)
def test_any_size(
    m: int,
    n: int,
    k: int,
    fmt: str,
    rule: str,
    dtype: torch.dtype,
    out_dtype: torch.dtype | None,
    with_bias: bool,
    seed: int,
) -> None:
    bias = spread((n,), torch.float32, 5, specials=False) if with_bias else None
    check(spread((m, k), dtype, seed), *weight(n, k), bias, fmt, rule, out_dtype=out_dtype)


@pytest.mark.parametrize("m", [191, 192, 193, 500, 1000])
def test_more_rows_than_a_panel_holds(m: int) -> None:
    x2, scale = weight(7, 96)
    check(spread((m, 96), torch.bfloat16, m), x2, scale)
    check(spread((3, m, 96), torch.bfloat16, m), x2, scale)


def test_threads_change_nothing() -> None:
    x, args = spread((700, 70), torch.bfloat16, 1), weight(300, 70)
    before = torch.get_num_threads()
    want = two_ops(x, *args)
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            assert_same_tensors(ops.mx_linear_dual(x, *args), want)
    finally:
        torch.set_num_threads(before)


STRIDED = {
    "transposed": lambda: spread((70, 260), torch.bfloat16, 1).t(),
    "every second row": lambda: spread((520, 70), torch.float32, 1)[::2],
    "every second column": lambda: spread((260, 140), torch.float16, 1)[:, ::2],
    "part of a wider one": lambda: spread((260, 100), torch.bfloat16, 1)[:, 7:77],
    "one row for all": lambda: spread((1, 70), torch.bfloat16, 1).expand(260, 70),
    "batch inside": lambda: spread((260, 3, 70), torch.bfloat16, 1).transpose(0, 1),
}


@pytest.mark.parametrize("name", STRIDED)
def test_strides_of_x(name: str) -> None:
    check(STRIDED[name](), *weight(33, 70))


def test_layouts_of_the_weight() -> None:
    x = spread((40, 70), torch.bfloat16, 1)
    check(x, *ops.mx_quant(spread((70, 33), torch.bfloat16, 2), -2))  # stored [K, N]
    data, last, first = ops.mx_quant_block(spread((70, 40), torch.bfloat16, 2))
    check(x, *ops.mx_quant(spread((70, 33), torch.float32, 2), -2, "e5m2"))
    check(spread((5, 40), torch.bfloat16, 1), data.mT, last.transpose(-3, -2))
    check(x, data, first)
    wide, scale = ops.mx_quant(spread((70, 66), torch.bfloat16, 2), -2)
    check(x, wide[:, ::2], scale[:, ::2])


@pytest.mark.parametrize(
    ("batch", "second"),
    [((3,), ()), ((3,), (3,)), ((), (3,)), ((2, 1), (3,)), ((2, 3), (2, 3)), ((1,), (3,)), ((3,), (1,)), ((0,), ()),
     ((2,), (0, 1)), ((2, 3), (1, 1))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("m", [1, 33, 100])
def test_batches_broadcast(batch: tuple[int, ...], second: tuple[int, ...], m: int) -> None:
    check(spread((*batch, m, 70), torch.bfloat16, 1), *weight(9, 70, batch=second))


def test_fp4() -> None:
    data, scale = weight(8, 70, "e2m1", "floor")
    x = spread((33, 70), torch.bfloat16, 1)
    check(x, data, scale, None, "e2m1", "floor", x2_fmt="e2m1")
    check(x, data, scale, None, "e2m1", "dtype_range", x2_fmt="e2m1")
    check(x, *weight(8, 70, "e1m2"), None, "e1m2", "floor", x2_fmt="e1m2")


@pytest.mark.parametrize("block", [16, 64, 128])
def test_research_blocks_and_formats(block: int) -> None:
    if on_twin():
        pytest.skip("emulated on the CPU backend only")
    for rows in (33, 300):
        check(spread((rows, 300), torch.bfloat16, 1), *weight(9, 300, block=block), block_size=block)
    check(spread((33, 70), torch.bfloat16, 1), *weight(9, 70, "e2m3"), None, "e3m2", x2_fmt="e2m3")


def test_codes_of_the_size_of_x_are_never_allocated() -> None:
    if on_twin():
        pytest.skip("composed of two ops there")
    m, k, n = 16384, 256, 32
    x2, scale = weight(n, k)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a panel has some tiles for each thread
    for x in (torch.ones(m, k, dtype=torch.bfloat16), torch.ones(k, m, dtype=torch.bfloat16).t()):
        ops.mx_linear(x[:64], x2, scale)
        with torch.profiler.profile(profile_memory=True) as profile:
            out = ops.mx_linear(x, x2, scale)
        allocated = [event.cpu_memory_usage for event in profile.events() if event.name in ("aten::empty", "aten::clone")]
        assert max(allocated) >= out.nbytes, "the profiler saw no allocation"
        assert sum(allocated) < out.nbytes * 2 + m * k // 2 if x.is_contiguous() else max(allocated) <= out.nbytes
    torch.set_num_threads(threads)


def test_gradients_are_refused() -> None:
    x2, scale = weight(9, 70)
    for x, bias in ((torch.ones(5, 70, requires_grad=True), None), (torch.ones(5, 70), torch.ones(9, requires_grad=True))):
        with pytest.raises(RuntimeError, match="mx_linear"):
            ops.mx_linear(x, x2, scale, bias).sum().backward()


def expect(call: Any, *parts: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError)) as caught:
        call()
    message = str(caught.value)
    for part in parts:
        assert re.search(re.escape(part), message), f"{part!r} is not in: {message}"


@pytest.mark.parametrize("op", ["mx_linear", "mx_linear_dual"])
def test_bad_arguments_are_named(op: str) -> None:
    call = getattr(ops, op)
    x, (x2, scale) = torch.ones(5, 70), weight(9, 70)
    for args, kw, parts in (
        ((x.double(), x2, scale), {}, ("x has dtype float64", "bfloat16")),
        ((x, x2, scale, None, "e4m4"), {}, ("e4m4", "e5m2")),
        ((x, x2, scale, None, "e4m3", "up"), {}, ("up", "rceil")),
        ((x, x2, scale, None, "e4m3", "dtype_range"), {}, ("dtype_range",)),
        ((x, x, scale), {}, ("x2 has dtype float32", "mx_quant")),
        ((x, x2, scale.float()), {}, ("x2_scale has dtype float32",)),
        ((x[0], x2, scale), {}, ("x has shape [70]", "x[None]")),
        ((x[:, :64], x2, scale), {}, ("x of shape [5, 64] has K=64", "K=70")),
        ((x, x2, scale[:1]), {}, ("x2_scale has shape [1, 9, 2]", "[2, 9, 2]")),
        ((x, x2, scale, torch.ones(8)), {}, ("bias has shape [8]", "N=9")),
        ((x, x2, scale, torch.ones(9).bfloat16()), {}, ("bias", "bfloat16", "float32")),
        ((x, x2, scale), {"out_dtype": torch.float64}, ("out_dtype=float64",)),
        ((x, x2, scale), {"block_size": 48}, ("block_size=48",)),
        ((x, x2, scale, None, "e2m1", "floor"), {}, ("x is quantized to e2m1", "x2 is e4m3", "FP4 multiplies FP4")),
        ((torch.ones(2, 5, 70), *weight(9, 70, batch=(3,))), {}, ("leading dimensions of x [2, 5, 70]", "x2")),
        ((x, x2.to("meta"), scale), {}, ("x2 is on meta",)),
    ):  # fmt: skip
        expect(partial(call, *args, **kw), op + ":", *parts)
