"""mx_quant_grouped: blocks along the token axis that restart at each group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checks import FLOATS, assert_bits, assert_same_tensors, from_bits, ops, spread
from hypothesis import given
from hypothesis import strategies as st
from reference import mx

pytestmark = pytest.mark.usefixtures("backend")

FP8 = ("e4m3", "e5m2")
RULES = ("floor", "rceil")
UNDERFLOWS = ("ocp", "flush_emax", "flush_subnormal")


def check(
    x: torch.Tensor, offs: list[int], fmt: str = "e4m3", scale_rule: str = "rceil", index: torch.dtype = torch.int32,
    **options: Any,
) -> None:  # fmt: skip
    data, scale = ops.mx_quant_grouped(x, torch.tensor(offs, dtype=index), fmt, scale_rule, **options)
    want_data, want_scale = mx.mx_quant_grouped(x, offs, fmt, scale_rule, **options)
    assert_bits(scale, want_scale, "scale")
    assert_bits(data, want_data)


group_sizes = st.lists(st.sampled_from([0, 0, 1, 5, 31, 32, 33, 63, 64, 65, 96, 100, 128]), min_size=1, max_size=9)


@given(
    sizes=group_sizes,
    after=st.sampled_from([0, 0, 1, 40, 70]),
    columns=st.sampled_from([0, 1, 2, 31, 33, 64, 70]),
    dtype=st.sampled_from(FLOATS),
    index=st.sampled_from([torch.int32, torch.int64]),
    fmt=st.sampled_from(FP8),
    rule=st.sampled_from(RULES),
    underflow=st.sampled_from(UNDERFLOWS),
)
def test_any_groups(
    sizes: list[int], after: int, columns: int, dtype: torch.dtype, index: torch.dtype, fmt: str, rule: str,
    underflow: str,
) -> None:  # fmt: skip
    offs = np.cumsum(sizes).tolist()
    check(spread((offs[-1] + after, columns), dtype, len(sizes)), offs, fmt, rule, index, underflow=underflow)


@pytest.mark.parametrize("underflow", UNDERFLOWS)
@pytest.mark.parametrize("scale_rule", RULES)
@pytest.mark.parametrize("fmt", FP8)
def test_every_bf16_as_block_maximum(fmt: str, scale_rule: str, underflow: str) -> None:
    x = np.zeros((3 * 41, 65536), dtype=np.int64)
    x[5] = x[41] = x[122] = np.arange(65536)
    x[6] = x[42] = np.arange(65536) ^ 0x8000
    check(from_bits(x[:, ::3], torch.bfloat16), [41, 82, 123], fmt, scale_rule, underflow=underflow)


@pytest.mark.parametrize("offs", [[0, 0, 64], [64, 64, 64], [0, 0, 0], [32, 32, 64, 64, 96], [0, 0, 5, 5, 5, 5, 32, 32]])
def test_empty_groups_neither_crash_nor_shift_later_groups(offs: list[int]) -> None:
    check(spread((offs[-1], 40), torch.bfloat16, 4), offs)


def test_each_group_equals_the_group_quantized_alone() -> None:
    x = spread((230, 50), torch.bfloat16, 5)
    offs = [10, 10, 74, 171, 230]
    data, scale = ops.mx_quant_grouped(x, torch.tensor(offs, dtype=torch.int32))
    for group, (start, end) in enumerate(zip([0, *offs[:-1]], offs, strict=True)):
        alone = ops.mx_quant(x[start:end], 0)
        first = start // 64 + group
        assert_same_tensors((data[start:end], scale[first : first + alone[1].shape[0]]), alone)


def test_rows_after_the_last_offset_and_gap_rows_of_scales_are_zero_even_over_nan() -> None:
    x = torch.ones(150, 33, dtype=torch.bfloat16)
    x[70:] = float("nan")
    data, scale = ops.mx_quant_grouped(x, torch.tensor([20, 20, 70], dtype=torch.int32))
    assert scale.shape == (150 // 64 + 3, 33, 2)
    assert (data.view(torch.uint8)[70:] == 0).all()
    written = {0: 1, 2: 2}  # scale row -> number of blocks in it
    for row in range(scale.shape[0]):
        bytes_used = (scale.view(torch.uint8)[row] != 0).all(dim=0).tolist()
        assert bytes_used == [written.get(row, 0) > 0, written.get(row, 0) > 1]


@pytest.mark.parametrize("dtype", FLOATS)
def test_any_stride(dtype: torch.dtype) -> None:
    offs = torch.tensor([7, 40, 40, 97], dtype=torch.int64)
    base = spread((200, 210), dtype, 6)
    for view in (base[:97], base.mT[:97], base[::2][:97], base[:97, ::3], base[3:100, 5:], base[:1].expand(97, -1)):
        got = ops.mx_quant_grouped(view, offs)
        assert_same_tensors(got, ops.mx_quant_grouped(view.contiguous(), offs))


def test_offsets_may_have_a_stride() -> None:
    x = spread((96, 20), torch.bfloat16, 7)
    offs = torch.tensor([32, 0, 64, 0, 96, 0])[::2]
    assert_same_tensors(ops.mx_quant_grouped(x, offs), ops.mx_quant_grouped(x, offs.contiguous()))


@pytest.mark.usefixtures("restore_threads")
def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    x = spread((1000, 130), torch.bfloat16, 8)
    offs = torch.tensor([3, 100, 100, 700, 999], dtype=torch.int32)
    torch.set_num_threads(1)
    want = ops.mx_quant_grouped(x, offs)
    for threads in (2, 3, 7):
        torch.set_num_threads(threads)
        assert_same_tensors(ops.mx_quant_grouped(x, offs), want)
