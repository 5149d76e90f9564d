"""A checkpoint says how its modules were trained, and loads under any recipe."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from npu_lp import HiF8Config, MXConfig
from npu_lp.titan import precision_record
from torch import nn
from torch.distributed.checkpoint import FileSystemReader


def model(**configs):
    layers = nn.ModuleDict({name: nn.Linear(2, 2) for name in ("a", "b")})
    for name, config in configs.items():
        layers[name].low_precision = config
    return layers


def test_record_names_low_precision_modules_and_their_configs():
    text = precision_record.record([model(a=MXConfig(), b=HiF8Config())])
    assert '"a": "MXConfig(' in text
    assert '"b": "HiF8Config(' in text


@pytest.mark.parametrize("configs", [{}, {"a": MXConfig()}])
def test_equal_records_say_nothing(configs):
    text = precision_record.record([model(**configs)])
    assert precision_record.difference(text, text) is None


def test_difference_names_both_sides_and_a_module():
    before = precision_record.record([model(a=MXConfig(), b=MXConfig())])
    now = precision_record.record([model(a=HiF8Config())])
    said = precision_record.difference(before, now)
    assert said is not None
    assert "2 modules in low precision (MXConfig)" in said
    assert "1 modules in low precision (HiF8Config)" in said
    assert "2 modules differ, such as a: MXConfig(" in said


def test_checkpoint_resumes_under_another_recipe_and_says_so(tmp_path):
    """Two steps in MXFP8 with a checkpoint, then a third in HiF8: the weights load, and the log tells."""

    documents = tmp_path / "documents.jsonl"
    documents.write_text("\n".join(json.dumps({"text": f"line {i}\n" * 30}) for i in range(50)))

    def run(recipe: str, steps: int) -> str:
        flags = ["--training.seq_len", "64", "--training.local_batch_size", "1", "--validator.no-enable"]
        flags += ["--checkpoint.enable", "--checkpoint.interval", "2", "--training.steps", str(steps)]
        command = [sys.executable, "-m", "npu_lp.titan.train", "--module", "npu_lp.titan.deepseek_v4"]
        command += ["--config", f"debug_{recipe}", "--dump_folder", str(tmp_path), *flags]
        command += ["--dataloader.dataset_path", str(documents)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "This checkpoint was trained with" not in run("all_mxfp8", 2)
    log = run("all_hif8", 3)
    assert "modules in low precision (MXConfig); training goes on with" in log
    assert "step: 3/3" in log
    state = FileSystemReader(str(tmp_path / "checkpoint" / "step-2")).read_metadata()
    assert not any("low_precision" in key and "train_state" not in key for key in state.state_dict_metadata)
