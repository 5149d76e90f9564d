"""`python -m benchmarks.profile_step`: where the time of a training step goes, by kind of work.

Every event that torch's profiler sees counts with its self time, so the kinds add up to the step; what no event covers is
Python between them. Recording costs a microsecond or two an event: a step of many small ops looks slower than it is, so
the wall time without the profiler is printed too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from npu_lp import recipes

from benchmarks.harness import machine
from benchmarks.step import MODELS, step_of

_MATMULS = ("mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "einsum", "_grouped_mm", "mv", "dot", "mkldnn_linear")
_COPIES = ("copy_", "_to_copy", "clone", "contiguous", "to", "cat", "stack", "repeat")
_FILLS = ("empty", "empty_strided", "empty_like", "zeros", "zero_", "zeros_like", "fill_", "new_zeros", "new_empty",
          "resize_", "ones", "full", "new_empty_strided", "ones_like", "scalar_tensor")  # fmt: skip
_VIEWS = ("view", "_unsafe_view", "reshape", "transpose", "t", "permute", "slice", "select", "as_strided", "expand",
          "unsqueeze", "squeeze", "split", "unbind", "detach", "alias", "chunk", "narrow", "unflatten", "flatten",
          "_reshape_alias", "movedim", "split_with_sizes", "view_as", "expand_as", "numpy_T", "mT")  # fmt: skip
_INDEXING = ("index", "gather", "scatter", "scatter_add_", "index_put_", "_index_put_impl_", "index_add_", "embedding",
             "embedding_dense_backward", "index_select", "topk", "sort", "argsort", "cumsum", "nonzero", "scatter_",
             "gather_backward", "scatter_add", "index_add", "bincount", "histc", "one_hot", "take_along_dim", "isin",
             "searchsorted", "_unsafe_index", "masked_fill", "masked_fill_", "where")  # fmt: skip
_OURS = ("_LowPrecisionMatmul", "_GroupedLinear")


def kind_of(event: str) -> str:
    """What an event of the profiler is, by its name."""
    if event.startswith("npu_lp::"):
        op = event.removeprefix("npu_lp::")
        if op.startswith(("mx_linear", "hif8_linear")):
            return "ours: quantize + matmul"
        return "ours: matmul" if "matmul" in op else "ours: quantize"
    if any(name in event for name in _OURS):
        return "ours: Python of the autograd functions"
    if event.startswith("Optimizer."):
        return "optimizer"
    if event.startswith("autograd::") or event.endswith(("Backward", "Backward0", "Backward1", "AccumulateGrad")):
        return "autograd's nodes"
    if not event.startswith("aten::"):
        return "other"
    op = event.removeprefix("aten::")
    if "attention" in op:
        return "torch: attention"
    for kind, names in (
        ("torch: matmul", _MATMULS),
        ("torch: copies, casts", _COPIES),
        ("torch: allocations, fills", _FILLS),
        ("torch: views", _VIEWS),
        ("torch: indexing, sorting", _INDEXING),
    ):
        if op in names or (op.endswith("_backward") and op.removesuffix("_backward") in names):
            return kind
    return "optimizer" if op.startswith(("_foreach", "_fused")) else "torch: elementwise, norms, sums"


@dataclass(frozen=True)
class Profile:
    """Milliseconds of one step, by kind and by event."""

    wall_ms: float
    profiled_ms: float
    kinds: dict[str, float]
    calls: dict[str, int]
    top: list[tuple[str, int, float]]


def profile(step: Callable[[], object], steps: int) -> Profile:
    """One step under the profiler, and the median wall time of `steps` without it."""
    for _ in range(2):
        step()
    walls = [_seconds(step) for _ in range(steps)]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        profiled = _seconds(step)
    kinds: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    averages = recorded.key_averages()
    for event in averages:
        kinds[kind_of(event.key)] += event.self_cpu_time_total / 1e3
        calls[kind_of(event.key)] += event.count
    kinds["Python between events"] = profiled * 1e3 - sum(kinds.values())
    top = sorted(averages, key=lambda event: -event.self_cpu_time_total)[:12]
    return Profile(
        statistics.median(walls) * 1e3,
        profiled * 1e3,
        dict(sorted(kinds.items(), key=lambda item: -item[1])),
        dict(calls),
        [(event.key, event.count, event.self_cpu_time_total / 1e3) for event in top],
    )


def _seconds(step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def table(profiles: dict[str, Profile]) -> str:
    """Markdown: a row for each kind, milliseconds and share for each recipe."""
    kinds = dict.fromkeys(kind for p in profiles.values() for kind in p.kinds)
    order = sorted(kinds, key=lambda kind: -max(p.kinds.get(kind, 0) for p in profiles.values()))
    lines = ["| kind | " + " | ".join(f"{name}, ms | % | calls" for name in profiles) + " |"]
    lines.append("|---" + "|---:|---:|---:" * len(profiles) + "|")
    for kind in order:
        cells = []
        for p in profiles.values():
            ms = p.kinds.get(kind, 0.0)
            cells.append(f"{ms:.1f} | {100 * ms / p.profiled_ms:.0f} | {p.calls.get(kind, 0) or ''}")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    cells = [f"{p.profiled_ms:.1f} | ({p.wall_ms:.1f} unprofiled) | " for p in profiles.values()]
    lines.append("| **step** | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """See --help."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_step", description="Where a step's time goes.")
    parser.add_argument("--model", choices=MODELS, default="debug")
    parser.add_argument("--recipe", nargs="+", choices=recipes.NAMES, default=["all_mxfp8"], help="default: all_mxfp8")
    parser.add_argument("--batch", type=int, help="default: 4, mid 1")
    parser.add_argument("--length", type=int, help="default: 256, mid 512")
    parser.add_argument("--steps", type=int, default=3, help="steps to time without the profiler (default 3)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--as-torch", action="store_true", help="BF16 matmuls as torch does them, not in fp32")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args(arguments)
    options.batch = options.batch or (1 if options.model == "mid" else 4)
    options.length = options.length or (512 if options.model == "mid" else 256)
    torch.set_num_threads(options.threads)
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(f"DeepSeek-V4 {options.model}, {options.batch} x {options.length} tokens, {options.threads} thread(s)\n")
    profiles = {}
    for recipe in options.recipe:
        step = step_of(recipe, options.batch, options.length, wide=not options.as_torch, model=options.model, optimize=True)
        profiles[recipe] = profile(step, options.steps)
        del step
    print(table(profiles))
    for name, p in profiles.items():
        print(f"\n{name}, events by self time:")
        print("\n".join(f"  {ms:8.2f} ms  {count:5} x  {event}" for event, count, ms in p.top))
    if options.json is not None:
        size = {"model": options.model, "batch": options.batch, "length": options.length, "threads": options.threads}
        content = {"machine": about, **size, "recipes": {name: asdict(p) for name, p in profiles.items()}}
        part = options.json.with_name(options.json.name + ".part")
        part.write_text(json.dumps(content, indent=1), encoding="utf-8")
        part.replace(options.json)


if __name__ == "__main__":
    main(sys.argv[1:])
