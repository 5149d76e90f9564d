"""Quantized weights that are kept from one use to the next, as long as nothing can have changed them.

Off unless :class:`npu_lp.cache_quantized_weights` names a model's weights. What is kept belongs to a parameter at one
version: its identity, its version counter (which in-place operations raise), its storage (which assigning ``.data``
replaces) and the geometry of what is multiplied are compared at every use. A step of any torch.optim.Optimizer drops all:
fused ones do not raise the version.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from npu_lp.autograd.schemes import Pair, Quantized, Scheme
from npu_lp.config import Config


class QuantizedWeight:
    """Codes of one weight for one config, each quantized when it is first asked for."""

    def __init__(self) -> None:
        self._last: Quantized | None = None
        self._first: Quantized | None = None

    def quantize(self, scheme: Scheme, weight: Tensor, dtype: torch.dtype, *, last: bool, first: bool) -> Pair:
        """As Scheme.quantize of ``weight.to(dtype)`` in the role of a weight."""
        make_last, make_first = last and self._last is None, first and self._first is None
        if make_last or make_first:
            # Forward under inference_mode may be what fills it, and a training step what uses it.
            with torch.inference_mode(False), torch.no_grad():
                made_last, made_first = scheme.quantize(weight.to(dtype), "weight", last=make_last, first=make_first)
            # Another thread may fill the other one meanwhile: only what was made is written.
            if make_last:
                self._last = made_last
            if make_first:
                self._first = made_first
        return self._last if last else None, self._first if first else None

    def storages(self) -> dict[int, int]:
        """Address and bytes of the memory that is kept."""
        kept = [t.untyped_storage() for pair in (self._last, self._first) if pair is not None for t in pair]
        return {storage.data_ptr(): storage.nbytes() for storage in kept}


class _Entry:
    """A parameter, and what is kept of it."""

    def __init__(self, parameter: Tensor) -> None:
        self.parameter = parameter  # held, so that its id stays its own
        self.version = -1
        self.storage = StorageWeakRef(parameter.untyped_storage())  # held, so that no new storage gets its address
        self.forms: dict[object, QuantizedWeight] = {}

    def form(self, weight: Tensor, config: Config, dtype: torch.dtype) -> QuantizedWeight:
        storage = self.parameter.untyped_storage()
        if self.version != self.parameter._version or self.storage.cdata != storage._cdata:
            # In this order: another thread that finds the new version finds no old forms.
            self.forms, self.storage, self.version = {}, StorageWeakRef(storage), self.parameter._version
        key = (config, dtype, weight.dtype, weight.shape, weight.stride(), weight.storage_offset())
        return self.forms.setdefault(key, QuantizedWeight())


_entries: dict[int, _Entry] = {}  # of the process, so that it holds in autograd's backward threads too
_after_optimizer_steps: RemovableHandle | None = None


def _forget_all(*_: Any) -> None:
    for entry in list(_entries.values()):  # another thread may add some
        entry.forms = {}


def lookup(weight: Tensor, config: Config, dtype: torch.dtype) -> QuantizedWeight | None:
    """What is kept of a weight that is multiplied in ``dtype``, or None if it is not to be kept.

    The weight is a parameter that was added, or a view of one.
    """
    if torch.compiler.is_compiling() or not _entries:
        return None
    entry = _entries.get(id(weight)) or _entries.get(id(weight._base))
    return None if entry is None else entry.form(weight, config, dtype)


def add(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Keep quantized forms of these parameters; returns those that were not kept yet."""
    global _after_optimizer_steps
    if _after_optimizer_steps is None:
        _after_optimizer_steps = register_optimizer_step_post_hook(_forget_all)
    added = [parameter for parameter in parameters if id(parameter) not in _entries]
    _entries.update({id(parameter): _Entry(parameter) for parameter in added})
    return added


def remove(parameters: Iterable[Tensor]) -> None:
    """Forget them."""
    global _after_optimizer_steps
    for parameter in parameters:
        del _entries[id(parameter)]
    if not _entries and _after_optimizer_steps is not None:
        _after_optimizer_steps.remove()
        _after_optimizer_steps = None


def nbytes(parameters: Iterable[Tensor]) -> int:
    """Bytes that are kept for these parameters."""
    storages: dict[int, int] = {}
    for parameter in parameters:
        for form in _entries[id(parameter)].forms.values():
            storages.update(form.storages())
    return sum(storages.values())
