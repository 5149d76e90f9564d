"""torch.library.opcheck on every op: schema, shape function against the kernel, autograd registration, AOT dispatch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from checks import assert_bits, ops, random_codes, random_scales, spread
from reference import bits

pytestmark = pytest.mark.usefixtures("backend")

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
OFFS = torch.tensor([7, 7, 40], dtype=torch.int32)


def x(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return spread(shape, dtype, 1, specials=False)


def matmul_args(*batch: int) -> tuple[torch.Tensor, ...]:
    return (
        random_codes((*batch, 5, 70), E4M3, 1), random_codes((70, 9), E5M2, 2),
        random_scales((*batch, 5, 2, 2), 3), random_scales((2, 9, 2), 4),
    )  # fmt: skip


def grouped_args(split: str) -> tuple[torch.Tensor, ...]:
    if split == "m":
        return (
            random_codes((50, 70), E4M3, 1), random_codes((3, 70, 9), E4M3, 2),
            random_scales((50, 2, 2), 3), random_scales((3, 2, 9, 2), 4),
        )  # fmt: skip
    return (
        random_codes((50, 70), E4M3, 1).t(), random_codes((50, 9), E4M3, 2),
        random_scales((3, 70, 2), 3), random_scales((3, 9, 2), 4),
    )  # fmt: skip


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("mx_quant", (x(40, 70),), {}),
    ("mx_quant", (x(3, 40, 70, dtype=torch.float32), 1, "e5m2", "floor"), {"underflow": "flush_emax"}),
    ("mx_quant", (x(40, 70, dtype=torch.float16).t(), -2), {}),
    ("mx_quant", (x(0, 70),), {}),
    ("mx_quant", (x(200, 70), 0, "e4m3", "rceil"), {"max_low_bound": 0.5}),
    ("mx_quant_dual", (x(40, 70),), {}),
    ("mx_quant_dual", (x(2, 33, 1, dtype=torch.float32), "e5m2", "floor"), {}),
    ("mx_quant_grouped", (x(50, 70), OFFS), {}),
    ("mx_quant_grouped", (x(50, 70), OFFS.long(), "e5m2", "floor"), {"underflow": "flush_subnormal"}),
    ("mx_dequant", ops.mx_quant(x(40, 70)), {"fmt": "e4m3"}),
    ("mx_dequant", (*ops.mx_quant(x(40, 70), 0), 0, "e4m3", torch.float32), {}),
    ("mx_quant_matmul", matmul_args(), {}),
    ("mx_quant_matmul", (*matmul_args(3), torch.ones(9), torch.float32), {}),
    ("mx_grouped_matmul", (*grouped_args("m"), OFFS, "m"), {}),
    ("mx_grouped_matmul", (*grouped_args("k"), OFFS, "k", torch.float16), {}),
]


@pytest.mark.parametrize("call", CALLS, ids=[f"{i}-{name}" for i, (name, _, _) in enumerate(CALLS)])
def test_opcheck(call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    name, args, kwargs = call
    op = getattr(torch.ops.npu_lp, name).default
    checks = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if any(isinstance(a, torch.Tensor) and a.dtype in (E4M3, E5M2) for a in args):
        # torch compares the arguments before and after with allclose, which has no fp8 kernel on the CPU;
        # test_no_op_changes_or_aliases_its_arguments checks the same promises of the schema.
        checks.remove("test_schema")
    torch.library.opcheck(op, args, kwargs, test_utils=checks)


@pytest.mark.parametrize("call", CALLS, ids=[f"{i}-{name}" for i, (name, _, _) in enumerate(CALLS)])
def test_no_op_changes_or_aliases_its_arguments(call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    name, args, kwargs = call
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    before = [bits.storage_bits(a).copy() for a in tensors]
    results = getattr(torch.ops.npu_lp, name)(*args, **kwargs)
    for tensor, saved in zip(tensors, before, strict=True):
        assert_bits(tensor, saved)
    storages = {t.untyped_storage().data_ptr() for t in tensors if t.numel()}
    for result in (results,) if isinstance(results, torch.Tensor) else results:
        assert result.numel() == 0 or result.untyped_storage().data_ptr() not in storages


@pytest.mark.parametrize("call", CALLS, ids=[f"{i}-{name}" for i, (name, _, _) in enumerate(CALLS)])
def test_shape_function_agrees_with_the_kernel(call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    """Shapes, dtypes and strides on meta tensors, without data."""
    name, args, kwargs = call
    op = getattr(torch.ops.npu_lp, name)
    real = op(*args, **kwargs)
    meta = op(*(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args), **kwargs)
    for r, m in zip(*((t,) if isinstance(t, torch.Tensor) else t for t in (real, meta)), strict=True):
        assert m.device.type == "meta"
        assert (r.shape, r.dtype, r.stride()) == (m.shape, m.dtype, m.stride())


def test_every_registered_op_is_checked() -> None:
    names = (name.split("::") for name in torch._C._dispatch_get_all_op_names())
    registered = {rest[0].split(".")[0] for space, *rest in names if space == "npu_lp" and not rest[0].startswith("_")}
    assert registered - CHECKED_ELSEWHERE == {name for name, _, _ in CALLS}


# Ops of later formats are checked in test_opcheck_formats.py.
CHECKED_ELSEWHERE: set[str] = set()


def test_compiled_with_dynamic_shapes_gives_the_same_bits() -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x1, s1 = torch.ops.npu_lp.mx_quant(x)
        x2, s2 = torch.ops.npu_lp.mx_quant(w, -2)
        return torch.ops.npu_lp.mx_quant_matmul(x1, x2, s1, s2)

    compiled = torch.compile(step, dynamic=True, fullgraph=True, backend="aot_eager")
    for m, k, n in ((5, 70, 9), (64, 64, 64), (33, 130, 2)):
        a, b = x(m, k), x(k, n)
        assert torch.equal(compiled(a, b), step(a, b))
