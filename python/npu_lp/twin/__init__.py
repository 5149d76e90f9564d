"""The CPU twin of Ascend 950: how kernels are run on it, and what they did.

``with npu_lp.backend("twin"):`` sends ops to it. Here are its settings, the records of launches, and its errors::

    from npu_lp import backend, twin

    with backend("twin"), twin.options(mode="shuffled", seed=7, record=True):
        data, scale = npu_lp.ops.mx_quant(x)
    for launch in twin.records():
        print(launch.kernel, launch.blocks, launch.summary())

docs/twin.md says what the twin checks, and what it cannot.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from npu_lp import _library

Mode = Literal["order", "shuffled", "timing"]


@dataclass(frozen=True)
class Settings:
    """How the twin runs kernels, in the whole process.

    Attributes:
        mode: "order" runs instructions in program order; "shuffled" lets the pipes of a core run in a random order that
            their flags allow, which must change nothing; "timing" computes nothing (results are whatever memory held),
            to record launches of any size.
        seed: of the shuffled order. Launches of one process differ: the n-th adds n.
        cores: AI cores, each a cube half and two vector halves. An Ascend 950PR has 32.
        strict: an index past a tensor's declared size is a fault, even if it stays inside the memory.
        record: keep what launches did, for :func:`records`.
        threads: of the host, that run the cores; 0: as many as the process has processors.
        keep: the number of launches whose records are kept.
    """

    mode: Mode = "order"
    seed: int = 0
    cores: int = 32
    strict: bool = True
    record: bool = False
    threads: int = 0
    keep: int = 64


@dataclass(frozen=True)
class Report:
    """One fault: which check found it, the line of the kernel, the block (core) it happened on, and what it was."""

    check: str
    file: str
    line: int
    block: int
    message: str


class TwinError(RuntimeError):
    """A launch that a check stopped. The message has a line for each report; ``reports`` has them in parts."""

    def __init__(self, message: str, reports: list[tuple[str, str, int, int, str]] | None = None) -> None:
        super().__init__(message)
        self.reports = tuple(Report(*report) for report in reports or ())


def settings() -> Settings:
    """Return the settings that hold now."""
    return Settings(**_library.load_twin().settings())


def set_options(**changes: Any) -> Settings:
    """Change settings, by the names of :class:`Settings`' attributes, for the rest of the process; return them all.

    Raises:
        TypeError: a name that is no attribute of :class:`Settings`.
        ValueError: a value out of its range.
    """
    changed = replace(settings(), **changes)
    _library.load_twin().set_settings(**asdict(changed))
    return changed


@contextmanager
def options(**changes: Any) -> Iterator[Settings]:
    """Change settings within a ``with``, or in a function so decorated.

    Arguments and errors are those of :func:`set_options`.
    """
    before = settings()
    try:
        yield set_options(**changes)
    finally:
        set_options(**asdict(before))


def records() -> list[Any]:
    """Return the records of launches since :func:`clear`, oldest first, where ``record`` was on.

    Each has ``kernel``, ``kind`` ("vector" or "cube"), ``blocks``, and ``summary()``: for each
    pipe the number of instructions and of bytes on the core's side.
    """
    return list(_library.load_twin().records())


def launches() -> int:
    """Return how many kernels were launched since :func:`clear`."""
    return int(_library.load_twin().launches())


def clear() -> None:
    """Forget all records."""
    _library.load_twin().clear()
