"""Draws loss curves of runs: `python -m npu_lp.titan.plot RUN [RUN ...] [--out loss.png]`.

RUN is the output folder of a run, or its metrics.jsonl.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def plot_runs(runs: dict[str, Path], out: Path, *, title: str = "") -> None:
    """Writes a picture (PNG, SVG, PDF by the name) with the loss of each run over its steps.

    Args:
        runs: label -> metrics.jsonl. A run's validation losses are dots in its colour.
        out: the picture; written to a temporary name first.
        title: above the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for label, path in runs.items():
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        train = [(record["step"], record["loss"]) for record in records if "loss" in record]
        validation = [(record["step"], record["val_loss"]) for record in records if "val_loss" in record]
        (line,) = axes.plot([step for step, _ in train], [loss for _, loss in train], linewidth=1.2, label=label)
        if validation:
            axes.plot(*zip(*validation, strict=True), "o", color=line.get_color(), label=f"{label}, validation")
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend()
    if title:
        axes.set_title(title)
    part = out.with_name(f".part-{out.name}")
    figure.savefig(part)
    part.replace(out)


def main(argv: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m npu_lp.titan.plot", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="output folder of a run, or its metrics.jsonl")
    parser.add_argument("--out", type=Path, default=Path("loss.png"), help="picture to write (default: %(default)s)")
    args = parser.parse_args(argv)
    files = {}
    for run in args.runs:
        path = run / "metrics.jsonl" if run.is_dir() else run
        if not path.is_file():
            parser.error(f"{run}: no metrics.jsonl there; give the folder that a training run wrote")
        files[path.resolve().parent.name] = path
    plot_runs(files, args.out)
    print(args.out)


if __name__ == "__main__":
    main()
