"""What a run reports: a line per step, TensorBoard, metrics.jsonl, and at the end summary.json and loss.png.

`metrics.jsonl` has one JSON object per line, in the order of steps. A training step's has `step`, `loss`, `grad_norm`,
`lr`, `tokens_seen`, `tps` (tokens per second and device), `tflops`, `memory_gib`, `seconds` (since the step before) and
`mfu` (percent) where the device's peak is known and matmuls are in BF16; a validation's has `step` and `val_loss`. Every
line is written at once and whole, so that a run that is stopped or killed leaves complete lines.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torchtitan.components.metrics import MetricsProcessor, _get_metrics_rank
from torchtitan.distributed import ParallelDims
from torchtitan.tools.logging import logger

METRICS_FILE = "metrics.jsonl"
SUMMARY_FILE = "summary.json"
PLOT_FILE = "loss.png"
LAST_STEPS = 20
"""How many of the last losses the summary averages."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics.jsonl file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_atomically(path: Path, content: str) -> None:
    """Writes a text file so that at any moment the old or the new content is there, never a part."""
    part = path.with_name(path.name + ".part")
    part.write_text(content, encoding="utf-8")
    part.replace(path)


class JsonlWriter:
    """Appends records to a JSON Lines file, each flushed to the operating system as one complete line.

    A file of an earlier run in the same folder is kept under a name with its time; the steps before `first_step` (the
    part a resumed run continues) are copied to the new file.
    """

    def __init__(self, path: Path, first_step: int) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        kept: list[dict[str, Any]] = []
        if path.exists():
            kept = [record for record in read_metrics(path) if record["step"] < first_step]
            stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(path.stat().st_mtime))
            older = path.with_name(f"{path.stem}.{stamp}-{time.time_ns() % 10**9:09d}{path.suffix}")
            path.rename(older)
            logger.info(f"Metrics of the earlier run in this folder are kept in {older}")
        write_atomically(path, "".join(json.dumps(record) + "\n" for record in kept))
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: dict[str, Any]) -> None:
        """Appends one line; numbers that JSON has no word for (NaN, infinities) are written as null."""
        finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
        self._file.write(json.dumps(finite) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        self._file.close()


def duration(seconds: float) -> str:
    """Seconds for people: "48s", "2m05s", "3h07m"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


class Metrics(MetricsProcessor):
    """torchtitan's metrics processor, plus metrics.jsonl, progress, and a summary when the run ends."""

    @dataclass(kw_only=True, slots=True)
    class Config(MetricsProcessor.Config):
        """torchtitan's fields, with a log line each step and TensorBoard on."""

        log_freq: int = 1
        enable_tensorboard: bool = True
        low_precision: bool = False
        """Whether matmuls run below BF16: utilization of the BF16 peak (mfu) means nothing then and is left out."""

    def __init__(self, config: Config, *, parallel_dims: ParallelDims, dump_folder: str = "./outputs", **kwargs: Any):
        super().__init__(config, parallel_dims=parallel_dims, dump_folder=dump_folder, **kwargs)
        self.folder = Path(dump_folder)
        self.ntokens_since_last_log: int = 0
        self.total_steps = 0
        self.losses: list[float] = []
        self.validation_losses: list[float] = []
        self.step_tps: list[float] = []
        self._jsonl: JsonlWriter | None = None
        self._step_seconds: list[float] = []
        # The rank that sees the loss writes the files, as torchtitan decides it for TensorBoard.
        pp_schedule = kwargs.get("pp_schedule", "1F1B")
        self._writes = dist.get_rank() == _get_metrics_rank(parallel_dims=parallel_dims, pp_schedule=pp_schedule)

    def start(self, first_step: int, total_steps: int) -> None:
        """Tells which steps this process runs, and starts the clock; `first_step` > 1 when a checkpoint is resumed."""
        self.total_steps = total_steps
        if self._writes:
            self._jsonl = JsonlWriter(self.folder / METRICS_FILE, first_step)
        self.time_last_log = time.perf_counter()

    def log(
        self,
        step: int,
        global_avg_loss: float,
        global_max_loss: float,
        grad_norm: float,
        extra_metrics: dict[str, Any] | None = None,
    ) -> None:
        """Reports one training step: loss (mean over all valid tokens), gradient norm before clipping, and rates.

        TensorBoard tags are torchtitan's, so that its dashboards fit.
        """
        extra = extra_metrics or {}
        seconds = time.perf_counter() - self.time_last_log
        tps = self.ntokens_since_last_log / (seconds * self.parallel_dims.non_data_parallel_size)
        flops = self.num_flops_per_token * tps
        memory = self.device_memory_monitor.get_peak_stats()
        mfu = None
        if not (self.config.low_precision or self.has_quantization or math.isnan(self.gpu_peak_flops)):
            mfu = 100 * flops / self.gpu_peak_flops
        lr = next((value for name, value in extra.items() if name.startswith("lr")), None)

        scalars = {
            "loss_metrics/global_avg_loss": global_avg_loss,
            "loss_metrics/global_max_loss": global_max_loss,
            "grad_norm": grad_norm,
            "throughput(tps)": tps,
            "tflops": flops / 1e12,
            "time_metrics/end_to_end(s)": seconds / self.config.log_freq,
            "time_metrics/data_loading(s)": statistics.fmean(self.data_loading_times),
            "memory/max_active(GiB)": memory.max_active_gib,
            "memory/max_reserved(GiB)": memory.max_reserved_gib,
        }
        record = {
            "step": step,
            "loss": global_avg_loss,
            "grad_norm": grad_norm,
            "lr": lr,
            "tokens_seen": extra.get("n_tokens_seen"),
            "tps": round(tps, 2),
            "tflops": round(flops / 1e12, 6),
            "memory_gib": round(memory.max_reserved_gib, 3),
            "seconds": round(seconds, 4),
        }
        if mfu is not None:
            scalars["mfu(%)"] = mfu
            record["mfu"] = round(mfu, 3)
        self.logger.log({**scalars, **extra}, step)
        if self._jsonl is not None:
            self._jsonl.write(record)
        self.losses.append(global_avg_loss)
        self.step_tps.append(tps)
        self._step_seconds.append(seconds / self.config.log_freq)
        self._print_step(step, record)

        self.ntokens_since_last_log = 0
        self.data_loading_times.clear()
        self.time_last_log = time.perf_counter()
        self.device_memory_monitor.reset_peak_stats()

    def _print_step(self, step: int, record: dict[str, Any]) -> None:
        # The median of the last steps: the first one is slower (allocations), and a pause should not move the estimate.
        eta = statistics.median(self._step_seconds[-20:]) * (self.total_steps - step)
        color = self.color
        mfu = f"  {color.magenta}mfu: {record['mfu']:.2f}%" if "mfu" in record else ""
        logger.info(
            f"{color.red}step: {step:>{len(str(self.total_steps))}}/{self.total_steps}  "
            f"{color.green}loss: {record['loss']:7.4f}  "
            f"{color.orange}grad_norm: {record['grad_norm']:7.4f}  "
            f"{color.turquoise}memory: {record['memory_gib']:.2f}GiB  "
            f"{color.blue}tps: {round(record['tps']):,}  "
            f"{color.cyan}tflops: {record['tflops']:.4f}{mfu}  "
            f"{color.yellow}ETA {duration(eta)}{color.reset}"
        )

    def log_validation(self, loss: float, step: int, extra_metrics: dict[str, Any] | None = None) -> None:
        """Reports the mean loss over the validation batches after `step` training steps."""
        super().log_validation(loss, step, extra_metrics)
        self.validation_losses.append(loss)
        if self._jsonl is not None:
            self._jsonl.write({"step": step, "val_loss": loss})

    def finish(self, interrupted_at: int | None = None) -> None:
        """Writes summary.json and loss.png and prints what the run achieved; nothing if no step was finished.

        `interrupted_at` is the last finished step of a run that was stopped early.
        """
        if self._jsonl is None:
            return
        self._jsonl.close()
        if not self.losses:
            logger.info(f"No step was run: {self.total_steps} steps were asked for and the checkpoint has as many")
            return
        summary = self._summary(interrupted_at)
        write_atomically(self.folder / SUMMARY_FILE, json.dumps(summary, indent=2) + "\n")
        from npu_lp.titan.plot import plot_runs

        plot_runs({"loss": self.folder / METRICS_FILE}, self.folder / PLOT_FILE, title=self.folder.name)
        logger.info("\n" + self._summary_text(summary))

    def _summary(self, interrupted_at: int | None) -> dict[str, Any]:
        assert self._jsonl is not None
        # A resumed run is judged by its whole curve, which the file has and this process has not.
        losses = [record["loss"] for record in read_metrics(self._jsonl.path) if "loss" in record]
        last = losses[-LAST_STEPS:]
        return {
            "steps": len(losses),
            "total_steps": self.total_steps,
            "interrupted_at": interrupted_at,
            "first_loss": losses[0],
            "last_loss": losses[-1],
            f"mean_loss_last_{LAST_STEPS}": statistics.fmean(last),
            "drop_percent": 100 * (1 - statistics.fmean(last) / losses[0]),
            "val_loss": self.validation_losses[-1] if self.validation_losses else None,
            "tokens_per_second": statistics.median(self.step_tps),
            "seconds": sum(self._step_seconds) * self.config.log_freq,
        }

    def _summary_text(self, summary: dict[str, Any]) -> str:
        mean = summary[f"mean_loss_last_{LAST_STEPS}"]
        validation = f", validation {summary['val_loss']:.4f}" if summary["val_loss"] is not None else ""
        ended = "Finished" if summary["interrupted_at"] is None else "Interrupted after"
        return (
            f"{ended} {summary['steps']} of {self.total_steps} steps in {duration(summary['seconds'])}\n"
            f"  loss           {summary['first_loss']:.4f} at the first step, {mean:.4f} on average over the last "
            f"{min(LAST_STEPS, summary['steps'])} ({summary['drop_percent']:.1f}% lower){validation}\n"
            f"  speed          {summary['tokens_per_second']:,.0f} tokens/s per device (median step)\n"
            f"  metrics        {self.folder / METRICS_FILE}\n"
            f"  curves         {self.folder / PLOT_FILE}, or: tensorboard --logdir "
            f"{self.folder / self.config.save_tb_folder}\n"
            f"  summary        {self.folder / SUMMARY_FILE}"
        )

    def close(self) -> None:
        """Closes the files."""
        super().close()
        if self._jsonl is not None:
            self._jsonl.close()
