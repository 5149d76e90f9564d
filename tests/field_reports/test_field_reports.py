"""Bugs that users of similar libraries have reported, as tests here. docs/field_reports.md has the whole list.

A report that a test elsewhere already covers is not repeated: the table names that test.
"""

from __future__ import annotations

from typing import Any

import npu_lp
import numpy as np
import pytest
import torch
from checks import assert_same_tensors, ops, spread
from npu_lp import BlockMXConfig, FakeQuantConfig, HiF8Config, LowPrecisionLinear, MXConfig
from npu_lp.config import Config
from torch import Tensor, nn

CONFIGS: dict[str, Config] = {
    "mx": MXConfig(),
    "mx_floor_e5m2": MXConfig("e5m2", "e5m2", "floor", dual_axis_forward=False),
    "block": BlockMXConfig(),
    "block_qat": BlockMXConfig(weight_fake_quant=FakeQuantConfig()),
    "hif8": HiF8Config(),
}
each_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def scale_bytes(scale: Tensor) -> Tensor:
    return scale.view(torch.uint8)


def test_bc_001_floor_saturates_one_element_and_rceil_none() -> None:
    for value in (957.0, 127.9999):
        x = torch.zeros(1, 32)
        x[0, 0] = value
        for rule, want in (("floor", 1), ("rceil", 0)):
            data, scale = ops.mx_quant(x, -1, "e4m3", rule)
            largest = 448.0 * torch.exp2(scale_bytes(scale)[0, 0, 0] - 127.0)
            assert int((x.abs() > largest).sum()) == want
            assert int(((data.view(torch.uint8) & 0x7F) == 0x7E).sum()) == want


@pytest.mark.parametrize("axis", [-1, -2])
def test_bc_006_fp4_takes_the_shared_exponent_from_the_fp32_bits(axis: int) -> None:
    x = torch.full((32, 32), 0.1)
    x[0, 0] = float(np.nextafter(np.float32(2.0), np.float32(0.0)))
    _, scale = ops.mx_quant(x, axis, "e2m1", "floor")
    assert int(scale_bytes(scale).flatten()[0]) == 125


def test_bc_009_each_rounding_gives_its_own_codes_and_an_unknown_one_is_an_error() -> None:
    # Under scale 1, e2m1 has the steps 0.5 and, from 2, 1.
    x = torch.tensor([[4.0, 0.25, 0.75, 1.2, -0.25, -0.75, 2.5, 3.5, -2.5, -1.2, 0.0, 0.0]])
    want = {
        "rint": [4, 0, 1, 1, 0, -1, 2, 4, -2, -1, 0, 0],
        "round": [4, 0.5, 1, 1, -0.5, -1, 3, 4, -3, -1, 0, 0],
        "floor": [4, 0, 0.5, 1, -0.5, -1, 2, 3, -3, -1.5, 0, 0],
    }
    for rounding, values in want.items():
        data, scale = ops.mx_quant(x, -1, "e2m1", "floor", rounding=rounding)
        assert ops.mx_dequant(data, scale, -1, "e2m1", torch.float32).tolist() == [values]
    with pytest.raises(ValueError, match="rounding"):
        ops.mx_quant(x, -1, "e2m1", "floor", rounding="trunc")
    with pytest.raises(ValueError, match="rounding"):
        ops.mx_quant(x, -1, "e4m3", "floor", rounding="floor")


def test_bc_029_routers_stay_and_choose_the_same_experts() -> None:
    torch.manual_seed(0)

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(8, 32, 32))

        def _grouped_mm(self, *, A: Tensor, B_t: Tensor, offs: Tensor) -> Tensor:
            raise AssertionError("converted experts do not call it")

    class MoE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.router = nn.Linear(32, 8, bias=False), nn.Linear(32, 8)
            self.experts, self.shared = Experts(), nn.Linear(32, 32)

    model = nn.ModuleDict({"embed": nn.Embedding(9, 32), "norm": nn.RMSNorm(32), "moe": MoE(), "lm_head": nn.Linear(32, 9)})
    hidden = torch.randn(500, 32)
    moe: Any = model["moe"]
    before = [layer(hidden).topk(2).indices for layer in (moe.gate, moe.router)]
    plan = npu_lp.convert(model, "all_mxfp8")
    assert [entry.fqn for entry in plan.converted] == ["moe.experts", "moe.shared"]
    for layer, ids in zip((moe.gate, moe.router), before, strict=True):
        assert torch.equal(layer(hidden).topk(2).indices, ids)


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "e3m2", "e2m3"])
def test_bc_035_overflow_saturates_in_mx_formats(fmt: str) -> None:
    """The floor rule leaves up to twice the format's maximum under the scale: it becomes the maximum, never Inf or NaN."""
    x = torch.tensor([[2.1e9, -2.1e9, 3.3e38, -3.4028e38]]).repeat_interleave(32, dim=1)
    data, scale = ops.mx_quant(x, -1, fmt, "floor")
    back = ops.mx_dequant(data, scale, -1, fmt, torch.float32)
    assert back.isfinite().all() and torch.equal(back.sign(), x.sign())
    largest = {"e4m3": 448.0, "e5m2": 57344.0, "e3m2": 28.0, "e2m3": 7.5}[fmt]
    limit = largest * torch.exp2(scale_bytes(scale).flatten().float() - 127)
    assert torch.equal(back.abs().view(4, 32)[:, 0], limit)


def test_bc_035_overflow_cannot_happen_under_a_scale_of_the_maximum() -> None:
    x = torch.tensor([[1e9, -1e9, 3.4e38, -3.4e38]])
    for dst_max in (0.0, 15.0, 56.0, 224.0, 32768.0):
        data, scale = ops.hif8_quant(x, dst_max)
        back = ops.hif8_dequant(data, scale, "tensor", torch.float32)
        assert back.isfinite().all()
        torch.testing.assert_close(back[0, 2:], x[0, 2:], rtol=2.0**-3, atol=0)
    for fmt in ("e4m3", "e5m2"):
        data, scale = ops.block_quant(x, 1, 128, fmt)
        assert data.float().isfinite().all() and scale.isfinite().all()


@each_config
@pytest.mark.parametrize("features", [96, 2880])
def test_bc_036_layers_read_no_memory_that_was_not_written(config: Config, features: int) -> None:
    torch.manual_seed(0)
    layer = LowPrecisionLinear(features, 33, config=config, dtype=torch.bfloat16)
    x, dy = torch.randn(5, features, dtype=torch.bfloat16), torch.randn(5, 33, dtype=torch.bfloat16)
    results = []
    for _ in range(20):
        poison = [torch.full((n,), 0xFF, dtype=torch.uint8) for n in (5 * features, 33 * features, 90, 5, 66, 330)]
        del poison
        layer.zero_grad()
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        y.backward(dy)
        assert leaf.grad is not None and layer.weight.grad is not None
        results.append((y.detach(), leaf.grad, layer.weight.grad))
    for again in results:
        assert_same_tensors(again, results[0])
        assert all(t.isfinite().all() for t in again)


def test_bc_052_transposing_and_slicing_codes_with_their_scales() -> None:
    """Codes and scales are plain tensors: what is done to one must be done to the other, and ops check that it was."""
    x = torch.randn(64, 192)
    data, scale = ops.mx_quant(x, -1)
    whole = ops.mx_dequant(data, scale, -1, None, torch.float32)
    transposed = ops.mx_dequant(data.t(), scale.transpose(0, 1), 0, None, torch.float32)
    assert torch.equal(transposed, whole.t())
    assert torch.equal(ops.mx_dequant(data[8:40], scale[8:40], -1, None, torch.float32), whole[8:40])
    # A pair of scales covers 64 elements.
    assert torch.equal(ops.mx_dequant(data[:, 64:192], scale[:, 1:], -1, None, torch.float32), whole[:, 64:192])
    for wrong_data, wrong_scale, axis in (
        (data.t(), scale, -1),
        (data.t(), scale, 0),
        (data.view(96, 128), scale, -1),
        (data[8:40], scale, -1),
        (data[:, 8:40], scale, -1),
    ):
        with pytest.raises(ValueError, match="scale"):
            ops.mx_dequant(wrong_data, wrong_scale, axis, None, torch.float32)


def run_groups(offs: list[int], config: Config, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(rows, 32, requires_grad=True)
    w = torch.randn(len(offs), 48, 32, requires_grad=True)
    y = npu_lp.grouped_linear(x, w, torch.tensor(offs), config)
    y.backward(torch.randn_like(y))
    assert x.grad is not None and w.grad is not None
    return y.detach(), x.grad, w.grad


@each_config
@pytest.mark.parametrize("offs", [[0, 0, 64], [64, 64, 64], [0, 0, 0]], ids=str)
def test_bc_057_experts_without_tokens(config: Config, offs: list[int]) -> None:
    y, dx, dw = run_groups(offs, config, offs[-1])
    assert y.shape == (offs[-1], 48) and dx.shape == (offs[-1], 32)
    for group, (start, end) in enumerate(zip([0, *offs[:-1]], offs, strict=True)):
        assert dw[group].ne(0).any() if end > start else dw[group].eq(0).all()
    assert y.isfinite().all() and dx.isfinite().all()


@each_config
def test_bc_058_an_empty_group_hides_no_later_group(config: Config) -> None:
    offs = torch.tensor([32, 32, 64, 64, 96])
    # Powers of two, and weights that FP4 holds: nothing is rounded in any format.
    x = torch.exp2(torch.arange(96 * 32).remainder(3).float()).view(96, 32).requires_grad_()
    scale = torch.tensor([1.0, 9.0, 2.0, 9.0, 4.0])
    w = (torch.eye(32) * scale[:, None, None]).requires_grad_()
    y = npu_lp.grouped_linear(x, w, offs, config)
    y.sum().backward()
    expert = torch.tensor([1.0, 2.0, 4.0]).repeat_interleave(32)[:, None]
    if isinstance(config, HiF8Config):
        # Its scale, amax / 15 in fp32, is not a power of two.
        torch.testing.assert_close(y, x * expert, rtol=2.0**-3, atol=0)
    else:
        assert torch.equal(y, x * expert)
    assert w.grad is not None
    assert [bool(g.ne(0).any()) for g in w.grad] == [True, False, True, False, True]


@each_config
def test_bc_059_many_empty_groups_equal_a_loop(config: Config) -> None:
    lengths = [0, 0, 5, 0, 0, 0, 27, 0]
    offs = torch.tensor(lengths).cumsum(0)
    torch.manual_seed(0)
    x, w = torch.randn(32, 64), torch.randn(8, 48, 64)
    y = npu_lp.grouped_linear(x, w, offs, config)
    if isinstance(config, HiF8Config):  # one scale for all groups: compared in tests/nn/test_gradients.py
        plain = torch.cat([x[:5] @ w[2].T, x[5:] @ w[6].T])
        assert (y - plain).norm() < 0.1 * plain.norm()
    else:
        want = [npu_lp.autograd.low_precision_matmul(x[:5], w[2], config)]
        want += [npu_lp.autograd.low_precision_matmul(x[5:], w[6], config)]
        assert torch.equal(y, torch.cat(want))
    with pytest.raises(ValueError, match="offs"):
        npu_lp.grouped_linear(x, w, torch.tensor(lengths), config)


@pytest.mark.parametrize("fmt", ["e4m3", "e5m2", "e2m1", "hif8"])
def test_bc_110_codes_and_scales_can_be_handled_as_tensors(fmt: str) -> None:
    """clone, cat, index_select, copy_, zeros_like and printing work on every dtype; comparing goes through uint8 views."""
    x = spread((40, 64), torch.bfloat16, 1, specials=False)
    data, scale = ops.hif8_quant(x, 0.0, "token") if fmt == "hif8" else ops.mx_quant(x, -1, fmt, "floor")

    def back(data: Tensor, scale: Tensor) -> Tensor:
        if fmt == "hif8":
            return ops.hif8_dequant(data, scale, "token", torch.float32)
        return ops.mx_dequant(data, scale, -1, fmt, torch.float32)

    want = back(data, scale)
    assert torch.equal(back(data.clone().detach(), scale.clone().detach()), want)
    assert torch.equal(back(torch.cat([data, data]), torch.cat([scale, scale])), torch.cat([want, want]))
    rows = torch.tensor([3, 1, 39])
    assert torch.equal(back(data.index_select(0, rows), scale.index_select(0, rows)), want[rows])
    copied = torch.zeros_like(data), torch.zeros_like(scale)
    assert back(*copied).eq(0).all()
    copied[0].copy_(data)
    copied[1].copy_(scale)
    assert torch.equal(copied[0].view(torch.uint8), data.view(torch.uint8))
    assert torch.equal(back(*copied), want)
    assert "tensor(" in repr(data) and "tensor(" in repr(scale)
