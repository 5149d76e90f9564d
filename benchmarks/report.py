"""`python -m benchmarks.report FILE`: docs/performance.md and its pictures, from the JSON of a run."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import memory
from benchmarks.cases import all_cases
from benchmarks.profile_step import Profile, table

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main(arguments: list[str]) -> int:
    """Writes the page; the files are complete or unchanged."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument(
        "files", type=Path, nargs="+", help="what `python -m benchmarks --json FILE` wrote; several, if `--only` made them"
    )
    parser.add_argument("--out", type=Path, default=DOCS / "performance.md", help="page; its picture lies beside it")
    parser.add_argument(
        "--profile", type=Path, nargs="+", default=[], help="what `python -m benchmarks.profile_step --json FILE` wrote"
    )
    parser.add_argument(
        "--kept", type=Path, nargs="+", default=[], help="the same with an allocator that keeps freed memory (see the page)"
    )
    parser.add_argument("--remark", default="", help="a paragraph about this run, below its table")
    options = parser.parse_args(arguments)
    runs = [(file, "benchmarks") for file in (*options.files, *options.kept)]
    for file, maker in (*runs, *((file, "benchmarks.profile_step") for file in options.profile)):
        if not file.exists():
            parser.error(f"{file} does not exist; `python -m {maker} --json {file}` makes it")
    profiles = [json.loads(file.read_text(encoding="utf-8")) for file in options.profile]
    content, kept = joined(options.files), joined(options.kept)
    for files, one in ((options.files, content), (options.kept, kept)):
        if files and one is None:
            given = ", ".join(map(str, files))
            parser.error(f"{given} are of different machines, allocators or days; pass files of runs that belong together")
    assert content is not None  # there is at least one file
    picture = options.out.with_suffix(".png")
    growth = picture.with_stem(picture.stem + "_growth")
    for path, draw in ((picture, draw_ratios), (growth, draw_growth)):
        part = path.with_name(path.name + ".part")
        draw(content, part)
        part.replace(path)
    part = options.out.with_name(options.out.name + ".part")
    part.write_text(page(content, kept, profiles, picture.name, growth.name, options.remark), encoding="utf-8")
    part.replace(options.out)
    print(f"{options.out}, {picture}, {growth}")
    return 0


def joined(files: list[Path]) -> dict[str, Any] | None:
    """The results of runs on one machine as those of one run; None if there are none, or the machines differ."""
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    if not contents or any(content["machine"] != contents[0]["machine"] for content in contents):
        return None
    return {"machine": contents[0]["machine"], "results": [result for one in contents for result in one["results"]]}


GROWTH = "growth with "


def of_growth(result: dict[str, Any]) -> bool:
    """Whether a result is a point of a curve, not a row of the table."""
    return str(result.get("group", "")).startswith(GROWTH)


def page(
    content: dict[str, Any],
    kept: dict[str, Any] | None,
    profiles: list[dict[str, Any]],
    picture: str,
    growth: str,
    remark: str = "",
) -> str:
    """The text: what was measured where, a line for each ratio, and where a step's time goes."""
    machine = content["machine"]
    lines = [
        "# Speed of the CPU backend",
        "",
        f"Measured on {machine['processor']} ({machine['architecture']}, {machine['cores']} cores; kernels "
        f"{machine['kernels']}; AVX-512 {yes(machine['avx512'])}, BF16 instructions {yes(machine['avx512_bf16'])}), "
        f"torch {machine['torch']}, {machine['date']}. Made by",
        "",
        "    python -m benchmarks --json benchmarks.json",
        "    python -m benchmarks.profile_step --json profile.json",
        "    python -m benchmarks.report benchmarks.json --profile profile.json",
        "",
        "Every figure is time of the peer / time of npu_lp, both measured in turn in one process: above 1, npu_lp is",
        "faster. It is the median of the rounds, with the quarter below and above; *asked* is what the project asks for on",
        "a machine with AVX-512. A round counts when other processes took less than 0.12 of a core; if too few did, the",
        "quietest of the others fill up (*noisy* says how many were rejected).",
        "",
        "npu_lp's time includes the allocation of its results, whose pages are new to the process. *memcpy* and *narrowing",
        "copy* write to memory that the process has; *to new memory* they allocate it, as every op of torch does. npu_lp",
        "asks Linux for huge pages for results of 2 MiB or more (`madvise`); torch does so with `THP_MEM_ALLOC_ENABLE=1`,",
        "which was not set here.",
        "",
        f"![ratios]({picture})",
        "",
        *rows(content),
    ]
    rounds = [len(result["seconds"]["ours"]) for result in content["results"] if "seconds" in result]
    measured = {result["case"] for result in content["results"]}
    missing = [name for name in (*(case.name for case in all_cases()), memory.NAME) if name not in measured]
    lines += ["", f"Rounds: {min(rounds)} to {max(rounds)}. Not run here: {', '.join(missing) or 'nothing'}."]
    if remark:
        lines += ["", remark]
    if kept is not None:
        lines += [
            "",
            "## With an allocator that keeps freed memory",
            "",
            "The C library gives freed tensors of this size back to the system, so that each call waits for new pages that",
            "Linux fills with zeros. PyTorch's guide to performance on CPUs recommends jemalloc (Debian: `libjemalloc2`),",
            "which can keep them. All peers run with it here:",
            "",
            "    export LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
            "    export MALLOC_CONF=oversize_threshold:1,dirty_decay_ms:-1,muzzy_decay_ms:-1",
            "    python -m benchmarks --only quantize --json kept.json     # then benchmarks.report ... --kept kept.json",
            "",
            *rows(kept),
        ]
    lines += [
        "",
        "## How cost grows",
        "",
        "Milliseconds against one quantity at a time, bf16 out; sgemm is torch's fp32 matmul of the same shape (for",
        "experts, a loop of them). Both axes are logarithmic: parallel lines are a constant ratio.",
        "",
        f"![growth]({growth})",
    ]
    if profiles:
        lines += ["", "## Where the time of a training step goes", "", *in_steps(profiles)]
    return "\n".join(lines) + "\n"


def rows(content: dict[str, Any]) -> Iterator[str]:
    """The table of a run: a line for each ratio."""
    yield "| case | threads | ours, ms | peer | ratio | asked | noisy |"
    yield "|---|---|---|---|---|---|---|"
    for result in content["results"]:
        if "ratios" not in result:
            megabytes = result["extra_bytes_per_thread"] / 2**20
            yield f"| {result['case']} | {result['threads']} | | | {megabytes:.2f} MB a thread | at most 2 MB | |"
            continue
        if of_growth(result):
            continue
        ours = sorted(result["seconds"]["ours"])
        for ratio in result["ratios"]:
            peer = ratio["peer"] if ratio["ours"] == "ours" else f"{ratio['peer']} / {ratio['ours']}"
            value = f"{ratio['median']:.2f} [{ratio['p25']:.2f}, {ratio['p75']:.2f}]"
            asked = "" if ratio["at_least"] is None else f"{ratio['at_least']}"
            milliseconds = f"{ours[len(ours) // 2] * 1e3:.2f}"
            cells = (result["case"], result["threads"], milliseconds, peer, value, asked, result["rejected"])
            yield "| " + " | ".join(map(str, cells)) + " |"


def in_steps(profiles: list[dict[str, Any]]) -> Iterator[str]:
    """A table for each model."""
    yield "DeepSeek-V4 on random tokens with AdamW, by self time of what torch's profiler records. *ours* are npu_lp's ops."
    for content in profiles:
        recipes = {name: Profile(**recipe) for name, recipe in content["recipes"].items()}
        yield ""
        yield (
            f"`python -m benchmarks.profile_step --model {content['model']} --batch {content['batch']} --length "
            f"{content['length']} --threads {content['threads']} --recipe {' '.join(recipes)}`:"
        )
        yield ""
        yield table(recipes)


def yes(flag: bool) -> str:
    """For a sentence."""
    return "yes" if flag else "no"


def draw_growth(content: dict[str, Any], path: Path) -> None:
    """A panel for each quantity: median times of ours and sgemm, by number of threads."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    results = [result for result in content["results"] if of_growth(result)]
    figure, panels = plt.subplots(1, 5, figsize=(15, 3.4))
    for axes, quantity in zip(panels, ("M", "N", "K", "experts"), strict=False):
        points = [result for result in results if result["group"] == GROWTH + quantity]
        for threads in sorted({result["threads"] for result in points}):
            for name, color in (("ours", "#4477aa"), ("sgemm", "#aaaaaa")):
                curve = [
                    (r["size"][quantity], statistics.median(r["seconds"][name]) * 1e3)
                    for r in points
                    if r["threads"] == threads
                ]
                style = "-" if threads == 1 else "--"
                axes.plot(*zip(*curve, strict=True), style, marker=".", color=color, label=f"{name}, {threads} thr.")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlabel(quantity)
    panels[0].set_ylabel("ms")
    panels[0].legend(fontsize=7)
    for result in results:
        if result["group"] != GROWTH + "threads":
            continue
        speedups = [1.0, *(ratio["median"] for ratio in result["ratios"])]
        panels[4].plot(range(1, len(speedups) + 1), speedups, marker=".", color="#4477aa")
        panels[4].set(xlabel="threads", ylabel="speed-up, 2048x2048x2048", xticks=range(1, len(speedups) + 1))
    figure.tight_layout()
    figure.savefig(path, dpi=110, format="png")
    plt.close(figure)


def draw_ratios(content: dict[str, Any], path: Path) -> None:
    """One bar a ratio, with its quartiles, and a mark where one is asked for."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    bars = [
        (f"{result['case']}, {result['threads']} thr.: {ratio['peer']}", ratio)
        for result in content["results"]
        if not of_growth(result)
        for ratio in result.get("ratios", ())
        if ratio["ours"] == "ours"
    ]
    figure, axes = plt.subplots(figsize=(9, 0.22 * len(bars) + 1.2))
    for y, (_, ratio) in enumerate(bars):
        axes.barh(y, ratio["median"], color="#4477aa" if ratio["median"] >= 1 else "#aaaaaa")
        axes.plot([ratio["p25"], ratio["p75"]], [y, y], color="black", linewidth=1)
        if ratio["at_least"] is not None:
            axes.plot(ratio["at_least"], y, marker="|", color="#cc3311", markersize=9, markeredgewidth=2)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=7)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("time of peer / time of npu_lp (red: asked for on AVX-512)")
    axes.margins(y=0.005)
    figure.savefig(path, dpi=110, format="png", bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
