"""`python -m benchmarks`: measures, prints, writes JSON. See `--help`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import memory
from benchmarks.cases import Case, all_cases
from benchmarks.growth import growth
from benchmarks.harness import LIMIT, Measurement, machine, measure


def main(arguments: list[str]) -> int:
    """Returns the process's exit status: 1 when --check was given and a ratio is below what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Times npu_lp's CPU backend in turn with its peers and prints ratios of times: above 1, ours is faster.",
    )
    parser.add_argument("--rounds", type=int, default=9, help="quiet rounds to collect for each case (default 9)")
    parser.add_argument("--only", default="", help="run the cases whose name contains this, e.g. 'matmul 16x'")
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads (default: 1 and all cores)")
    parser.add_argument(
        "--json", type=Path, default=Path("benchmarks.json"), help="where the results go (default %(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a ratio is below what is asked for")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it must be at least 1")
    chosen = [case for case in (*all_cases(), *growth()) if options.only in case.name]
    with_memory = options.only in memory.NAME
    if options.list:
        print("\n".join([*(case.name for case in chosen), *([memory.NAME] if with_memory else [])]))
        return 0
    if not chosen and not with_memory:
        parser.error(f"--only {options.only!r} is in no case's name; --list shows them")
    threads = options.threads or sorted({1, os.cpu_count() or 1})
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(f"a round counts if others took at most {LIMIT} of a core meanwhile; quartiles are [25 %, 75 %]\n", flush=True)
    results: list[dict[str, object]] = []
    missed = 0
    for case in chosen:
        # The case that varies the number of threads sets it by itself.
        for count in (1,) if case.group == "growth with threads" else threads:
            torch.set_num_threads(count)
            torch.manual_seed(0)
            progress = _progress(f"{case.name}, {count} thread(s)", options.rounds)
            measured = measure(case.setup(), options.rounds, on_round=progress)
            missed += _report(case, count, measured)
            results.append(_as_json(case, count, measured))
            _write(options.json, {"machine": about, "results": results})
    if with_memory:
        extra = memory.extra_peak(threads[-1])
        print(f"{memory.NAME}: {extra / 2**20:.2f} MB a thread (asked: at most 2, aim 1)")
        results.append({"case": memory.NAME, "threads": threads[-1], "extra_bytes_per_thread": extra})
        missed += extra > 2 * 2**20
        _write(options.json, {"machine": about, "results": results})
    print(f"\n{missed} figure(s) below what is asked for. Results: {options.json}")
    return 1 if options.check and missed else 0


def _progress(title: str, rounds: int) -> Callable[[int, int], None]:
    def show(quiet: int, noisy: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{title}: {quiet}/{rounds} rounds, {noisy} noisy ", end="", file=sys.stderr, flush=True)
            if quiet == rounds:
                print("\r\033[K", end="", file=sys.stderr, flush=True)

    return show


def _report(case: Case, threads: int, measured: Measurement) -> int:
    missed = 0
    title = f"{case.name}, {threads} thread(s): ours"
    print(f"{title} {measured.time('ours').median * 1e3:.2f} ms, {measured.rejected} noisy rounds")
    for goal in case.goals:
        if goal.peer not in measured.seconds:
            print(f"  {goal.peer:28} not measured: {case.absent}")
            continue
        ratio = measured.ratio(goal.peer, goal.ours)
        verdict = ""
        if goal.at_least is not None:
            below = ratio.median < goal.at_least
            missed += below
            verdict = f"  {'BELOW' if below else 'ok'} (asked {goal.at_least}, aim {goal.aim})"
        name = goal.peer if goal.ours == "ours" else f"{goal.peer} / {goal.ours}"
        print(f"  {name:28} {ratio.median:7.2f} [{ratio.p25:.2f}, {ratio.p75:.2f}]{verdict}")
    sys.stdout.flush()
    return missed


def _as_json(case: Case, threads: int, measured: Measurement) -> dict[str, object]:
    return {
        "case": case.name,
        "group": case.group,
        "size": case.size,
        "threads": threads,
        "seconds": measured.seconds,
        "rejected": measured.rejected,
        "noise": measured.noise,
        "ratios": [
            {"peer": goal.peer, "ours": goal.ours, "at_least": goal.at_least, "aim": goal.aim}
            | vars(measured.ratio(goal.peer, goal.ours))
            for goal in case.goals
            if goal.peer in measured.seconds
        ],
    }


def _write(path: Path, content: dict[str, object]) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1), encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
