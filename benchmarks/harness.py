"""Measures functions against each other on a machine that is never quite still.

Everything of a case runs A B C A B C ...: what slows the machine for a second slows all of them, and a ratio of two times
of one round hardly moves. A round counts only if meanwhile neither other processes nor the hypervisor took more than
`LIMIT` of a core.
"""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

LIMIT = 0.12  # of one core
_SHORTEST = 0.02  # seconds: a shorter function is called several times in a row
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Quartiles:
    """Of ratios or seconds: the median between the quarter below and the quarter above."""

    p25: float
    median: float
    p75: float

    @staticmethod
    def of(values: Sequence[float]) -> Quartiles:
        """At least one value."""
        if len(values) == 1:
            return Quartiles(values[0], values[0], values[0])
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return Quartiles(low, middle, high)


@dataclass
class Measurement:
    """Seconds of each function in each accepted round, in the order of rounds."""

    seconds: dict[str, list[float]]
    rejected: int = 0
    noise: list[float] = field(default_factory=list)

    def ratio(self, numerator: str, denominator: str) -> Quartiles:
        """Quartiles of the ratio of two functions' times within a round: above 1, the denominator is the faster one."""
        return Quartiles.of([a / b for a, b in zip(self.seconds[numerator], self.seconds[denominator], strict=True)])

    def time(self, name: str) -> Quartiles:
        """Quartiles of one function's seconds (they move with the machine; the ratios do not)."""
        return Quartiles.of(self.seconds[name])


class Noise:
    """What others took of the machine since the last call, in cores: other processes' time, or the hypervisor's steal."""

    def __init__(self) -> None:
        self._last = self._read()

    @staticmethod
    def _read() -> tuple[float, float, float, float]:
        with open("/proc/stat", encoding="ascii") as lines:
            fields = [int(x) / _TICK for x in lines.readline().split()[1:]]
        user, nice, system, _, _, irq, softirq, steal = fields[:8]
        own = os.times()
        busy = user + nice + system + irq + softirq
        return time.perf_counter(), busy, own.user + own.system, steal

    def cores(self) -> float:
        """The larger of the two, as a number of cores."""
        now = self._read()
        wall, busy, own, steal = (b - a for a, b in zip(self._last, now, strict=True))
        self._last = now
        return max(busy - own, steal, 0.0) / max(wall, 1e-9)


def measure(
    functions: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    most_rounds: int | None = None,
    on_round: Callable[[int, int], None] = lambda done, rejected: None,
) -> Measurement:
    """Times `functions` in turn until `rounds` rounds were quiet, or `most_rounds` (three times as many) were tried.

    If too few were quiet, the quietest of the others fill up: `rejected` then is larger than the number that was dropped
    for good, and `noise` shows each used round's disturbance in cores.
    """
    most_rounds = 3 * rounds if most_rounds is None else most_rounds
    repeats = {}
    for name, function in functions.items():
        function()  # first calls allocate, start threads, choose kernels
        begin = time.perf_counter()
        function()
        repeats[name] = max(1, round(_SHORTEST / max(time.perf_counter() - begin, 1e-7)))
    quiet: list[tuple[float, dict[str, float]]] = []
    noisy: list[tuple[float, dict[str, float]]] = []
    gc.collect()
    gc.disable()
    try:
        while len(quiet) < rounds and len(quiet) + len(noisy) < most_rounds:
            noise, times = Noise(), {}
            for name, function in functions.items():
                begin = time.perf_counter()
                for _ in range(repeats[name]):
                    function()
                times[name] = (time.perf_counter() - begin) / repeats[name]
            disturbance = noise.cores()
            (quiet if disturbance <= LIMIT else noisy).append((disturbance, times))
            on_round(len(quiet), len(noisy))
    finally:
        gc.enable()
    used = quiet + sorted(noisy, key=lambda pair: pair[0])[: rounds - len(quiet)]
    return Measurement(
        {name: [times[name] for _, times in used] for name in functions},
        rejected=len(noisy),
        noise=[round(disturbance, 3) for disturbance, _ in used],
    )


def machine() -> dict[str, object]:
    """What the figures belong to: processor, instruction set, cores, allocator (if another one is preloaded), versions."""
    capabilities = torch.cpu.get_capabilities()
    return {
        "processor": capabilities.get("cpu_name", platform.processor()),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "kernels": torch.ops.npu_lp._cpu_kernels()[0],
        "avx512": bool(capabilities.get("avx512_f", False)),
        "avx512_bf16": bool(capabilities.get("avx512_bf16", False)),
        "preloaded": Path(os.environ.get("LD_PRELOAD", "")).name or "nothing",
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }
