"""mx_quant: one axis, any shape and stride, every bf16 and fp16 as block maximum, for e4m3 and e5m2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checks import FLOATS, SIZES, all_values, assert_bits, assert_same_tensors, below, from_bits, ops, spread
from hypothesis import given
from hypothesis import strategies as st
from reference import bits, mx

pytestmark = pytest.mark.usefixtures("backend")

FP8 = ("e4m3", "e5m2")
RULES = ("floor", "rceil")
UNDERFLOWS = ("ocp", "flush_emax", "flush_subnormal")
TORCH_FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def check(x: torch.Tensor, axis: int = -1, fmt: str = "e4m3", scale_rule: str = "rceil", **options: Any) -> None:
    data, scale = ops.mx_quant(x, axis, fmt, scale_rule, **options)
    want_data, want_scale = mx.mx_quant(x, axis, fmt, scale_rule, **options)
    assert data.dtype == TORCH_FP8[fmt]
    assert scale.dtype == torch.float8_e8m0fnu
    assert_bits(scale, want_scale, "scale")
    assert_bits(data, want_data)


@pytest.mark.parametrize("underflow", UNDERFLOWS)
@pytest.mark.parametrize("scale_rule", RULES)
@pytest.mark.parametrize("fmt", FP8)
def test_every_bf16_as_block_maximum(fmt: str, scale_rule: str, underflow: str) -> None:
    rows = below(np.arange(65536), np.random.default_rng(1), 16, 16)
    check(from_bits(rows, torch.bfloat16), -1, fmt, scale_rule, underflow=underflow)


@pytest.mark.parametrize("scale_rule", RULES)
@pytest.mark.parametrize("fmt", FP8)
def test_every_bf16_as_block_maximum_down_a_column(fmt: str, scale_rule: str) -> None:
    columns = below(np.arange(65536), np.random.default_rng(2), 16, 8).T
    check(from_bits(columns, torch.bfloat16), -2, fmt, scale_rule)


@pytest.mark.parametrize("scale_rule", RULES)
@pytest.mark.parametrize("fmt", FP8)
def test_every_fp16_as_block_maximum(fmt: str, scale_rule: str) -> None:
    rows = below(np.arange(65536), np.random.default_rng(3), 16, 16)
    check(from_bits(rows, torch.float16), -1, fmt, scale_rule)


@pytest.mark.parametrize("scale_rule", RULES)
@pytest.mark.parametrize("fmt", FP8)
def test_fp32_block_maxima_around_every_rounding_boundary(fmt: str, scale_rule: str) -> None:
    """All 256 exponents; mantissas around 1.0, 1.5, 1.75 (448 and 57344 scaled) and 2.0, and at random."""
    rng = np.random.default_rng(4)
    mantissas = [0, 1, 2, 0x3FFFFF, 0x400000, 0x400001, 0x5FFFFF, 0x600000, 0x600001, 0x600002, 0x7FFFFE, 0x7FFFFF]
    mantissas += rng.integers(0, 1 << 23, 52).tolist()
    pattern = (np.arange(256)[:, None] << 23 | np.array(mantissas)).reshape(-1)
    check(from_bits(below(pattern, rng, 32, 24), torch.float32), -1, fmt, scale_rule)


@pytest.mark.parametrize(("fmt", "top"), [("e4m3", 256.0), ("e5m2", 32768.0)])
def test_every_bf16_element_rounds_to_nearest_even_under_scale_one(fmt: str, top: float) -> None:
    """The floor rule gives byte 127 to a block whose maximum lies in [top, 2 top)."""
    every = all_values(torch.bfloat16)
    fit = every[every.float().abs() < 2 * top]
    elements = torch.nn.functional.pad(fit, (0, -len(fit) % 31)).view(-1, 31)
    x = torch.cat([torch.full((len(elements), 1), top, dtype=torch.bfloat16), elements], dim=1)
    _, scale = ops.mx_quant(x, -1, fmt, "floor")
    assert (scale.view(torch.uint8)[..., 0] == 127).all()
    check(x, -1, fmt, "floor")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("special", [float("nan"), float("inf"), float("-inf")])
def test_a_block_with_nan_or_inf_is_zeros_under_scale_ff_and_its_neighbours_are_untouched(
    special: float, dtype: torch.dtype
) -> None:
    for position in range(96):
        x = torch.ones(2, 96, dtype=dtype)
        x[1, position] = special
        data, scale = ops.mx_quant(x)
        hit = position // 32
        want = [0xFF if block == hit else 0x77 for block in range(3)] + [0]
        assert scale.view(torch.uint8).view(2, 4)[1].tolist() == want
        assert (data.view(torch.uint8)[1].view(3, 32)[hit] == 0).all()
        check(x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("scale_rule", RULES)
def test_zero_blocks_have_byte_zero_and_keep_the_sign_of_zero(scale_rule: str, dtype: torch.dtype) -> None:
    x = torch.zeros(3, 64, dtype=dtype)
    x[1] = -0.0
    data, scale = ops.mx_quant(x, -1, "e4m3", scale_rule)
    assert (scale.view(torch.uint8) == 0).all()
    assert data.view(torch.uint8)[:, 0].tolist() == [0x00, 0x80, 0x00]
    check(x, -1, "e4m3", scale_rule)


def test_negative_zero_among_numbers_keeps_its_sign() -> None:
    x = torch.tensor([[1.0, -0.0, 0.0, -1.0]])
    assert ops.mx_quant(x)[0].view(torch.uint8).tolist() == [[0x78, 0x80, 0x00, 0xF8]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("underflow", UNDERFLOWS)
@pytest.mark.parametrize("scale_rule", RULES)
@pytest.mark.parametrize("fmt", FP8)
def test_subnormal_blocks(fmt: str, scale_rule: str, underflow: str, dtype: torch.dtype) -> None:
    """Blocks whose maximum is subnormal or so small that the scale byte is 0, and the first ones above that."""
    mantissa_bits = 7 if dtype == torch.bfloat16 else 23
    rng = np.random.default_rng(5)
    fields = np.repeat(np.arange(20), 40)
    pattern = fields << mantissa_bits | rng.integers(0, 1 << mantissa_bits, fields.size)
    width = 16 if dtype == torch.bfloat16 else 32
    check(from_bits(below(pattern, rng, width, 32), dtype), -1, fmt, scale_rule, underflow=underflow)


def test_byte_254_dequantizes_to_the_largest_numbers() -> None:
    """No quantizer of fp8 gives byte 254, but a scale may hold it: 2^127."""
    data = torch.full((1, 32), 1.0).to(torch.float8_e4m3fn)
    scale = from_bits(np.array([[[254, 0]]]), torch.float8_e8m0fnu)
    assert (ops.mx_dequant(data, scale, -1, "e4m3", torch.float32) == 2.0**127).all()


@pytest.mark.parametrize("max_low_bound", [2.0**-20, 0.3, 448.0, 1e30])
@pytest.mark.parametrize("fmt", FP8)
def test_max_low_bound_raises_the_maximum_of_every_block_but_zero_and_nan_ones(fmt: str, max_low_bound: float) -> None:
    x = spread((64, 96), torch.bfloat16, 6)
    x[3] = 0
    x[4, 5] = float("nan")
    check(x, -1, fmt, "rceil", max_low_bound=max_low_bound)
    check(x.float(), -2, fmt, "rceil", max_low_bound=max_low_bound)


shapes = st.lists(st.sampled_from(SIZES), min_size=1, max_size=2) | st.lists(
    st.sampled_from([0, 1, 2, 3, 5, 31, 32, 33, 65]), min_size=3, max_size=4
)


@given(data=st.data())
def test_any_shape_axis_and_dtype(data: st.DataObject) -> None:
    shape = data.draw(shapes.filter(lambda s: np.prod(s) <= 40_000), label="shape")
    axis = data.draw(st.integers(-len(shape), len(shape) - 1), label="axis")
    dtype = data.draw(st.sampled_from(FLOATS), label="dtype")
    fmt, rule = data.draw(st.sampled_from(FP8)), data.draw(st.sampled_from(RULES))
    underflow = data.draw(st.sampled_from(UNDERFLOWS))
    x = spread(shape, dtype, data.draw(st.integers(0, 1000), label="seed"))
    check(x, axis, fmt, rule, underflow=underflow)


@pytest.mark.parametrize("axis", [-1, -2, -3, -4])
@pytest.mark.parametrize("shape", [(3, 5, 70, 65), (2, 65, 3, 33), (33, 2, 1, 96), (64, 1, 31, 2)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_axis_of_four_dims(shape: tuple[int, ...], axis: int, dtype: torch.dtype) -> None:
    check(spread(shape, dtype, 9), axis)


def views(base: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        "transposed": base.mT,
        "every second column": base[:, ::2],
        "every third row": base[::3],
        "interior": base[5:-3, 7:-9],
        "odd offset": base[:, 1:],
        "one row expanded": base[:1].expand(70, -1),
        "one column expanded": base[:, :1].expand(-1, 70),
        "permuted": base[:120, :64].view(3, 40, 64).permute(2, 0, 1),
        "one element": base[40:41, 33:34],
        "conjugate-like flip": base.flip(0)[:, 3:40].mT,
    }


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("dtype", FLOATS)
def test_any_stride_gives_the_bits_of_the_contiguous_copy(dtype: torch.dtype, axis: int) -> None:
    for name, view in views(spread((131, 97), dtype, 10)).items():
        got = ops.mx_quant(view, axis)
        assert all(t.is_contiguous() for t in got), name
        assert_same_tensors(got, ops.mx_quant(view.contiguous(), axis))
        check(view, axis)


@pytest.mark.parametrize("axis", [-1, -2])
def test_every_length_and_offset_of_a_vector_width(axis: int) -> None:
    base = spread((300,), torch.bfloat16, 11)
    for length in range(1, 131):
        for offset in (0, 1, 3, 7):
            view = base[offset : offset + length]
            check(view.view(1, -1) if axis == -1 else view.view(-1, 1), axis)


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_bits_do_not_depend_on_the_number_of_threads(axis: int) -> None:
    x = spread((7, 301, 260), torch.bfloat16, 12)
    torch.set_num_threads(1)
    want = ops.mx_quant(x, axis)
    for threads in (2, 3, 7):
        torch.set_num_threads(threads)
        assert_same_tensors(ops.mx_quant(x, axis), want)


@pytest.mark.parametrize("dtype", FLOATS)
def test_flush_to_zero_of_the_caller_changes_no_bit(dtype: torch.dtype) -> None:
    x = spread((64, 160), dtype, 13)
    x[:8] = from_bits(np.random.default_rng(0).integers(0, 1 << 7, (8, 160)), torch.bfloat16).to(dtype)
    want = [ops.mx_quant(x, axis, fmt, rule) for axis in (-1, -2) for fmt in FP8 for rule in RULES]
    back = [ops.mx_dequant(d, s, -1, "e4m3", torch.float32) for d, s in want[:2]]
    try:
        assert torch.set_flush_denormal(True)
        got = [ops.mx_quant(x, axis, fmt, rule) for axis in (-1, -2) for fmt in FP8 for rule in RULES]
        got_back = [ops.mx_dequant(d, s, -1, "e4m3", torch.float32) for d, s in want[:2]]
        still_on = float(torch.tensor(1e-40) * 1.0) == 0.0
    finally:
        torch.set_flush_denormal(False)
    assert still_on, "an op must leave the caller's floating-point mode as it was"
    for g, w in zip(got, want, strict=True):
        assert_same_tensors(g, w)
    assert_same_tensors(got_back, back)


def test_pad_bytes_and_results_do_not_depend_on_what_memory_held_before() -> None:
    """Field report BC-036. K = 96 ends in a pad byte; freed buffers full of 0xFF must not shine through."""
    for k in (96, 2880):
        x = spread((40, k), torch.bfloat16, 14, specials=False)
        want = ops.mx_quant(x)
        if k % 64:
            assert (want[1].view(torch.uint8)[:, -1, 1] == 0).all()
        for _ in range(50):
            poison = [torch.full((n,), 0xFF, dtype=torch.uint8) for n in (40 * k, want[1].numel())]
            del poison
            assert_same_tensors(ops.mx_quant(x), want)


@pytest.mark.parametrize("position", [0, 31, 32, 4095, 4096, 65535])
def test_an_outlier_anywhere_in_a_long_row_sets_the_scale_of_its_block(position: int) -> None:
    x = torch.full((3, 65536), 2.0**-6)
    x[1, position] = 1e4
    data, scale = ops.mx_quant(x)
    back = ops.mx_dequant(data, scale, -1, "e4m3", torch.float32)
    assert abs(float(back[1, position]) - 1e4) <= 1e4 * 2.0**-4
    blocks = scale.view(torch.uint8).view(3, 2048)
    assert int((blocks != blocks[0, 0]).sum()) == 1
    assert int(blocks[1, position // 32]) > int(blocks[0, 0])


def test_floor_clips_what_rceil_represents() -> None:
    """Field report BC-001: 957 and 127.9999 under the two rules."""
    for value, floor, rceil in ((957.0, (896.0, 128), (960.0, 129)), (127.9999, (112.0, 125), (128.0, 126))):
        x = torch.zeros(1, 32)
        x[0, 0] = value
        for rule, (want, byte) in (("floor", floor), ("rceil", rceil)):
            data, scale = ops.mx_quant(x, -1, "e4m3", rule)
            assert float(ops.mx_dequant(data, scale, -1, "e4m3", torch.float32)[0, 0]) == want
            assert int(scale.view(torch.uint8)[0, 0, 0]) == byte


def test_fp32_maximum_just_below_a_power_of_two_keeps_its_exponent() -> None:
    """Field report BC-006: nextafter(2, 0) has exponent 0, so the floor byte is 127 - 8."""
    x = torch.full((32, 32), 0.1)
    x[0, 0] = float(np.nextafter(np.float32(2.0), np.float32(0.0)))
    for axis in (-1, -2):
        _, scale = ops.mx_quant(x, axis, "e4m3", "floor")
        assert int(scale.view(torch.uint8)[0, 0, 0]) == 119


def test_ties_of_e4m3_go_to_even() -> None:
    """Field report BC-009: 1 + k/16 under scale 1."""
    x = torch.cat([torch.tensor([256.0]), 1 + torch.arange(16) / 16]).view(1, -1)
    data, _ = ops.mx_quant(x, -1, "e4m3", "floor")
    want = [round(k / 2) for k in range(16)]  # Python's round is to even
    assert (data.view(torch.uint8)[0, 1:] - 0x38).tolist() == want


def test_defaults_are_e4m3_rceil_last_axis_ocp() -> None:
    x = spread((40, 70), torch.bfloat16, 15)
    assert_same_tensors(ops.mx_quant(x), ops.mx_quant(x, -1, "e4m3", "rceil", 32, underflow="ocp", rounding="rint"))
    assert_same_tensors(torch.ops.npu_lp.mx_quant(x), ops.mx_quant(x))


def test_the_input_is_not_changed() -> None:
    x = spread((40, 70), torch.bfloat16, 16)
    before = bits.storage_bits(x).copy()
    ops.mx_quant(x, 0)
    np.testing.assert_array_equal(bits.storage_bits(x), before)


@pytest.mark.slow
def test_rows_beyond_two_gigabytes_of_elements() -> None:
    """Field report BC-048: 32-bit offsets. 4.3 GB of bf16; the last rows equal the same rows quantized alone."""
    x = torch.zeros(70000, 32768, dtype=torch.bfloat16)
    x[-3:] = spread((3, 32768), torch.bfloat16, 17)
    data, scale = ops.mx_quant(x)
    assert_same_tensors((data[-3:], scale[-3:]), ops.mx_quant(x[-3:]))
