"""torch.library.opcheck on every op: schema, shape function against the kernel, autograd registration, AOT dispatch."""

from __future__ import annotations

import pytest
import test_opcheck_formats
import torch
from checks import ops, random_codes, random_scales, spread
from opchecks import Call, changes_or_aliases_its_arguments, opcheck, shape_function_disagrees

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


CALLS: list[Call] = [
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
    ("mx_quant_matmul_add_", (torch.ones(5, 9), *matmul_args()), {}),
    ("mx_linear", (x(40, 70), *matmul_args()[1::2]), {}),
    ("mx_linear", (x(3, 40, 70).mT.contiguous().mT, *matmul_args()[1::2], torch.ones(9)), {"out_dtype": torch.float32}),
    ("mx_linear_dual", (x(2, 33, 70, dtype=torch.float32), *matmul_args()[1::2], None, "e5m2", "floor"), {}),
    ("mx_grouped_matmul", (*grouped_args("m"), OFFS, "m"), {}),
    ("mx_grouped_matmul", (*grouped_args("k"), OFFS, "k", torch.float16), {}),
]


IDS = [f"{i}-{name}" for i, (name, _, _) in enumerate(CALLS)]


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_opcheck(call: Call) -> None:
    opcheck(call)


IN_PLACE = ("mx_quant_matmul_add_",)
PURE = [call for call in CALLS if call[0] not in IN_PLACE]
PURE_IDS = [f"{i}-{name}" for i, (name, _, _) in enumerate(PURE)]


@pytest.mark.parametrize("call", PURE, ids=PURE_IDS)
def test_no_op_changes_or_aliases_its_arguments(call: Call) -> None:
    assert not changes_or_aliases_its_arguments(call)


@pytest.mark.parametrize("call", PURE, ids=PURE_IDS)
def test_shape_function_agrees_with_the_kernel(call: Call) -> None:
    assert not shape_function_disagrees(call)


def test_every_registered_op_is_checked() -> None:
    names = (name.split("::") for name in torch._C._dispatch_get_all_op_names())
    registered = {rest[0].split(".")[0] for space, *rest in names if space == "npu_lp" and not rest[0].startswith("_")}
    assert registered == {name for name, _, _ in CALLS + test_opcheck_formats.CALLS}


def test_compiled_with_dynamic_shapes_gives_the_same_bits() -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x1, s1 = torch.ops.npu_lp.mx_quant(x)
        x2, s2 = torch.ops.npu_lp.mx_quant(w, -2)
        return torch.ops.npu_lp.mx_quant_matmul(x1, x2, s1, s2)

    compiled = torch.compile(step, dynamic=True, fullgraph=True, backend="aot_eager")
    for m, k, n in ((5, 70, 9), (64, 64, 64), (33, 130, 2)):
        a, b = x(m, k), x(k, n)
        assert torch.equal(compiled(a, b), step(a, b))
