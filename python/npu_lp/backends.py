"""Which implementation of the ops CPU tensors are sent to: the CPU backend, or the Ascend kernels on their twin."""

import os
import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import Literal

import torch

from npu_lp import _library

BACKENDS = ("cpu", "twin")
VARIABLE = "NPU_LP_BACKEND"
BackendName = Literal["cpu", "twin"]


class backend(ContextDecorator):
    """Send CPU tensors through a backend, within ``with npu_lp.backend("twin"):`` or a function so decorated.

    * ``"cpu"``: the CPU backend (the default).
    * ``"twin"``: the kernels for Ascend 950, their tiling and their launches, run and watched on the CPU twin
      (:mod:`npu_lp.twin`). Far slower; for tests. What has no Ascend kernel raises NotImplementedError.

    The choice holds for the whole process, so that it reaches autograd's backward threads: do not enter it in two threads
    at once with different names. Tensors on an NPU, or on the meta device, are not concerned. The environment variable
    NPU_LP_BACKEND chooses for a process what holds outside of any ``with``.

    Raises:
        ValueError: the name is not a backend.
        ImportError: the twin's library is missing or cannot be loaded; the message says what to do.
    """

    def __init__(self, name: BackendName) -> None:
        check(name, "npu_lp.backend")
        self.name = name
        self._outer: list[str] = []

    def __enter__(self) -> "backend":
        self._outer.append(selected())
        try:
            select(self.name)
        except BaseException:
            self._outer.pop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        select(self._outer.pop())


_loading = threading.Lock()


def check(name: str, what: str) -> None:
    """Raise ValueError unless ``name`` is a backend."""
    if name not in BACKENDS:
        allowed = " or ".join(f'"{known}"' for known in BACKENDS)
        raise ValueError(f'{what}: there is no backend "{name}". Pass {allowed}.')


def select(name: str) -> None:
    """Choose a backend for the whole process, loading it first if it must be."""
    check(name, "npu_lp.backend")
    if name == "twin":
        with _loading:
            _library.load_twin()
    torch.ops.npu_lp._select_backend(name)


def selected() -> str:
    """Return the name of the backend that CPU tensors go to."""
    return str(torch.ops.npu_lp._selected_backend())


def select_from_environment() -> None:
    """Choose what NPU_LP_BACKEND names, if it is set."""
    name = os.environ.get(VARIABLE, "")
    if name:
        check(name, VARIABLE)
        select(name)
