"""What a run reports: complete lines whatever happens, names of numbers, and a summary that adds up."""

from __future__ import annotations

import json
import logging
import math
from types import SimpleNamespace

import pytest
import torch.distributed as dist
from npu_lp.titan import metrics as m
from npu_lp.titan import plot
from torchtitan.components.metrics import DeviceMemoryMonitor


@pytest.fixture
def processor(tmp_path, monkeypatch):
    """Builds a Metrics that logs into tmp_path as rank 0, on a device whose peak is `peak`."""
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    built = []

    def build(*, peak=math.nan, **config):
        monkeypatch.setattr(m.MetricsProcessor, "gpu_peak_flops", peak, raising=False)
        result = m.Metrics.Config(disable_color_printing=True, **config).build(
            parallel_dims=SimpleNamespace(non_data_parallel_size=1, pp_enabled=False), dump_folder=str(tmp_path)
        )
        result.gpu_peak_flops = peak
        result.num_flops_per_token = 1000
        built.append(result)
        return result

    yield build
    for result in built:
        result.close()


def step(processor, number, loss, tokens=512):
    processor.time_last_log -= 1  # as if the step had begun a second ago
    processor.ntokens_since_last_log += tokens
    processor.data_loading_times.append(0.01)
    extra = {"n_tokens_seen": tokens * number, "lr": 0.5}
    processor.log(number, loss, loss, grad_norm=2.0, extra_metrics=extra)


def test_lines_are_complete_before_the_file_is_closed(tmp_path):
    writer = m.JsonlWriter(tmp_path / "metrics.jsonl", first_step=1)
    for number in range(1, 4):
        writer.write({"step": number, "loss": 1.5})
        lines = (tmp_path / "metrics.jsonl").read_text()
        assert lines.endswith("\n")
        assert [json.loads(line)["step"] for line in lines.splitlines()] == list(range(1, number + 1))


def test_numbers_json_cannot_hold_become_null(tmp_path):
    writer = m.JsonlWriter(tmp_path / "metrics.jsonl", first_step=1)
    writer.write({"step": 1, "loss": math.nan, "grad_norm": math.inf, "tps": 1.0})
    assert m.read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": None, "grad_norm": None, "tps": 1.0}]


def test_resumed_run_continues_the_curve_and_keeps_the_old_file(tmp_path):
    old = m.JsonlWriter(tmp_path / "metrics.jsonl", first_step=1)
    for number in range(1, 8):
        old.write({"step": number, "loss": float(number)})
    old.close()
    new = m.JsonlWriter(tmp_path / "metrics.jsonl", first_step=5)  # the checkpoint was of step 4
    new.write({"step": 5, "loss": 50.0})
    records = m.read_metrics(tmp_path / "metrics.jsonl")
    assert [(r["step"], r["loss"]) for r in records] == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 50.0)]
    (kept,) = tmp_path.glob("metrics.2*.jsonl")
    assert len(m.read_metrics(kept)) == 7


def test_new_run_in_the_same_folder_does_not_lose_the_old_one(tmp_path):
    for _ in range(2):
        writer = m.JsonlWriter(tmp_path / "metrics.jsonl", first_step=1)
        writer.write({"step": 1, "loss": 3.0})
        writer.close()
    assert len(m.read_metrics(tmp_path / "metrics.jsonl")) == 1
    assert len(list(tmp_path.glob("metrics.*.jsonl"))) == 1


def test_each_step_has_all_numbers_and_no_mfu_where_the_peak_is_unknown(processor, tmp_path, caplog):
    processor = processor()
    processor.start(1, 10)
    with caplog.at_level(logging.INFO):
        step(processor, 1, 7.5)
    (record,) = m.read_metrics(tmp_path / "metrics.jsonl")
    assert set(record) == {
        "step", "loss", "grad_norm", "lr", "tokens_seen", "tps", "tflops", "memory_gib", "seconds",
    }  # fmt: skip
    assert (record["step"], record["loss"], record["grad_norm"], record["lr"]) == (1, 7.5, 2.0, 0.5)
    assert record["tokens_seen"] == 512
    assert record["tps"] == pytest.approx(512 / record["seconds"], rel=0.05)
    assert record["memory_gib"] > 0.01
    line = caplog.messages[-1]
    for part in ("step:  1/10", "loss:  7.5000", "tps:", "ETA"):
        assert part in line
    assert "mfu" not in line


def test_mfu_is_of_this_devices_peak(processor, tmp_path):
    processor = processor(peak=1e9)
    processor.start(1, 1)
    step(processor, 1, 7.0)
    (record,) = m.read_metrics(tmp_path / "metrics.jsonl")
    assert record["mfu"] == pytest.approx(100 * 1000 * record["tps"] / 1e9, rel=0.01, abs=1e-3)


def test_mfu_of_a_bf16_peak_is_left_out_when_matmuls_are_not_bf16(processor, tmp_path):
    processor = processor(peak=1e9, low_precision=True)
    processor.start(1, 1)
    step(processor, 1, 7.0)
    assert "mfu" not in m.read_metrics(tmp_path / "metrics.jsonl")[0]


def test_summary_adds_up_and_names_the_files(processor, tmp_path, caplog):
    processor = processor()
    processor.start(1, 30)
    losses = [8.0] + [6.0] * 9 + [2.0 + 0.1 * i for i in range(20)]
    for number, loss in enumerate(losses, start=1):
        step(processor, number, loss)
    processor.log_validation(3.25, 30)
    with caplog.at_level(logging.INFO):
        processor.finish()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["first_loss"] == 8.0
    assert summary["mean_loss_last_20"] == pytest.approx(2.95)
    assert summary["drop_percent"] == pytest.approx(100 * (1 - 2.95 / 8))
    assert summary["val_loss"] == 3.25
    assert (summary["steps"], summary["total_steps"], summary["interrupted_at"]) == (30, 30, None)
    assert m.read_metrics(tmp_path / "metrics.jsonl")[-1] == {"step": 30, "val_loss": 3.25}
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "tb").rglob("events.out.tfevents*"))
    text = caplog.messages[-1]
    for part in ("Finished 30 of 30 steps", "8.0000 at the first step, 2.9500", "63.1% lower", "tokens/s", "metrics.jsonl"):
        assert part in text


def test_interrupted_run_says_so(processor, tmp_path, caplog):
    processor = processor()
    processor.start(1, 30)
    step(processor, 1, 8.0)
    with caplog.at_level(logging.INFO):
        processor.finish(interrupted_at=1)
    assert "Interrupted after 1 of 30 steps" in caplog.messages[-1]
    assert json.loads((tmp_path / "summary.json").read_text())["interrupted_at"] == 1


def test_other_ranks_write_nothing(tmp_path, monkeypatch, processor):
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    config = m.Metrics.Config()
    other = config.build(
        parallel_dims=SimpleNamespace(non_data_parallel_size=1, pp_enabled=False), dump_folder=str(tmp_path)
    )
    other.num_flops_per_token = 1
    other.start(1, 2)
    step(other, 1, 1.0)
    other.finish()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0s"), (59.4, "59s"), (125, "2m05s"), (3600 * 3 + 420, "3h07m")])
def test_durations_are_readable(seconds, text):
    assert m.duration(seconds) == text


def test_plot_overlays_runs_and_names_a_missing_one(tmp_path, capsys):
    for name in ("a", "b"):
        writer = m.JsonlWriter(tmp_path / name / "metrics.jsonl", first_step=1)
        writer.write({"step": 1, "loss": 2.0})
        writer.write({"step": 1, "val_loss": 3.0})
        writer.close()
    plot.main([str(tmp_path / "a"), str(tmp_path / "b" / "metrics.jsonl"), "--out", str(tmp_path / "both.svg")])
    drawn = (tmp_path / "both.svg").read_text()
    assert drawn.count("<svg") == 1
    with pytest.raises(SystemExit):
        plot.main([str(tmp_path / "c")])
    assert "no metrics.jsonl there" in capsys.readouterr().err


def test_memory_is_that_of_the_process():
    monitor = DeviceMemoryMonitor("cpu")
    before = monitor.get_peak_stats().max_reserved_gib
    held = bytearray(300 * 1024**2)
    held[::4096] = b"x" * len(held[::4096])
    assert monitor.get_peak_stats().max_reserved_gib >= min(before + 0.01, before)
    del held
