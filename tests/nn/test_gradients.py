"""Outputs and gradients of the layers against float64, within a bound derived from the fp32 accumulation."""

from __future__ import annotations

import dataclasses
import itertools

import layer_reference as reference
import npu_lp
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from npu_lp import BlockMXConfig, FakeQuantConfig, HiF8Config, LowPrecisionLinear, MXConfig
from npu_lp.autograd import low_precision_matmul
from npu_lp.autograd.hadamard import rotate
from npu_lp.config import GEMMS, Config
from reference import bits

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
QAT = FakeQuantConfig()
CONFIGS: dict[str, Config] = {
    **reference.CONFIGS,
    "block_qat": BlockMXConfig(weight_fake_quant=QAT),
    "block_qat_7": BlockMXConfig(weight_fake_quant=FakeQuantConfig(dst_max=7.0), dual_axis_forward=False),
    "block_qat_e1m2": BlockMXConfig(weight_fake_quant=FakeQuantConfig("e1m2", "floor")),
    "hif8": HiF8Config(),
    "hif8_full_range": HiF8Config(dst_max=0.0, grad_dst_max=32768.0),
}
KEPT = tuple(kept for n in range(4) for kept in itertools.combinations(GEMMS, n))
SIZES = (0, 1, 7, 31, 32, 33, 63, 64, 65, 77)
LONG = (257, 300, 513)
# Of each config; HYPOTHESIS_PROFILE=thorough looks ten times longer.
EXAMPLES = settings().max_examples // 5


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int, int]:
    """M, K, N: any of SIZES, at most one of them longer than a segment of the accumulation."""
    m, k, n = (draw(st.sampled_from(SIZES)) for _ in range(3))
    which = draw(st.sampled_from((None, 0, 1, 2)))
    long = draw(st.sampled_from(LONG))
    return (long if which == 0 else m, long if which == 1 else k, long if which == 2 else n)


def leaf(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    return reference.operand(shape, dtype, seed).requires_grad_()


def run_matmul(batch: tuple[int, ...], m: int, k: int, n: int, dtype: torch.dtype, config: Config) -> None:
    x, w = leaf((*batch, m, k), dtype, 1), leaf((*batch, n, k), dtype, 2)
    y = low_precision_matmul(x, w, config)
    dy = reference.operand((*batch, m, n), dtype, 3)
    y.backward(dy)
    for want, got, what in zip(reference.linear(x, w, dy, config), (y, x.grad, w.grad), ("y", "dx", "dw"), strict=True):
        assert got is not None and got.dtype == dtype
        want.check(got, what)


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=EXAMPLES)
@given(shape=shapes(), dtype=st.sampled_from(FLOATS))
@example(shape=(33, 257, 65), dtype=torch.float32)
@example(shape=(300, 33, 31), dtype=torch.bfloat16)
@example(shape=(31, 65, 513), dtype=torch.float32)
@example(shape=(0, 64, 33), dtype=torch.bfloat16)
@example(shape=(33, 0, 5), dtype=torch.bfloat16)
@example(shape=(33, 5, 0), dtype=torch.float16)
def test_matmul_of_any_shape(name: str, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    run_matmul((), *shape, dtype, CONFIGS[name])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: "+".join(kept) or "none")
def test_each_matmul_can_stay_in_high_precision(name: str, kept: tuple[npu_lp.config.GemmName, ...]) -> None:
    config = dataclasses.replace(CONFIGS[name], high_precision_gemms=kept)
    run_matmul((), 33, 65, 31, torch.bfloat16, config)
    run_matmul((), 40, 31, 66, torch.float32, config)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    ("batch", "shape"), [((3,), (33, 65, 31)), ((2, 2), (5, 34, 7)), ((2,), (0, 8, 3)), ((0,), (4, 8, 3))], ids=str
)
def test_a_batch_of_weights(name: str, batch: tuple[int, ...], shape: tuple[int, int, int]) -> None:
    for dtype in (torch.bfloat16, torch.float32):
        run_matmul(batch, *shape, dtype, CONFIGS[name])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("leading", [(), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)], ids=str)
def test_linear_with_bias_and_any_leading_dims(name: str, dtype: torch.dtype, leading: tuple[int, ...]) -> None:
    config = CONFIGS[name]
    layer = LowPrecisionLinear(33, 65, config=config, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(reference.operand((65, 33), dtype, 1))
        layer.bias.copy_(reference.operand((1, 65), dtype, 2)[0])
    rows = int(np.prod(leading))
    x = reference.operand((rows, 33), dtype, 3).view(*leading, 33).requires_grad_()
    y = layer(x)
    dy = reference.operand((rows, 65), dtype, 4).view(*leading, 65)
    y.backward(dy)
    assert y.shape == (*leading, 65) and x.grad is not None and x.grad.shape == x.shape

    flat, flat_dy = x.detach().reshape(rows, 33), dy.reshape(rows, 65)
    want_y, want_dx, want_dw = reference.linear(flat, layer.weight, flat_dy, config)
    want_y.plus(bits.values(layer.bias.detach())).rounded(dtype).check(y.reshape(rows, 65), "y")
    want_dx.check(x.grad.reshape(rows, 33), "dx")
    assert layer.weight.grad is not None and layer.bias.grad is not None
    want_dw.check(layer.weight.grad, "dw")
    reference.high_product(np.ones((1, rows)), bits.values(flat_dy)).rounded(dtype).check(layer.bias.grad[None], "db")


SIZE_LISTS = st.lists(st.sampled_from((0, 0, 1, 31, 32, 33, 64, 65)), min_size=1, max_size=5)


def run_grouped(sizes: list[int], tail: int, k: int, n: int, dtype: torch.dtype, config: Config) -> None:
    """Rows past the last offset hold NaN in x and dy: a leak into anything is a NaN there."""
    total = sum(sizes)
    x = reference.operand((total + tail, k), dtype, 1)
    dy = reference.operand((total + tail, n), dtype, 2)
    x[total:], dy[total:] = float("nan"), float("nan")
    x.requires_grad_()
    w = leaf((len(sizes), n, k), dtype, 3)
    offs = torch.tensor(sizes).cumsum(0).to(torch.int32)
    y = npu_lp.grouped_linear(x, w, offs, config)
    y.backward(dy)
    for want, got, what in zip(
        reference.grouped(x, w, dy, sizes, config), (y, x.grad, w.grad), ("y", "dx", "dw"), strict=True
    ):
        assert got is not None and got.dtype == dtype
        want.check(got, what)


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=EXAMPLES)
@given(
    sizes=SIZE_LISTS, tail=st.sampled_from((0, 3, 40)), k=st.sampled_from(SIZES), n=st.sampled_from(SIZES),
    dtype=st.sampled_from(FLOATS),
)  # fmt: skip
@example(sizes=[0, 0, 0], tail=0, k=33, n=31, dtype=torch.bfloat16)
@example(sizes=[0, 0, 0], tail=7, k=33, n=31, dtype=torch.bfloat16)
@example(sizes=[300, 0, 5], tail=7, k=31, n=33, dtype=torch.float32)
@example(sizes=[0, 40], tail=0, k=0, n=3, dtype=torch.bfloat16)
@example(sizes=[0, 40], tail=1, k=3, n=0, dtype=torch.bfloat16)
@example(sizes=[1, 0, 65], tail=3, k=300, n=2, dtype=torch.float16)
def test_grouped_linear_of_any_groups(
    name: str, sizes: list[int], tail: int, k: int, n: int, dtype: torch.dtype
) -> None:
    run_grouped(sizes, tail, k, n, dtype, CONFIGS[name])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: "+".join(kept) or "none")
def test_each_grouped_matmul_can_stay_in_high_precision(name: str, kept: tuple[npu_lp.config.GemmName, ...]) -> None:
    config = dataclasses.replace(CONFIGS[name], high_precision_gemms=kept)
    run_grouped([33, 0, 5, 40], 9, 65, 31, torch.bfloat16, config)
    run_grouped([0, 7], 2, 0, 5, torch.float32, config)
    run_grouped([0, 7], 2, 5, 0, torch.float16, config)
    run_grouped([0, 0], 0, 6, 5, torch.float32, config)


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: "+".join(kept) or "none")
@pytest.mark.parametrize("bad", [[5, 3], [5, 20], [-1, 4]], ids=str)
@pytest.mark.parametrize("name", ["mx", "block_qat", "hif8"])
def test_bad_offsets_are_an_error_whatever_is_quantized(
    name: str, bad: list[int], kept: tuple[npu_lp.config.GemmName, ...]
) -> None:
    config = dataclasses.replace(CONFIGS[name], high_precision_gemms=kept)
    with pytest.raises(ValueError, match="offs"):
        npu_lp.grouped_linear(torch.ones(8, 32), torch.ones(2, 16, 32), torch.tensor(bad), config)


@pytest.mark.parametrize("name", [name for name, config in CONFIGS.items() if not isinstance(config, HiF8Config)])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_quantizing_both_axes_in_forward_or_one_in_backward_gives_the_same_bits(name: str, dtype: torch.dtype) -> None:
    results = []
    for dual in (True, False):
        config = dataclasses.replace(CONFIGS[name], dual_axis_forward=dual)
        x, w = leaf((70, 65), dtype, 1), leaf((33, 65), dtype, 2)
        y = low_precision_matmul(x, w, config)
        y.backward(reference.operand((70, 33), dtype, 3))
        gx, gw = leaf((70, 65), dtype, 1), leaf((2, 33, 65), dtype, 2)
        gy = npu_lp.grouped_linear(gx, gw, torch.tensor([40, 65]), config)
        gy.backward(reference.operand((70, 33), dtype, 3))
        results.append((y, x.grad, w.grad, gy, gx.grad, gw.grad))
    for one, other in zip(*results, strict=True):
        assert one is not None and other is not None and torch.equal(one, other)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kept", [(), GEMMS], ids=["low", "high"])
def test_operands_of_any_stride_give_the_bits_of_contiguous_ones(
    name: str, kept: tuple[npu_lp.config.GemmName, ...]
) -> None:
    config = dataclasses.replace(CONFIGS[name], high_precision_gemms=kept)
    x, w, dy = (reference.operand(shape, torch.bfloat16, seed) for seed, shape in enumerate(((40, 65), (99, 65), (40, 33))))
    offs = torch.tensor([7, 7, 35])

    def strided(t: torch.Tensor) -> torch.Tensor:
        return torch.stack([t, t + 1], -1).transpose(0, 1).contiguous().transpose(0, 1)[..., 0]

    results = []
    for change in (torch.clone, strided):
        cx, cw = change(x).requires_grad_(), change(w).requires_grad_()
        low_precision_matmul(cx, cw[:33], config).backward(change(dy))
        gx, gw = change(x).requires_grad_(), change(w).requires_grad_()
        npu_lp.grouped_linear(gx, gw.unflatten(0, (33, 3)).transpose(0, 1), offs, config).backward(change(dy))
        results.append((cx.grad, cw.grad, gx.grad, gw.grad))
    for one, other in zip(*results, strict=True):
        assert one is not None and other is not None
        if kept:  # torch's own matmuls, whose order of summation may depend on strides
            torch.testing.assert_close(one, other)
        else:
            assert torch.equal(one, other)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("special", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_inf_show_in_every_result_that_they_touch(name: str, special: float) -> None:
    config = CONFIGS[name]
    for which in range(3):
        x, w, dy = (reference.operand(shape, torch.float32, 5) for shape in ((40, 64), (36, 64), (40, 36)))
        (x, w, dy)[which][3, 5] = special
        x.requires_grad_()
        w.requires_grad_()
        y = low_precision_matmul(x, w, config)
        y.backward(dy)
        assert x.grad is not None and w.grad is not None
        results = {"y": y, "dx": x.grad, "dw": w.grad}
        touched = (("y", "dw"), ("y", "dx"), ("dx", "dw"))[which]
        for what, result in results.items():
            assert result.isfinite().all() == (what not in touched)
        if which == 0:
            assert not y[3].isfinite().any()
            if isinstance(config, MXConfig | BlockMXConfig):  # HiF8 has one scale for all rows
                assert y[4:].isfinite().all()


def saved_bytes(config: Config) -> int:
    total = 0

    def pack(t: torch.Tensor) -> torch.Tensor:
        nonlocal total
        total += t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        low_precision_matmul(leaf((64, 128), torch.bfloat16, 1), leaf((64, 128), torch.bfloat16, 2), config)
    return total


def test_dual_axis_forward_saves_codes_and_scales_only() -> None:
    operands = 64 * 128 * 2
    assert saved_bytes(MXConfig(dual_axis_forward=True)) == operands * (1 + 1 / 32)
    assert saved_bytes(MXConfig(dual_axis_forward=False)) == operands * 2
    assert saved_bytes(HiF8Config()) == operands + 2 * 4


@pytest.mark.parametrize("name", CONFIGS)
def test_only_the_gradients_that_are_needed_are_computed(name: str) -> None:
    config = CONFIGS[name]
    full = [leaf((33, 34), torch.bfloat16, 1), leaf((20, 34), torch.bfloat16, 2)]
    dy = reference.operand((33, 20), torch.bfloat16, 3)
    low_precision_matmul(*full, config).backward(dy)
    for needed in (0, 1):
        part = [t.detach().clone().requires_grad_(i == needed) for i, t in enumerate(full)]
        low_precision_matmul(*part, config).backward(dy)
        got, want = part[needed].grad, full[needed].grad
        assert got is not None and want is not None and torch.equal(got, want)
        assert part[1 - needed].grad is None


def test_the_straight_through_gradient_of_qat_is_that_of_the_quantized_weight() -> None:
    config = BlockMXConfig(weight_fake_quant=QAT)
    plain = BlockMXConfig()
    grads = []
    for c in (config, plain):
        x, w = leaf((33, 64), torch.float32, 1), leaf((32, 64), torch.float32, 2)
        low_precision_matmul(x, w, c).backward(reference.operand((33, 32), torch.float32, 3))
        grads.append((x.grad, w.grad))
    assert torch.equal(grads[0][1], grads[1][1])  # type: ignore[arg-type]
    assert not torch.equal(grads[0][0], grads[1][0])  # type: ignore[arg-type]


@pytest.mark.parametrize("axis", [-1, -2, 0])
def test_the_hadamard_rotation_is_orthonormal_and_leaves_the_rest_of_a_block(axis: int) -> None:
    x = torch.randn(70, 70, 70, dtype=torch.float64)
    moved, rotated = x.movedim(axis, -1), rotate(x, axis).movedim(axis, -1)
    assert torch.equal(moved[..., 64:], rotated[..., 64:])
    torch.testing.assert_close(rotate(rotate(x, axis), axis), x)
    sizes = [moved[..., i : i + 32].norm(dim=-1) for i in (0, 32)], [rotated[..., i : i + 32].norm(dim=-1) for i in (0, 32)]
    torch.testing.assert_close(*sizes)
    # The first element of each block becomes its mean times the root of 32.
    torch.testing.assert_close(rotated[..., 32], moved[..., 32:64].sum(-1) / 32**0.5)


def test_stochastic_gradients_are_seedable_and_right_on_average() -> None:
    config = MXConfig(grad_rounding="stochastic")
    w = torch.eye(32)
    dy = torch.full((64, 32), 1.03)
    dy[0] = 448.0

    def dx(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        x = torch.ones(64, 32, requires_grad=True)
        low_precision_matmul(x, w, config).backward(dy)
        assert x.grad is not None
        return x.grad

    assert torch.equal(dx(1), dx(1))
    assert not torch.equal(dx(1), dx(2))
    rest = torch.stack([dx(seed)[1:] for seed in range(50)])
    # The block of 1.03 has the scale 2^-8, under which codes are 2^-3 / 1 of 1 apart: values 1 and 1.125.
    assert set(rest.unique().tolist()) == {1.0, 1.125}
    share = 0.03 / 0.125
    deviation = 0.125 * (share * (1 - share) / rest.numel()) ** 0.5
    assert abs(rest.mean().item() - 1.03) < 4 * deviation
