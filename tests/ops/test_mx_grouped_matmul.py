"""mx_grouped_matmul: split "m" (forward, dgrad) and split "k" (wgrad), ragged and empty groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from checks import (
    FLOATS,
    assert_bits,
    assert_grouped_product,
    assert_product,
    e8m0,
    ops,
    random_codes,
    random_scales,
    spread,
)
from hypothesis import given
from hypothesis import strategies as st
from reference import bits, matmul, mx

pytestmark = pytest.mark.usefixtures("backend")

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
NAME = {E4M3: "e4m3", E5M2: "e5m2"}
OFFSETS = [
    [0, 0, 64], [64, 64, 64], [0, 0, 0], [0], [32, 32, 64, 64, 96], [0, 0, 5, 5, 5, 5, 32, 32], [10, 10, 74, 100],
    [1, 2, 3], [31, 63, 127, 128],
]  # fmt: skip


Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def pairs(length: int) -> int:
    return -(-length // 64)


def decoded(data: torch.Tensor, scale: torch.Tensor, axis: int) -> np.ndarray:
    return mx.dequantize_values(bits.storage_bits(data), bits.storage_bits(scale), axis, NAME[data.dtype])


def operands_m(t: int, k: int, n: int, groups: int, dtypes: tuple[torch.dtype, torch.dtype] = (E4M3, E4M3)) -> Operands:
    return (
        random_codes((t, k), dtypes[0], 1), random_codes((groups, k, n), dtypes[1], 2),
        random_scales((t, pairs(k), 2), 3), random_scales((groups, pairs(k), n, 2), 4),
    )  # fmt: skip


def check_m(args: Operands, offs: list[int], out_dtype: torch.dtype = torch.bfloat16) -> None:
    x1, x2, s1, s2 = args
    for index in (torch.int32, torch.int64):
        got = ops.mx_grouped_matmul(x1, x2, s1, s2, torch.tensor(offs, dtype=index), "m", out_dtype)
        a, b = decoded(x1, s1, -1), decoded(x2, s2, -2)
        want = matmul.grouped_matmul_m(a, b, offs, out_dtype)
        assert_grouped_product(got, want, a, b, offs)


def operands_k(m: int, t: int, n: int, groups: int, dtypes: tuple[torch.dtype, torch.dtype] = (E4M3, E4M3)) -> Operands:
    """x1 [M, T] as a transposed view, as it comes from mx_quant_grouped."""
    return (
        random_codes((t, m), dtypes[0], 1).t(), random_codes((t, n), dtypes[1], 2),
        random_scales((t // 64 + groups, m, 2), 3), random_scales((t // 64 + groups, n, 2), 4),
    )  # fmt: skip


def check_k(args: Operands, offs: list[int], out_dtype: torch.dtype = torch.bfloat16) -> None:
    x1, x2, s1, s2 = args
    got = ops.mx_grouped_matmul(x1, x2, s1, s2, torch.tensor(offs, dtype=torch.int32), "k", out_dtype)

    def part(data: torch.Tensor, scale: torch.Tensor, group: int, start: int, end: int) -> np.ndarray:
        first = start // 64 + group
        return decoded(data[start:end], scale[first : first + pairs(end - start)], 0)

    want = matmul.grouped_matmul_k(
        lambda g, start, end: part(x1.t(), s1, g, start, end).T,
        lambda g, start, end: part(x2, s2, g, start, end),
        offs, (x1.shape[0], x2.shape[1]), out_dtype,
    )  # fmt: skip
    for g, (start, end) in enumerate(zip([0, *offs[:-1]], offs, strict=True)):
        assert_product(got[g], want[g], part(x1.t(), s1, g, start, end).T, part(x2, s2, g, start, end))


@pytest.mark.parametrize("extra", [0, 30])
@pytest.mark.parametrize("offs", OFFSETS)
def test_split_m_with_any_groups(offs: list[int], extra: int) -> None:
    check_m(operands_m(offs[-1] + extra, 70, 33, len(offs)), offs)


@pytest.mark.parametrize("extra", [0, 30])
@pytest.mark.parametrize("offs", OFFSETS)
def test_split_k_with_any_groups(offs: list[int], extra: int) -> None:
    check_k(operands_k(33, offs[-1] + extra, 20, len(offs)), offs)


sizes = st.lists(st.sampled_from([0, 1, 7, 31, 32, 33, 64, 65, 129, 300]), min_size=1, max_size=5)
dims = st.sampled_from([0, 1, 5, 31, 32, 33, 64, 65])
fp8 = st.sampled_from([E4M3, E5M2])


@given(groups=sizes, k=st.sampled_from([0, 1, 31, 64, 65, 257, 300]), n=dims, first=fp8, second=fp8,
       out_dtype=st.sampled_from(FLOATS))  # fmt: skip
def test_split_m_any_sizes_and_formats(
    groups: list[int], k: int, n: int, first: torch.dtype, second: torch.dtype, out_dtype: torch.dtype
) -> None:
    offs = np.cumsum(groups).tolist()
    check_m(operands_m(offs[-1], k, n, len(offs), (first, second)), offs, out_dtype)


@given(groups=sizes, m=dims, n=dims, after=st.sampled_from([0, 0, 50]), first=fp8, second=fp8,
       out_dtype=st.sampled_from(FLOATS))  # fmt: skip
def test_split_k_any_sizes_and_formats(
    groups: list[int], m: int, n: int, after: int, first: torch.dtype, second: torch.dtype, out_dtype: torch.dtype
) -> None:
    offs = np.cumsum(groups).tolist()
    check_k(operands_k(m, offs[-1] + after, n, len(offs), (first, second)), offs, out_dtype)


def test_split_k_restarts_its_256_segments_at_each_group() -> None:
    check_k(operands_k(16, 900, 16, 3), [100, 700, 900], torch.float32)


def test_split_m_equals_one_matmul_per_group() -> None:
    x1, x2, s1, s2 = operands_m(97, 300, 40, 3)
    offs = [30, 30, 97]
    got = ops.mx_grouped_matmul(x1, x2, s1, s2, torch.tensor(offs), "m")
    for group, (start, end) in enumerate(zip([0, *offs[:-1]], offs, strict=True)):
        alone = ops.mx_quant_matmul(x1[start:end], x2[group], s1[start:end], s2[group])
        a, b = decoded(x1[start:end], s1[start:end], -1), decoded(x2[group], s2[group], -2)
        assert_product(got[start:end], bits.storage_bits(alone), a, b)


def test_wgrad_from_grouped_quantization() -> None:
    """dW_g = X_g^T dY_g from the quantizer's own layouts, x1 a transposed view."""
    x, dy = spread((150, 40), torch.bfloat16, 1, specials=False), spread((150, 30), torch.bfloat16, 2, specials=False)
    offs = torch.tensor([20, 20, 110, 150], dtype=torch.int32)
    x_data, x_scale = ops.mx_quant_grouped(x, offs)
    dy_data, dy_scale = ops.mx_quant_grouped(dy, offs)
    check_k((x_data.t(), dy_data, x_scale, dy_scale), offs.tolist())


def test_dgrad_takes_the_weight_as_a_transposed_view() -> None:
    """dX = dY W^T with W's row codes: x2 [G, N, K] viewed as [G, K, N]."""
    w_data, w_scale = ops.mx_quant(spread((3, 40, 70), torch.bfloat16, 3, specials=False), -1)
    dy_data, dy_scale = ops.mx_quant(spread((50, 70), torch.bfloat16, 4, specials=False), -1)
    check_m((dy_data, w_data.mT, dy_scale, w_scale.transpose(-3, -2)), [0, 17, 50])


def poisoned(scale: torch.Tensor, rows: slice) -> torch.Tensor:
    bytes_ = scale.view(torch.uint8).clone()
    bytes_[rows] = 0xFF
    return bytes_.view(torch.float8_e8m0fnu)


def test_split_m_rows_after_the_last_offset_and_empty_groups_are_zero_over_nan() -> None:
    """Field report BC-037: NaN in unused rows, in their scales and in the weights of empty groups goes nowhere."""
    x1, x2, s1, s2 = operands_m(90, 64, 20, 4)
    x1.view(torch.uint8)[60:] = 0x7F
    s1 = poisoned(s1, slice(60, None))
    x2.view(torch.uint8)[0] = 0x7F
    s2 = poisoned(s2, slice(0, 1))
    got = ops.mx_grouped_matmul(x1, x2, s1, s2, torch.tensor([0, 20, 20, 60]), "m")
    assert (got[60:] == 0).all()
    assert not torch.isnan(got).any()
    check_m((x1, x2, s1, s2), [0, 20, 20, 60])


def test_split_k_unused_rows_and_gap_scales_are_not_read() -> None:
    x1, x2, s1, s2 = operands_k(12, 150, 20, 3)
    offs = [20, 20, 70]
    used = [0, 20 // 64 + 2]  # rows of scales that hold a group
    unused = [row for row in range(s1.shape[0]) if row not in used]
    for row in unused:
        s1, s2 = poisoned(s1, slice(row, row + 1)), poisoned(s2, slice(row, row + 1))
    x1.t().view(torch.uint8)[70:] = 0x7F
    x2.view(torch.uint8)[70:] = 0x7F
    got = ops.mx_grouped_matmul(x1, x2, s1, s2, torch.tensor(offs), "k")
    assert not torch.isnan(got).any()
    assert (got[1] == 0).all()
    check_k((x1, x2, s1, s2), offs)


def test_no_group_shadows_another() -> None:
    """Field report BC-058: weight (e + 1) * I marks each group, empties in between."""
    offs = [32, 32, 64, 64, 96]
    x = torch.arange(96 * 32).remainder(13).float().view(96, 32)
    w = torch.stack([(e + 1) * torch.eye(32) for e in range(5)])
    x1, s1 = ops.mx_quant(x, -1)
    x2, s2 = ops.mx_quant(w, -2)
    got = ops.mx_grouped_matmul(x1, x2, s1, s2, torch.tensor(offs), "m", torch.float32)
    expert = torch.tensor([1.0, 3.0, 5.0]).repeat_interleave(32)[:, None]
    assert (got == x * expert).all()


@pytest.mark.parametrize("split", ["m", "k"])
def test_exact_sums_equal_integer_arithmetic(split: str) -> None:
    rng = np.random.default_rng(0)
    offs = [40, 40, 200, 333]
    starts = [0, *offs[:-1]]
    if split == "m":
        a, b = rng.integers(-8, 9, (333, 96)), rng.integers(-8, 9, (4, 96, 17))
        want = np.concatenate([a[s:e] @ b[g] for g, (s, e) in enumerate(zip(starts, offs, strict=True))])
        s1, s2 = np.full((333, 2, 2), 127), np.full((4, 2, 17, 2), 127)
    else:
        a, b = rng.integers(-8, 9, (19, 333)), rng.integers(-8, 9, (333, 17))
        want = np.stack([a[:, s:e] @ b[s:e] for s, e in zip(starts, offs, strict=True)])
        s1, s2 = np.full((333 // 64 + 4, 19, 2), 127), np.full((333 // 64 + 4, 17, 2), 127)
    x1, x2 = (torch.from_numpy(v).float().to(E4M3) for v in (a, b))
    got = ops.mx_grouped_matmul(x1, x2, e8m0(s1), e8m0(s2), torch.tensor(offs), split, torch.float32)
    np.testing.assert_array_equal(got.numpy().astype(np.int64), want)


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize("split", ["m", "k"])
def test_bits_do_not_depend_on_the_number_of_threads(split: str) -> None:
    offs = torch.tensor([3, 3, 290, 700])
    args = operands_m(750, 300, 65, 4) if split == "m" else operands_k(65, 750, 70, 4)
    torch.set_num_threads(1)
    want = bits.storage_bits(ops.mx_grouped_matmul(*args, offs, split, torch.float32))
    for threads in (2, 3, 7):
        torch.set_num_threads(threads)
        assert_bits(ops.mx_grouped_matmul(*args, offs, split, torch.float32), want)


def test_fp4_tokens_packed_two_to_a_byte_give_what_tokens_packed_along_k_do(backend: str) -> None:
    if backend != "cpu":
        pytest.skip("the cube cannot part nibbles along tokens: the twin refuses this form")
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(12, 64, generator=generator), torch.randn(2, 8, 64, generator=generator)
    codes, scale = ops.mx_quant(w, fmt="e2m1", scale_rule="floor")
    w_codes, w_scale = codes.transpose(1, 2), scale.transpose(1, 2)
    along_k, scale_k = ops.mx_quant(x, fmt="e2m1", scale_rule="floor")
    codes, scale = ops.mx_quant(x.T.contiguous(), axis=0, fmt="e2m1", scale_rule="floor")
    along_tokens, scale_tokens = codes.T, scale.transpose(0, 1)

    def product(data: torch.Tensor, scales: torch.Tensor, ends: list[int]) -> torch.Tensor:
        fmts = {"x1_fmt": "e2m1", "x2_fmt": "e2m1"}
        return ops.mx_grouped_matmul(data, w_codes, scales, w_scale, torch.tensor(ends), out_dtype=torch.float32, **fmts)

    for ends in ([4, 10], [0, 12], [12, 12]):
        assert torch.equal(product(along_tokens, scale_tokens, ends), product(along_k, scale_k, ends))
    with pytest.raises(ValueError, match="a group starts at 3, in the middle of a byte: x1 packs two tokens"):
        product(along_tokens, scale_tokens, [3, 10])
