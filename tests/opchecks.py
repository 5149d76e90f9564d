"""What every op must hold for torch: opcheck, unchanged arguments, a shape function that tells the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from reference import bits

Call = tuple[str, tuple[Any, ...], dict[str, Any]]

FP8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu)


def _tensors(results: Any) -> tuple[torch.Tensor, ...]:
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)


def opcheck(call: Call) -> None:
    """torch.library.opcheck, with dynamic shapes."""
    name, args, kwargs = call
    checks = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if any(isinstance(a, torch.Tensor) and a.dtype in FP8 for a in args):
        # torch compares the arguments before and after with allclose, which has no fp8 kernel on the CPU;
        # changes_or_aliases_its_arguments checks the same promises of the schema.
        checks.remove("test_schema")
    torch.library.opcheck(getattr(torch.ops.npu_lp, name).default, args, kwargs, test_utils=checks)


def changes_or_aliases_its_arguments(call: Call) -> str:
    """Which argument the op changes or returns a view of, or ""."""
    name, args, kwargs = call
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    before = [bits.storage_bits(a).copy() for a in tensors]
    results = _tensors(getattr(torch.ops.npu_lp, name)(*args, **kwargs))
    storages = {r.untyped_storage().data_ptr() for r in results if r.numel()}
    for i, (tensor, saved) in enumerate(zip(tensors, before, strict=True)):
        if not np.array_equal(bits.storage_bits(tensor), saved):
            return f"tensor argument {i} changed"
        if tensor.numel() and tensor.untyped_storage().data_ptr() in storages:
            return f"a result shares memory with tensor argument {i}"
    return ""


def shape_function_disagrees(call: Call) -> str:
    """Where shape, dtype or strides on meta tensors differ from the kernel's, or ""."""
    name, args, kwargs = call
    op = getattr(torch.ops.npu_lp, name)
    real = _tensors(op(*args, **kwargs))
    meta = _tensors(op(*(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args), **kwargs))
    for i, (r, m) in enumerate(zip(real, meta, strict=True)):
        facts = [(t.shape, t.dtype, t.stride()) for t in (r, m)]
        if m.device.type != "meta" or facts[0] != facts[1]:
            return f"result {i}: kernel {facts[0]}, shape function {facts[1]} on {m.device}"
    return ""
