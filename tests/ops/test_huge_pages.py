"""Large results on a CPU ask for huge pages: an op whose results are allocated otherwise is several times slower."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from npu_lp import ops
from torch import Tensor

HUGE_PAGE = 2 << 20
ROWS, COLUMNS, K = 2048, 4096, 64

pytestmark = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="this system has no transparent huge pages"
)


def advised(address: int) -> bool:
    """Whether the mapping that contains `address` has the flag that madvise(MADV_HUGEPAGE) sets."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        first, _, rest = line.partition(" ")
        if first == "VmFlags:":
            if inside:
                return "hg" in rest.split()
        elif not first.endswith(":"):
            begin, end = (int(part, 16) for part in first.split("-"))
            inside = begin <= address < end
    raise AssertionError(f"{address:#x} is in no mapping")


def matrix() -> Tensor:
    return torch.randn(ROWS, COLUMNS).bfloat16()


def fp8(*shape: int) -> tuple[Tensor, Tensor]:
    return ops.mx_quant(torch.randn(*shape))


def product(multiply: Callable[..., Tensor], quantize: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    (a, a_scale), (b, b_scale) = quantize(torch.randn(ROWS, K)), quantize(torch.randn(COLUMNS, K))
    return multiply(a, b.T, a_scale, b_scale.transpose(0, 1) if b_scale.dim() > 1 else b_scale)


def grouped(multiply: Callable[..., Tensor], experts: tuple[Tensor, Tensor], rows: tuple[Tensor, Tensor]) -> Tensor:
    return multiply(rows[0], experts[0], rows[1], experts[1], torch.tensor([ROWS // 2, ROWS]))


def fused(op: Callable[..., object]) -> object:
    weight, scale = fp8(64, COLUMNS)
    wide, wide_scale = fp8(COLUMNS, K)
    if op is ops.mx_linear:
        return op(torch.randn(ROWS, K), wide.T, wide_scale.transpose(0, 1))
    return op(matrix(), weight.T, scale.transpose(0, 1))[1]  # the product is small here, the codes are not


CALLS: dict[str, Callable[[], object]] = {
    "mx_quant": lambda: (ops.mx_quant(matrix()), ops.mx_quant(matrix(), -2)),
    "mx_quant_dual": lambda: ops.mx_quant_dual(matrix()),
    "mx_quant_grouped": lambda: ops.mx_quant_grouped(matrix(), torch.tensor([64, ROWS])),
    "mx_quant_block": lambda: ops.mx_quant_block(matrix()),
    "mx_to_block": lambda: ops.mx_to_block(*ops.mx_quant(matrix(), fmt="e2m1", scale_rule="floor")),
    "mx_dequant": lambda: ops.mx_dequant(*ops.mx_quant(matrix())),
    "mx_fake_quant": lambda: ops.mx_fake_quant(matrix()),
    "mx_quant_matmul": lambda: product(ops.mx_quant_matmul, ops.mx_quant),
    "mx_grouped_matmul": lambda: grouped(ops.mx_grouped_matmul, ops.mx_quant(torch.randn(2, K, COLUMNS), -2), fp8(ROWS, K)),
    "mx_linear": lambda: fused(ops.mx_linear),
    "mx_linear_dual": lambda: fused(ops.mx_linear_dual),
    "hif8_quant": lambda: [ops.hif8_quant(matrix(), granularity=kind) for kind in ("tensor", "token", "channel")],
    "hif8_dequant": lambda: ops.hif8_dequant(*ops.hif8_quant(matrix())),
    "hif8_quant_matmul": lambda: product(ops.hif8_quant_matmul, ops.hif8_quant),
    "hif8_grouped_matmul": lambda: grouped(
        ops.hif8_grouped_matmul, ops.hif8_quant(torch.randn(2, K, COLUMNS)), ops.hif8_quant(torch.randn(ROWS, K))
    ),
    "block_quant": lambda: ops.block_quant(matrix(), 128, 128),
    "block_quant_matmul": lambda: product(ops.block_quant_matmul, lambda x: ops.block_quant(x, 1, 128)),
}


def tensors(results: object) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else [t for part in results for t in tensors(part)]


def test_no_op_is_left_out() -> None:
    names = {schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("npu_lp::")}
    in_place = {"mx_quant_matmul_add_"}
    assert set(CALLS) | in_place == {name for name in (full.partition("::")[2] for full in names) if name[0] != "_"}


@pytest.mark.parametrize("op", CALLS)
def test_large_results_ask_for_huge_pages(op: str) -> None:
    large = [result for result in tensors(CALLS[op]()) if result.nbytes >= 2 * HUGE_PAGE]
    assert large
    for result in large:
        assert advised((result.data_ptr() + HUGE_PAGE - 1) // HUGE_PAGE * HUGE_PAGE), result.shape
