"""Prints what the twin's timing model says of the kernels, as the table of docs/twin_timing.md.

    python scripts/model_table.py

Grouped shapes have 64 groups of 0 to 512 tokens, drawn with seed 0, and are shown for three draws.
"""

from __future__ import annotations

import random

from npu_lp.twin import profile
from npu_lp.twin.profile import Machine, Timing

MATMULS = [(2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 7168, 2048)]
GROUPED = [(6144, 7168), (7168, 3072), (4096, 2048)]
QUANTIZERS = ("mx_quant", "mx_quant_dual", "mx_quant_grouped", "mx_quant_block", "mx_to_block", "mx_dequant", "hif8_quant")
DT = "950DT_9581"


def offsets(seed: int, groups: int = 64, most: int = 512) -> list[int]:
    """Ends of groups of random sizes."""
    draw = random.Random(seed)
    ends, end = [], 0
    for _ in range(groups):
        end += draw.randint(0, most)
        ends.append(end)
    return ends


def row(name: str, timings: list[Timing], share: str) -> None:
    """One line of the table."""
    us = sum(t.total_us for t in timings)
    print(f"| {name} | {us:.1f} | {share} | {timings[-1].bound_by} |", flush=True)


def busy(timings: list[Timing]) -> float:
    """Part of the launch in which the cube multiplies, as msprof's aic_mac_ratio."""
    return float(timings[0].pipes["CUBE"]["share"])


def cube(timings: list[Timing]) -> str:
    """Busy share of the cube."""
    return f"cube {busy(timings):.1%}"


def main() -> None:
    """Prints the table."""
    print("| kernel and shape, 950PR unless said otherwise | us | | bound by |\n|---|---|---|---|")
    for m, n, k in MATMULS:
        timings = profile.mx_matmul(m, n, k)
        row(f"mx_matmul mxfp8 {m}x{n}x{k} (m, n, k)", timings, cube(timings))
    timings = profile.mx_matmul(8192, 8192, 8192, "e2m1")
    row("mx_matmul mxfp4 8192^3", timings, cube(timings))
    for n, k in GROUPED:
        for machine in (Machine(), Machine(sku=DT)):
            draws = [profile.mx_grouped_matmul(n, k, offsets(seed), machine=machine) for seed in range(3)]
            shares = ", ".join(f"{busy(draw):.1%}" for draw in draws)
            place = "" if machine.sku == Machine().sku else f", {machine.sku}"
            row(f"mx_grouped_matmul n {n} k {k}{place}, three draws", draws[0], f"cube {shares}")
    for kernel in QUANTIZERS:
        timings = profile.quantize(kernel, 8192, 7168)
        moved = sum(t.counters["gm_read"] + t.counters["gm_written"] for t in timings)
        seconds = sum(t.total_us for t in timings) * 1e-6
        row(f"{kernel} 8192x7168", timings, f"{moved / seconds / 1e12:.2f} TB/s")


if __name__ == "__main__":
    main()
