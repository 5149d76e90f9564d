"""Runs the op tests on a device: scripts/on_device.sh does it with NPU_LP_TEST_BACKENDS=npu."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only


class OnDevice(TorchDispatchMode):
    """Within it, ops of npu_lp take their tensors to `device`, run there, and bring the results back.

    The tests make their inputs on the CPU and compare on the CPU; what runs in between is the device's kernel.
    """

    active = False  # whether tests are within one

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __enter__(self) -> Any:
        OnDevice.active = True
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        OnDevice.active = False
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "namespace", "") != "npu_lp":
            return func(*args, **kwargs)
        there_args, there_kwargs = tree_map_only(torch.Tensor, self._there, (args, kwargs))
        result = func(*there_args, **there_kwargs)
        for argument, mine, there in zip(func._schema.arguments, args, there_args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                mine.copy_(there)
        return tree_map_only(torch.Tensor, lambda t: t.to("cpu"), result)

    def _there(self, t: torch.Tensor) -> torch.Tensor:
        # Strides are part of what is tested: a view stays the same view of its storage.
        if t.device.type != "cpu":
            return t
        storage = torch.empty(0, dtype=torch.uint8).set_(t.untyped_storage()).to(self.device)
        return storage.view(t.dtype).as_strided(t.shape, t.stride(), t.storage_offset())
