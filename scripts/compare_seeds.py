"""Trains recipes next to BF16 over several seeds and writes the gap of their losses: a table and a picture in docs/.

    python scripts/compare_seeds.py --recipes all_mxfp8 --seeds 0 1 2 [-- --training.steps 200]

Runs one after the other, each in its folder under --work; a run that is already complete there, with the same flags, is
not repeated, so an interrupted comparison goes on where it stopped. What follows `--` are torchtitan flags for all runs.

The number of a run is the mean loss of its last 20 steps; a recipe's gap is relative to BF16 of the same seed, which has
the same initial weights and sees the same data. How far BF16's own seeds lie apart shows what chance does.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npu_lp import recipes
from npu_lp.titan.metrics import LAST_STEPS, METRICS_FILE, SUMMARY_FILE, duration, read_metrics, write_atomically

ROOT = Path(__file__).resolve().parent.parent
BASELINE = "bf16"


@dataclass(frozen=True)
class Run:
    recipe: str
    seed: int
    folder: Path
    command: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.recipe} seed {self.seed}"

    def complete(self) -> bool:
        """Whether the folder holds a finished run of this very command."""
        summary, command = self.folder / SUMMARY_FILE, self.folder / "command.json"
        if not (summary.exists() and command.exists()):
            return False
        result = json.loads(summary.read_text())
        return result["steps"] == result["total_steps"] and json.loads(command.read_text()) == list(self.command)

    def losses(self) -> list[float]:
        return [record["loss"] for record in read_metrics(self.folder / METRICS_FILE) if "loss" in record]

    def score(self) -> float:
        return statistics.fmean(self.losses()[-LAST_STEPS:])


def plan(args: argparse.Namespace, flags: Sequence[str]) -> list[Run]:
    runs = []
    for seed in args.seeds:
        for recipe in [BASELINE, *args.recipes]:
            folder = args.work / args.model / f"{args.flavor}_{recipe}_seed{seed}"
            module = ["--module", f"npu_lp.titan.{args.model}", "--config", f"{args.flavor}_{recipe}"]
            own = ["--dump_folder", str(folder), "--debug.seed", str(seed), "--dataloader.seed", str(seed)]
            command = ("-m", "npu_lp.titan.train", *module, *own, *flags)
            runs.append(Run(recipe, seed, folder, command))
    return runs


def train(run: Run, place: str) -> None:
    """Runs one training to its end, showing its progress; its log goes to train.log in its folder."""
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / SUMMARY_FILE).unlink(missing_ok=True)
    write_atomically(run.folder / "command.json", json.dumps(run.command))
    log = run.folder / "train.log"
    begin = time.monotonic()
    with log.open("w") as out:
        process = subprocess.Popen([sys.executable, *run.command], stdout=out, stderr=subprocess.STDOUT)
        try:
            shown = 0
            while process.poll() is None:
                time.sleep(2)
                shown = show_progress(run, place, begin, shown)
        except KeyboardInterrupt:
            process.wait()  # it has got the Ctrl-C as well, and ends after its step
            raise
    if sys.stdout.isatty():
        print()
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise SystemExit(f"{run.name} failed with status {process.returncode}; the end of {log}:\n{tail}")


def show_progress(run: Run, place: str, begin: float, shown: int) -> int:
    """Prints where the run is: on a terminal the same line each time, else a line every 25 steps; the last step shown."""
    metrics = run.folder / METRICS_FILE
    started = time.time() - (time.monotonic() - begin)
    if not metrics.exists() or metrics.stat().st_mtime < started:  # of an earlier run
        return shown
    complete = metrics.read_text().rpartition("\n")[0].splitlines()
    records = [record for record in map(json.loads, complete) if "loss" in record]
    terminal = sys.stdout.isatty()
    if not records or (not terminal and records[-1]["step"] < shown + 25):
        return shown
    step, loss = records[-1]["step"], records[-1]["loss"]
    text = f"{place} {run.name}: step {step}, loss {loss:.4f}, {duration(time.monotonic() - begin)}"
    print(f"\r{text:<78}" if terminal else text, end="" if terminal else "\n", flush=True)
    return step


def table(runs: list[Run], args: argparse.Namespace, command: str, picture: str) -> str:
    scores = {(run.recipe, run.seed): run.score() for run in runs}
    firsts = {(run.recipe, run.seed): run.losses()[0] for run in runs}
    steps = len(runs[0].losses())
    base = [scores[BASELINE, seed] for seed in args.seeds]
    lines = [
        f"# {args.model} {args.flavor}: {', '.join(args.recipes)} against BF16",
        "",
        f"Mean loss of the last {LAST_STEPS} of {steps} steps; in brackets the gap to BF16 of the same seed. Made by",
        "",
        f"    {command}",
        "",
        f"![loss curves]({picture})",
        "",
        "| seed | first loss | bf16 | " + " | ".join(args.recipes) + " |",
        "|---|---|---|" + "---|" * len(args.recipes),
    ]
    for seed in args.seeds:
        cells = [f"{scores[r, seed]:.4f} ({gap(scores, r, seed):+.2f}%)" for r in args.recipes]
        row = [str(seed), f"{firsts[BASELINE, seed]:.4f}", f"{scores[BASELINE, seed]:.4f}", *cells]
        lines.append("| " + " | ".join(row) + " |")
    lines.append("")
    for recipe in args.recipes:
        gaps = [gap(scores, recipe, seed) for seed in args.seeds]
        lines.append(
            f"- `{recipe}`: mean gap {statistics.fmean(gaps):+.2f}%, mean size of the gap "
            f"{statistics.fmean(map(abs, gaps)):.2f}%, largest {max(map(abs, gaps)):.2f}%."
        )
    spread = 100 * (max(base) - min(base)) / statistics.fmean(base)
    drops = [100 * (1 - scores[BASELINE, seed] / firsts[BASELINE, seed]) for seed in args.seeds]
    lines += [
        f"- BF16's own seeds lie {spread:.2f}% apart (largest minus smallest, of their mean).",
        f"- BF16's loss falls by {min(drops):.1f}% to {max(drops):.1f}% from the first step to the last {LAST_STEPS}.",
    ]
    return "\n".join(lines) + "\n"


def gap(scores: dict[tuple[str, int], float], recipe: str, seed: int) -> float:
    return 100 * (scores[recipe, seed] / scores[BASELINE, seed] - 1)


def running_mean(values: list[float], width: int = LAST_STEPS) -> list[float]:
    return [statistics.fmean(values[max(0, i + 1 - width) : i + 1]) for i in range(len(values))]


def draw(runs: list[Run], args: argparse.Namespace, out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6.5), dpi=120, layout="constrained")
    curves, gaps = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    for number, recipe in enumerate([BASELINE, *args.recipes]):
        for seed in args.seeds:
            losses = next(run.losses() for run in runs if (run.recipe, run.seed) == (recipe, seed))
            steps = range(1, len(losses) + 1)
            style = {"color": f"C{number}", "linewidth": 1.1, "label": recipe if seed == args.seeds[0] else None}
            curves.plot(steps, running_mean(losses, 5), **style)
            if recipe != BASELINE:
                base = next(run.losses() for run in runs if (run.recipe, run.seed) == (BASELINE, seed))
                pairs = zip(running_mean(losses), running_mean(base), strict=True)
                gaps.plot(steps, [100 * (mine / other - 1) for mine, other in pairs], **style)
    curves.set_ylabel("loss (mean of 5 steps)")
    curves.set_title(f"{args.model} {args.flavor}, {len(args.seeds)} seeds")
    gaps.set_ylabel(f"gap to BF16 in %\n(means of {LAST_STEPS} steps)")
    gaps.set_xlabel("step")
    gaps.axhline(0, color="black", linewidth=0.8)
    gaps.set_ylim(-2, 2)
    for axes in (curves, gaps):
        axes.grid(alpha=0.3)
        axes.legend()
    part = out.with_name(f".part-{out.name}")
    figure.savefig(part)
    part.replace(out)


def main() -> None:
    argv = sys.argv[1:]
    split = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    others = [name for name in recipes.NAMES if name != BASELINE]
    parser.add_argument("--model", default="deepseek_v4", choices=["deepseek_v4", "deepseek_v3"])
    parser.add_argument("--flavor", default="debug")
    parser.add_argument("--recipes", nargs="+", default=["all_mxfp8"], choices=others, metavar="RECIPE", help=str(others))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="N")
    parser.add_argument("--work", type=Path, default=ROOT / "outputs" / "compare_seeds", help="folder of the runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "convergence.md", help="table; the picture is beside it")
    args = parser.parse_args(argv[:split])
    runs = plan(args, argv[split + 1 :])
    for number, run in enumerate(runs, start=1):
        place = f"[{number}/{len(runs)}]"
        if run.complete():
            print(f"{place} {run.name}: complete already, {run.score():.4f}")
        else:
            train(run, place)
            print(f"{place} {run.name}: {run.score():.4f}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    picture = args.out.with_suffix(".png")
    draw(runs, args, picture)
    command = shlex.join(["python", "scripts/compare_seeds.py", *argv])
    write_atomically(args.out, table(runs, args, command, picture.name))
    print(args.out.read_text())


if __name__ == "__main__":
    main()
