"""The training command, end to end: short runs of both models, Ctrl-C, resuming, several processes, and bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from npu_lp.titan import train
from npu_lp.titan.metrics import read_metrics
from safetensors.torch import load_file

V4, V3 = "npu_lp.titan.deepseek_v4", "npu_lp.titan.deepseek_v3"
SMALL = ["--training.seq_len", "64", "--training.local_batch_size", "1", "--validator.steps", "1"]


@pytest.fixture
def documents(tmp_path):
    """A JSON Lines data set that is read at once."""
    path = tmp_path / "documents.jsonl"
    lines = [json.dumps({"text": f"line {i}\n" * (20 + i % 7)}) for i in range(50)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def command(module, config, out, *flags):
    base = [sys.executable, "-m", "npu_lp.titan.train", "--module", module, "--config", config, "--dump_folder", str(out)]
    return [*base, *SMALL, *flags]


def environment():
    clean = {name: value for name, value in os.environ.items() if name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    return clean | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def run(*args, **kwargs):
    done = subprocess.run(
        command(*args), env=environment(), capture_output=True, text=True, timeout=600, check=False, **kwargs
    )
    return done.returncode, done.stdout + done.stderr


def losses(out: Path):
    return [(r["step"], r["loss"]) for r in read_metrics(out / "metrics.jsonl") if "loss" in r]


@pytest.mark.parametrize("module", [V4, V3])
@pytest.mark.parametrize("recipe", ["bf16", "all_mxfp8"])
def test_a_few_steps_train_and_leave_their_files(module, recipe, documents, tmp_path):
    out = tmp_path / "out"
    status, log = run(module, f"debug_{recipe}", out, "--training.steps", "3", "--dataloader.dataset_path", documents)
    assert status == 0, log
    records = read_metrics(out / "metrics.jsonl")
    assert [r["step"] for r in records if "loss" in r] == [1, 2, 3]
    assert all(r["loss"] > 0 and r["tps"] > 0 and r["grad_norm"] > 0 for r in records if "loss" in r)
    assert [r["step"] for r in records if "val_loss" in r] == [1, 3]
    assert "Finished 3 of 3 steps" in log
    assert {"metrics.jsonl", "summary.json", "loss.png", "tb", "config.json"} <= {path.name for path in out.iterdir()}
    converted = "Converted layers matching FQNS" in log
    assert converted == (recipe != "bf16")


def test_ctrl_c_leaves_complete_metrics_and_a_checkpoint_to_resume_from(documents, tmp_path):
    out = tmp_path / "out"
    flags = ["--dataloader.dataset_path", documents, "--validator.no-enable", "--checkpoint.enable"]
    process = subprocess.Popen(
        command(V3, "debug_bf16", out, "--training.steps", "2000", *flags),
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    metrics = out / "metrics.jsonl"
    deadline = time.monotonic() + 300
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    log, _ = process.communicate(timeout=300)
    assert process.returncode == 130, log
    assert "Traceback" not in log
    done = losses(out)
    assert [step for step, _ in done] == list(range(1, len(done) + 1))
    assert 3 <= len(done) < 2000
    last = len(done)
    assert json.loads((out / "summary.json").read_text())["interrupted_at"] == last
    assert (out / "checkpoint" / f"step-{last}" / ".metadata").exists()

    status, log = run(V3, "debug_bf16", out, "--training.steps", str(last + 2), *flags)
    assert status == 0, log
    assert f"Training starts at step {last + 1}" in log
    assert losses(out)[:last] == done
    assert [step for step, _ in losses(out)] == list(range(1, last + 3))


def test_resumed_run_gives_the_losses_of_an_uninterrupted_one(documents, tmp_path):
    flags = [
        "--dataloader.dataset_path", documents, "--validator.no-enable", "--checkpoint.enable",
        "--checkpoint.interval", "2", "--lr_scheduler.total_steps", "4",
    ]  # fmt: skip
    for out, steps in (("whole", 4), ("parts", 2), ("parts", 4)):
        status, log = run(V4, "debug_all_mxfp8", tmp_path / out, "--training.steps", str(steps), *flags)
        assert status == 0, log
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


def test_last_checkpoint_is_saved_in_hugging_face_format_with_its_integer_tensors(documents, tmp_path):
    out = tmp_path / "out"
    flags = ["--checkpoint.enable", "--checkpoint.last_save_model_only", "--checkpoint.last_save_in_hf"]
    flags += ["--dataloader.dataset_path", documents]
    status, log = run(V4, "debug_all_mxfp8", out, "--training.steps", "1", *flags)
    assert status == 0, log
    saved = {}
    for file in (out / "checkpoint" / "step-1").glob("*.safetensors"):
        saved |= load_file(file)
    routes = [tensor for name, tensor in saved.items() if name.endswith("tid2eid")]
    assert routes and all(tensor.dtype == torch.int64 for tensor in routes)
    assert any(name.endswith(("q_a_proj.weight", "wq_a.weight")) for name in saved), sorted(saved)[:20]


def test_two_processes_train_together_with_sharded_parameters(documents, tmp_path):
    env = environment() | {"NGPU": "2", "RECIPE": "all_mxfp8", "DATASET_PATH": documents}
    env["OUTPUT_DIR"] = str(tmp_path / "out")
    done = subprocess.run(
        [sys.executable, "-m", "npu_lp.titan.launch", *SMALL, "--training.steps", "2"],
        env=env, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    log = done.stdout + done.stderr
    assert done.returncode == 0, log
    assert "2 process(es) on CPU" in log
    assert [step for step, _ in losses(tmp_path / "out")] == [1, 2]


# ---- bad input, in this process: it must end before anything is built ---------------------------------------------------


def fails(capsys, *args):
    status = train.main(list(args))
    captured = capsys.readouterr()
    assert status == 2
    assert captured.err.startswith("error: ")
    assert "Traceback" not in captured.err
    return captured.err


def test_unknown_module_lists_the_known_ones(capsys):
    error = fails(capsys, "--module", "npu_lp.titan.deepseek_v5", "--config", "debug_bf16")
    for part in ("npu_lp.titan.deepseek_v5", V4, V3, "llama3"):
        assert part in error


@pytest.mark.parametrize("module", [V4, V3])
def test_unknown_config_lists_the_known_ones(capsys, module):
    error = fails(capsys, "--module", module, "--config", "debug_fp7")
    for part in ("debug_fp7", module, "debug_bf16", "debug_all_mxfp8"):
        assert part in error
    assert "debug_all_mxfp8" in fails(capsys, "--module", module)


def test_missing_module_is_said(capsys):
    assert V4 in fails(capsys, "--config", "debug_bf16")


def test_import_error_inside_a_module_is_shown_as_it_is(tmp_path, monkeypatch):
    package = tmp_path / "broken_model"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "config_registry.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        train.main(["--module", "broken_model", "--config", "x"])


def test_missing_dataset_and_tokenizer_end_before_a_file_is_written(capsys, tmp_path):
    out = tmp_path / "out"
    base = ["--module", V3, "--config", "debug_bf16", "--dump_folder", str(out)]
    assert "does not exist" in fails(capsys, *base, "--dataloader.dataset_path", str(tmp_path / "no.jsonl"))
    assert "has no tokenizer.json" in fails(capsys, *base, "--hf_assets_path", str(tmp_path))
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "a"}\n{"txt": "b"}\n')
    assert "line 2: no `text` field" in fails(capsys, *base, "--dataloader.dataset_path", str(broken))
    assert not out.exists()


def test_model_larger_than_the_machine_is_refused_before_it_is_built(capsys, tmp_path):
    error = fails(capsys, "--module", V4, "--config", "pro_bf16", "--dump_folder", str(tmp_path / "out"))
    for part in ("deepseek_v4 pro", "billion parameters", "GiB", "BASE_MODEL=debug"):
        assert part in error
    assert not (tmp_path / "out").exists()


def test_help_lists_modules_and_configs_and_then_every_flag(capsys):
    assert train.main(["--help"]) == 0
    text = capsys.readouterr().out
    for part in (V4, V3, "debug_all_mxfp8", "flash_bf16"):
        assert part in text
    with pytest.raises(SystemExit) as ended:
        train.main(["--module", V3, "--config", "debug_bf16", "--help"])
    assert ended.value.code == 0
    assert "--training.steps" in capsys.readouterr().out
