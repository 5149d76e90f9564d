"""Bad arguments: an error before any work that says what was given, what is allowed and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from checks import e8m0, ops, random_codes, random_scales

pytestmark = pytest.mark.usefixtures("backend")

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
X = torch.ones(64, 96, dtype=torch.bfloat16)
OFFS = torch.tensor([32, 64], dtype=torch.int32)


def expect(call: Callable[[], Any], *parts: str) -> None:
    """The call raises, and its message contains all of the parts."""
    with pytest.raises((ValueError, RuntimeError, TypeError, IndexError, NotImplementedError)) as caught:
        call()
    message = str(caught.value)
    for part in parts:
        assert re.search(re.escape(part), message, re.IGNORECASE), f"{part!r} is not in: {message}"


QUANTIZERS: dict[str, Callable[..., object]] = {
    "mx_quant": lambda x=X, **kw: ops.mx_quant(x, **kw),
    "mx_quant_dual": lambda x=X, **kw: ops.mx_quant_dual(x, **kw),
    "mx_quant_grouped": lambda x=X, **kw: ops.mx_quant_grouped(x, OFFS, **kw),
}


@pytest.mark.parametrize("op", QUANTIZERS)
class TestEveryQuantizer:
    def test_dtype(self, op: str) -> None:
        for dtype in (torch.float64, torch.int32, torch.uint8, E4M3):
            x = torch.ones(64, 96).to(dtype)
            expect(partial(QUANTIZERS[op], x), op, str(dtype).removeprefix("torch."), "bfloat16")

    def test_unknown_format(self, op: str) -> None:
        expect(lambda: QUANTIZERS[op](fmt="e4m4"), op, "e4m4", "e4m3", "e5m2")

    def test_hif8_is_no_mx_format(self, op: str) -> None:
        expect(lambda: QUANTIZERS[op](fmt="hif8"), op, "hif8", "e4m3")

    def test_unknown_scale_rule(self, op: str) -> None:
        expect(lambda: QUANTIZERS[op](scale_rule="ceil"), op, "ceil", "floor", "rceil")

    def test_dtype_range_is_for_fp4(self, op: str) -> None:
        expect(lambda: QUANTIZERS[op](scale_rule="dtype_range"), op, "dtype_range", "e4m3")

    def test_unknown_rounding(self, op: str) -> None:
        expect(lambda: QUANTIZERS[op](rounding="nearest"), op, "nearest", "rint")

    def test_fp8_has_one_rounding(self, op: str) -> None:
        expect(lambda: QUANTIZERS[op](rounding="floor"), op, "floor", "rint")

    def test_unknown_underflow(self, op: str) -> None:
        expect(lambda: QUANTIZERS[op](underflow="zero"), op, "zero", "ocp", "flush_emax", "flush_subnormal")

    def test_dst_max_is_for_dtype_range(self, op: str) -> None:
        expect(lambda: QUANTIZERS[op](dst_max=6.0), op, "dst_max", "6")


def test_axis_out_of_range() -> None:
    for axis in (2, -3, 17):
        expect(partial(ops.mx_quant, X, axis), "mx_quant", "axis", str(axis))


def test_a_scalar_has_no_axis() -> None:
    expect(lambda: ops.mx_quant(torch.tensor(1.0)), "mx_quant", "dim")


@pytest.mark.parametrize("block_size", [0, -32, 33, 48])
def test_block_size(block_size: int) -> None:
    expect(lambda: ops.mx_quant(X, block_size=block_size), "mx_quant", "block_size", str(block_size))


def test_max_low_bound() -> None:
    expect(lambda: ops.mx_quant(X, max_low_bound=-1.0), "mx_quant", "max_low_bound", "-1")
    expect(lambda: ops.mx_quant(X, max_low_bound=float("nan")), "mx_quant", "max_low_bound")
    expect(lambda: ops.mx_quant(X, scale_rule="floor", max_low_bound=1.0), "mx_quant", "max_low_bound", "rceil")


def test_dual_needs_two_dims() -> None:
    expect(lambda: ops.mx_quant_dual(torch.ones(64)), "mx_quant_dual", "[64]", "two")


def test_grouped_takes_a_matrix() -> None:
    for shape in ((64,), (2, 64, 96)):
        x = torch.ones(shape)
        expect(partial(ops.mx_quant_grouped, x, OFFS), "mx_quant_grouped", "2-D", str(list(shape)))


def scaled(m: int, k: int, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    pairs = -(-k // 64)
    return (
        random_codes((m, k), E4M3, 1), random_codes((k, n), E4M3, 2),
        random_scales((m, pairs, 2), 3), random_scales((pairs, n, 2), 4),
    )  # fmt: skip


def grouped(split: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    if split == "m":
        return (
            random_codes((64, 70), E4M3, 1), random_codes((2, 70, 9), E4M3, 2),
            random_scales((64, 2, 2), 3), random_scales((2, 2, 9, 2), 4),
        )  # fmt: skip
    return (
        random_codes((64, 70), E4M3, 1).t(), random_codes((64, 9), E4M3, 2),
        random_scales((64 // 64 + 2, 70, 2), 3), random_scales((64 // 64 + 2, 9, 2), 4),
    )  # fmt: skip


OFFS_USERS: dict[str, Callable[[torch.Tensor], object]] = {
    "mx_quant_grouped": lambda offs: ops.mx_quant_grouped(X, offs),
    "mx_grouped_matmul m": lambda offs: ops.mx_grouped_matmul(*grouped("m"), offs, "m"),
    "mx_grouped_matmul k": lambda offs: ops.mx_grouped_matmul(*grouped("k"), offs, "k"),
}


@pytest.mark.parametrize("user", OFFS_USERS)
class TestOffsets:
    def test_decreasing(self, user: str) -> None:
        offs = torch.tensor([40, 32], dtype=torch.int32)
        expect(lambda: OFFS_USERS[user](offs), user.split()[0], "offs", "40", "32")

    def test_negative(self, user: str) -> None:
        expect(lambda: OFFS_USERS[user](torch.tensor([-1, 32])), user.split()[0], "offs", "-1")

    def test_beyond_the_rows(self, user: str) -> None:
        expect(lambda: OFFS_USERS[user](torch.tensor([32, 65])), user.split()[0], "offs", "65", "64")

    def test_beyond_int32(self, user: str) -> None:
        expect(lambda: OFFS_USERS[user](torch.tensor([32, 2**32 + 64])), user.split()[0], "offs", str(2**32 + 64), "64")

    def test_dtype(self, user: str) -> None:
        expect(lambda: OFFS_USERS[user](torch.tensor([32.0, 64.0])), user.split()[0], "offs", "float", "int32", "int64")

    def test_rank(self, user: str) -> None:
        expect(lambda: OFFS_USERS[user](torch.tensor([[32, 64]])), user.split()[0], "offs", "1")

    def test_another_device(self, user: str) -> None:
        expect(lambda: OFFS_USERS[user](OFFS.to("meta")), "meta", "cpu")


def test_lengths_given_for_end_offsets_are_noticed_when_they_decrease() -> None:
    """Field report BC-059: group_lens [0,0,5,0,0,0,27,0] are not end offsets."""
    lengths = torch.tensor([0, 0, 5, 0, 0, 0, 27, 0])
    expect(lambda: ops.mx_quant_grouped(torch.ones(32, 8), lengths), "offs", "end")


class TestMatmul:
    def test_operand_dtype(self) -> None:
        x1, x2, s1, s2 = scaled(4, 70, 5)
        expect(lambda: ops.mx_quant_matmul(x1.float(), x2, s1, s2), "mx_quant_matmul", "x1", "float", "float8_e4m3fn")
        expect(lambda: ops.mx_quant_matmul(x1, x2.bfloat16(), s1, s2), "mx_quant_matmul", "x2", "bfloat16")

    def test_bytes_without_a_format(self) -> None:
        x1, x2, s1, s2 = scaled(4, 70, 5)
        expect(lambda: ops.mx_quant_matmul(x1.view(torch.uint8), x2, s1, s2), "mx_quant_matmul", "x1", "fmt")

    def test_inner_sizes(self) -> None:
        x1, _, s1, _ = scaled(4, 70, 5)
        _, x2, _, s2 = scaled(4, 64, 5)
        expect(lambda: ops.mx_quant_matmul(x1, x2, s1, s2), "mx_quant_matmul", "70", "64")

    def test_rank(self) -> None:
        x1, x2, s1, s2 = scaled(4, 70, 5)
        expect(lambda: ops.mx_quant_matmul(x1[0], x2, s1[0], s2), "mx_quant_matmul", "x1", "1")

    def test_batches_that_do_not_broadcast(self) -> None:
        x1, x2, s1, s2 = scaled(4, 70, 5)
        expect(
            lambda: ops.mx_quant_matmul(x1.expand(2, 4, 70), x2.expand(3, 70, 5), s1.expand(2, -1, -1, -1),
                                        s2.expand(3, -1, -1, -1)),
            "mx_quant_matmul", "2", "3",
        )  # fmt: skip

    def test_scale_shape(self) -> None:
        x1, x2, s1, s2 = scaled(4, 70, 5)
        expect(lambda: ops.mx_quant_matmul(x1, x2, s1[:, :1], s2), "mx_quant_matmul", "x1_scale", "[4, 1, 2]", "[4, 2, 2]")
        expect(lambda: ops.mx_quant_matmul(x1, x2, s1, s2.mT), "mx_quant_matmul", "x2_scale", "[2, 5, 2]")
        expect(lambda: ops.mx_quant_matmul(x1, x2, s1, s1), "mx_quant_matmul", "x2_scale", "[4, 2, 2]", "[2, 5, 2]")

    def test_scale_dtype(self) -> None:
        x1, x2, s1, s2 = scaled(4, 70, 5)
        expect(lambda: ops.mx_quant_matmul(x1, x2, s1.view(torch.uint8), s2), "x1_scale", "float8_e8m0fnu")
        expect(lambda: ops.mx_quant_matmul(x1, x2, s1, s2.float()), "x2_scale", "float8_e8m0fnu")

    def test_bias(self) -> None:
        args = scaled(4, 70, 5)
        expect(lambda: ops.mx_quant_matmul(*args, bias=torch.ones(5).bfloat16()), "bias", "bfloat16", "float32")
        expect(lambda: ops.mx_quant_matmul(*args, bias=torch.ones(4)), "bias", "4", "5")
        expect(lambda: ops.mx_quant_matmul(*args, bias=torch.ones(1, 5)), "bias")

    def test_out_dtype(self) -> None:
        expect(lambda: ops.mx_quant_matmul(*scaled(4, 70, 5), out_dtype=torch.float64), "out_dtype", "bfloat16", "float16")

    def test_devices(self) -> None:
        x1, x2, s1, s2 = scaled(4, 70, 5)
        expect(lambda: ops.mx_quant_matmul(x1, x2.to("meta"), s1, s2), "meta", "cpu")
        expect(lambda: ops.mx_quant_matmul(x1, x2, s1, s2, bias=torch.ones(5, device="meta")), "meta", "cpu")


class TestGroupedMatmul:
    def test_split(self) -> None:
        expect(lambda: ops.mx_grouped_matmul(*grouped("m"), OFFS, "n"), "mx_grouped_matmul", "split", '"m"', '"k"')

    def test_number_of_groups(self) -> None:
        offs = torch.tensor([10, 32, 64])
        expect(lambda: ops.mx_grouped_matmul(*grouped("m"), offs, "m"), "mx_grouped_matmul", "2", "3")

    def test_scale_shapes(self) -> None:
        x1, x2, s1, s2 = grouped("m")
        expect(lambda: ops.mx_grouped_matmul(x1, x2, s1[:5], s2, OFFS, "m"), "x1_scale", "[5, 2, 2]", "[64, 2, 2]")
        expect(lambda: ops.mx_grouped_matmul(x1, x2, s1, s2[0], OFFS, "m"), "x2", "[2, 9, 2]", "[G, ceil(K/64), N, 2]")
        x1, x2, s1, s2 = grouped("k")
        expect(lambda: ops.mx_grouped_matmul(x1, x2, s1[:2], s2, OFFS, "k"), "x1_scale", "[2, 70, 2]", "[3, 70, 2]")
        expect(lambda: ops.mx_grouped_matmul(x1, x2, s1, s2[:2], OFFS, "k"), "x2_scale", "[2, 9, 2]", "[3, 9, 2]")

    def test_ranks(self) -> None:
        x1, x2, s1, s2 = grouped("m")
        expect(lambda: ops.mx_grouped_matmul(x1, x2[0], s1, s2, OFFS, "m"), "mx_grouped_matmul", "x2", "[70, 9]", "G")
        expect(lambda: ops.mx_grouped_matmul(x1, x2, s1, s2, OFFS, "k"), "mx_grouped_matmul", "x2", "[2, 70, 9]")

    def test_inner_sizes(self) -> None:
        x1, x2, s1, s2 = grouped("m")
        expect(lambda: ops.mx_grouped_matmul(x1, x2[:, :69], s1, s2, OFFS, "m"), "70", "69")
        x1, x2, s1, s2 = grouped("k")
        expect(lambda: ops.mx_grouped_matmul(x1, x2[:60], s1, s2, OFFS, "k"), "64", "60")


class TestDequant:
    def test_data_dtype(self) -> None:
        data, scale = ops.mx_quant(X)
        expect(lambda: ops.mx_dequant(data.float(), scale, -1, "e4m3"), "mx_dequant", "float")

    def test_format_must_match_the_dtype(self) -> None:
        data, scale = ops.mx_quant(X)
        expect(lambda: ops.mx_dequant(data, scale, -1, "e5m2"), "mx_dequant", "e5m2", "float8_e4m3fn")

    def test_scale_of_another_axis(self) -> None:
        data, scale = ops.mx_quant(X)
        expect(lambda: ops.mx_dequant(data, scale, 0, "e4m3"), "mx_dequant", "scale", "[64, 2, 2]", "[1, 96, 2]")

    def test_scale_dtype(self) -> None:
        data, scale = ops.mx_quant(X)
        expect(lambda: ops.mx_dequant(data, scale.view(torch.uint8), -1, "e4m3"), "scale", "float8_e8m0fnu")

    def test_axis(self) -> None:
        data, scale = ops.mx_quant(X)
        expect(lambda: ops.mx_dequant(data, scale, 5, "e4m3"), "mx_dequant", "axis", "5")

    def test_out_dtype(self) -> None:
        data, scale = ops.mx_quant(X)
        expect(lambda: ops.mx_dequant(data, scale, -1, "e4m3", torch.int8), "mx_dequant", "out_dtype", "bfloat16")

    def test_device(self) -> None:
        data, _ = ops.mx_quant(X)
        other = e8m0(torch.zeros(64, 2, 2).numpy()).to("meta")
        expect(lambda: ops.mx_dequant(data, other, -1, "e4m3"), "meta", "cpu")


def test_differentiating_through_a_quantizer_names_the_op() -> None:
    x = torch.ones(4, 64, requires_grad=True)
    data, _ = ops.mx_quant(x)
    assert not data.requires_grad or data.grad_fn is not None
    y = torch.ones(4, 64).to(E4M3)
    back = ops.mx_dequant(y, ops.mx_quant(torch.ones(4, 64))[1], -1, "e4m3", torch.float32)
    assert not back.requires_grad
