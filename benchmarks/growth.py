"""How cost grows: one quantity is varied, the others stay as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import torch
from npu_lp import ops
from torch.nn import functional as F

from benchmarks import peers
from benchmarks.cases import Case, Goal, quantized

BASE = {"M": 256, "N": 1024, "K": 1024}
VALUES = {
    "M": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "N": (128, 256, 512, 1024, 2048, 4096),
    "K": (128, 256, 512, 1024, 2048, 4096),
    "experts": (1, 2, 4, 8, 16, 32, 64, 128),
}
TOKENS = 1024  # shared by all experts, so that what grows with them is what an expert costs

Functions = dict[str, Callable[[], object]]


def growth() -> Iterator[Case]:
    """Matmuls with M, N, K and the number of experts; then one matmul with threads, all counts in turn in each round."""
    for axis in ("M", "N", "K"):
        for value in VALUES[axis]:
            size = BASE | {axis: value}
            yield Case(
                f"growth with {axis}: {size['M']}x{size['N']}x{size['K']}",
                f"growth with {axis}",
                lambda size=size: _matmul(size),  # type: ignore[misc]
                (Goal("sgemm", "ours"),),
                {axis: value},
            )
    for experts in VALUES["experts"]:
        yield Case(
            f"growth with experts: {experts} of {TOKENS} tokens together",
            "growth with experts",
            lambda experts=experts: _grouped(experts),  # type: ignore[misc]
            (Goal("sgemm", "ours"),),
            {"experts": experts},
        )
    counts = range(1, (os.cpu_count() or 1) + 1)
    yield Case(
        "growth with threads: 2048x2048x2048",
        "growth with threads",
        lambda: _threads(counts),
        tuple(Goal("ours", f"ours, {count} threads") for count in counts if count > 1),
    )


def _matmul(size: dict[str, int]) -> Functions:
    (a, a_scale), (b, b_scale) = quantized(size["M"], size["K"]), quantized(size["N"], size["K"], seed=1)
    x, w = torch.randn(size["M"], size["K"]), torch.randn(size["N"], size["K"])
    return {
        "ours": lambda: ops.mx_quant_matmul(a, b.T, a_scale, b_scale.transpose(0, 1)),
        "sgemm": lambda: F.linear(x, w),
    }


def _grouped(experts: int) -> Functions:
    n, k = BASE["N"], BASE["K"]
    ends = [TOKENS * (i + 1) // experts for i in range(experts)]
    offs = torch.tensor(ends)
    (a, a_scale), (b, b_scale) = quantized(TOKENS, k), quantized(experts, n, k, seed=1)
    x, w = torch.randn(TOKENS, k), torch.randn(experts, n, k).transpose(1, 2)
    return {
        "ours": lambda: ops.mx_grouped_matmul(a, b.transpose(1, 2), a_scale, b_scale.transpose(1, 2), offs),
        "sgemm": peers.loop(x, w, ends),
    }


def _threads(counts: range) -> Functions:
    (a, a_scale), (b, b_scale) = quantized(2048, 2048), quantized(2048, 2048, seed=1)

    def with_threads(count: int) -> Callable[[], object]:
        def run() -> None:
            torch.set_num_threads(count)
            ops.mx_quant_matmul(a, b.T, a_scale, b_scale.transpose(0, 1))

        return run

    return {"ours" if count == 1 else f"ours, {count} threads": with_threads(count) for count in counts}
