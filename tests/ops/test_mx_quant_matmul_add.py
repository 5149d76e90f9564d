"""mx_quant_matmul_add_: a product added to an fp32 tensor in place, for gradients of weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from checks import assert_bits, assert_product, e8m0, ops, random_codes, random_scales, spread
from reference import bits, matmul, mx

pytestmark = pytest.mark.usefixtures("backend")

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2

Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def operands(m: int, k: int, n: int, batch: tuple[int, ...] = ()) -> Operands:
    pairs = -(-k // 64)
    return (
        random_codes((*batch, m, k), E4M3, 1), random_codes((*batch, k, n), E5M2, 2),
        random_scales((*batch, m, pairs, 2), 3), random_scales((*batch, pairs, n, 2), 4),
    )  # fmt: skip


def check(base: torch.Tensor, args: Operands) -> None:
    """base + product, the product rounded to fp32 first, in base's own memory and strides."""
    got = base.clone(memory_format=torch.preserve_format)
    assert ops.mx_quant_matmul_add_(got, *args) is got
    x1, x2, s1, s2 = args
    a = mx.dequantize_values(bits.storage_bits(x1), bits.storage_bits(s1), -1, "e4m3")
    b = mx.dequantize_values(bits.storage_bits(x2), bits.storage_bits(s2), -2, "e5m2")
    before = bits.values(base)
    want = bits.round_to_dtype_bits(matmul.add32(before, matmul.accumulate(bits.fl32(a), bits.fl32(b))), torch.float32)
    assert_product(got, want, a, b, bias=before)


@pytest.mark.parametrize(("m", "k", "n"), [(5, 70, 9), (33, 300, 65), (1, 64, 1), (130, 515, 31), (64, 64, 64)])
def test_adds_the_product_with_one_rounding_more(m: int, k: int, n: int) -> None:
    check(spread((m, n), torch.float32, 5, specials=False), operands(m, k, n))


def test_batches_and_strides_of_the_accumulator() -> None:
    check(spread((3, 9, 7), torch.float32, 5, specials=False), operands(9, 70, 7, (3,)))
    check(spread((7, 9), torch.float32, 5, specials=False).mT, operands(9, 70, 7))
    wide = spread((9, 21), torch.float32, 5, specials=False)
    before = wide.clone()
    ops.mx_quant_matmul_add_(wide[:, ::3], *operands(9, 70, 7))
    assert torch.equal(wide[:, 1::3], before[:, 1::3]) and not torch.equal(wide[:, ::3], before[:, ::3])


def test_wgrad_of_two_microbatches_is_exact_where_the_sums_are() -> None:
    rng = np.random.default_rng(0)
    grad = torch.zeros(19, 17)
    want = np.zeros((19, 17), dtype=np.int64)
    for _ in range(2):
        dy, x = rng.integers(-8, 9, (96, 19)), rng.integers(-8, 9, (96, 17))
        one = e8m0(np.full((2, 19, 2), 127)), e8m0(np.full((2, 17, 2), 127))
        codes = [torch.from_numpy(v).float().to(E4M3) for v in (dy, x)]
        ops.mx_quant_matmul_add_(grad, codes[0].mT, codes[1], one[0].transpose(-3, -2), one[1])
        want += dy.T @ x
    np.testing.assert_array_equal(grad.numpy().astype(np.int64), want)


def test_nothing_to_add() -> None:
    base = spread((3, 4), torch.float32, 1, specials=False)
    got = base.clone()
    ops.mx_quant_matmul_add_(got, *operands(3, 0, 4))
    assert_bits(got, bits.storage_bits(base))
    ops.mx_quant_matmul_add_(torch.zeros(0, 4), *operands(0, 70, 4))


def test_bad_arguments_are_named() -> None:
    args = operands(5, 70, 9)
    for base, parts in (
        (torch.zeros(5, 9, dtype=torch.bfloat16), ("self", "bfloat16", "float32")),
        (torch.zeros(5, 8), ("self", "[5, 8]", "[5, 9]")),
        (torch.zeros(1, 5, 9), ("self", "[1, 5, 9]", "[5, 9]")),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            ops.mx_quant_matmul_add_(base, *args)
        assert all(part in str(caught.value) for part in ("mx_quant_matmul_add_", *parts))
    with pytest.raises(ValueError, match="K="):
        ops.mx_quant_matmul_add_(torch.zeros(5, 9), args[0][:, :64], *args[1:])


def test_it_is_functionalized_by_torch_compile() -> None:
    args = operands(5, 70, 9)

    def step(grad: torch.Tensor) -> torch.Tensor:
        total = grad * 2
        torch.ops.npu_lp.mx_quant_matmul_add_(total, *args)
        return total + 1

    base = spread((5, 9), torch.float32, 3, specials=False)
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(base), step(base))
