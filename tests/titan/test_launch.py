"""run_train.sh's variables: what each resolves to, and errors that list what is known."""

from __future__ import annotations

import pytest
import torch
from npu_lp import recipes
from npu_lp.titan import launch
from npu_lp.titan.errors import InputError


@pytest.fixture(autouse=True)
def no_accelerator(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)


def test_without_variables_it_trains_the_debug_flavor_of_v4_on_one_process():
    run = launch.resolve({}, [])
    assert run.command == [
        "python", "-m", "npu_lp.titan.train", "--module", "npu_lp.titan.deepseek_v4", "--config", "debug_mix",
        "--dump_folder", "outputs/deepseek_v4_debug_mix",
    ]  # fmt: skip
    assert run.environment == {"MXFP8_DUAL_AXIS_FORWARD": "1", "ENABLE_MXFP4_QAT": "true", "DST_TYPE_MAX": ""}


@pytest.mark.parametrize("value", ["false", "False", "0", "no", "off"])
def test_switching_quantization_off_means_bf16_whatever_the_recipe(value):
    run = launch.resolve({"ENABLE_QUANTIZED_TRAINING": value, "RECIPE": "all_mxfp8"}, [])
    assert run.config == "debug_bf16"
    assert "bf16" in run.resolved["OUTPUT_DIR"]
    assert "all_mxfp8 is not used" in run.resolved["RECIPE"]


@pytest.mark.parametrize("recipe", recipes.NAMES)
@pytest.mark.parametrize("flavor", ["debug", "1b", "flash", "pro"])
def test_every_recipe_and_flavor_names_a_config(recipe, flavor):
    run = launch.resolve({"RECIPE": recipe, "BASE_MODEL": flavor}, [])
    assert run.config == f"{flavor}_{recipe}"


def test_variables_become_flags_and_flags_win():
    variables = {"DATASET_PATH": "/d", "TOKENIZER_PATH": "/t", "OUTPUT_DIR": "/o", "MODEL": "deepseek_v3"}
    run = launch.resolve(variables, ["--training.steps", "7"])
    assert run.module == "npu_lp.titan.deepseek_v3"
    assert run.flags == [
        "--dump_folder", "/o", "--dataloader.dataset_path", "/d", "--hf_assets_path", "/t", "--training.steps", "7",
    ]  # fmt: skip
    run = launch.resolve(variables, ["--dump_folder=/p", "--hf_assets_path", "/q"])
    assert run.flags == ["--dataloader.dataset_path", "/d", "--dump_folder=/p", "--hf_assets_path", "/q"]


@pytest.mark.parametrize(
    ("variables", "parts"),
    [
        ({"RECIPE": "all_mxfp9"}, ["RECIPE='all_mxfp9'", *recipes.NAMES]),
        ({"MODEL": "llama"}, ["MODEL='llama'", "deepseek_v4", "deepseek_v3"]),
        ({"BASE_MODEL": "huge"}, ["BASE_MODEL='huge'", "MODEL=deepseek_v4", "debug", "1b", "flash", "pro"]),
        ({"BASE_MODEL": "flash", "MODEL": "deepseek_v3"}, ["BASE_MODEL='flash'", "MODEL=deepseek_v3", "16b", "671b"]),
        ({"ENABLE_QUANTIZED_TRAINING": "maybe"}, ["ENABLE_QUANTIZED_TRAINING='maybe'", "true", "false"]),
        ({"MXFP8_DUAL_AXIS_FORWARD": "2"}, ["MXFP8_DUAL_AXIS_FORWARD='2'", "1", "0"]),
        ({"ENABLE_MXFP4_QAT": "perhaps"}, ["ENABLE_MXFP4_QAT='perhaps'", "true", "false"]),
        ({"DST_TYPE_MAX": "big"}, ["DST_TYPE_MAX='big'", "6 to 12", "224"]),
        ({"DST_TYPE_MAX": "5"}, ["dst_max=5", "6 to 12"]),
        ({"DST_TYPE_MAX": "7", "RECIPE": "all_mxfp8"}, ["DST_TYPE_MAX=7", "all_mxfp8", "mix, mix_mxfp8, all_hif8"]),
        ({"DST_TYPE_MAX": "7", "RECIPE": "all_hif8"}, ["dst_max=7", "15.0", "224.0"]),
        ({"DST_TYPE_MAX": "7", "ENABLE_MXFP4_QAT": "false"}, ["DST_TYPE_MAX=7", "without MXFP4 QAT"]),
        ({"NGPU": "two"}, ["NGPU='two'", "1 or more"]),
        ({"NGPU": "0"}, ["NGPU='0'", "1 or more"]),
    ],
)
def test_unknown_value_lists_the_known_ones(variables, parts):
    with pytest.raises(InputError) as error:
        launch.resolve(variables, [])
    for part in parts:
        assert part in str(error.value)


def test_more_processes_than_devices_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 4)
    assert launch.resolve({}, []).processes == 4
    with pytest.raises(InputError, match="more than the 4 device"):
        launch.resolve({"NGPU": "5"}, [])


def test_several_processes_are_started_by_torchrun_with_their_share_of_cores():
    run = launch.resolve({"NGPU": "2"}, ["--training.steps", "3"])
    assert run.command[:6] == ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    assert run.command[run.command.index("-m", 3) + 1] == "npu_lp.titan.train"
    assert int(run.environment["OMP_NUM_THREADS"]) >= 1
    assert "OMP_NUM_THREADS" not in launch.resolve({"NGPU": "2", "OMP_NUM_THREADS": "3"}, []).environment


@pytest.mark.parametrize(
    ("variables", "qat", "dst_max"),
    [
        ({}, "true", "0 (MXFP4 QAT)"),
        ({"DST_TYPE_MAX": "7"}, "true", "7 (MXFP4 QAT)"),
        ({"ENABLE_MXFP4_QAT": "off"}, "false", "mix does not use it"),
        ({"RECIPE": "hif8"}, "hif8 has no fake quantization", "15 (HiF8)"),
        ({"RECIPE": "all_mxfp8"}, "all_mxfp8 has no fake quantization", "all_mxfp8 does not use it"),
        ({"ENABLE_QUANTIZED_TRAINING": "false", "DST_TYPE_MAX": "7"}, "not used", "not used"),
    ],
)
def test_details_of_a_recipe_are_resolved_and_shown(variables, qat, dst_max):
    run = launch.resolve(variables, [])
    assert (run.resolved["ENABLE_MXFP4_QAT"], run.resolved["DST_TYPE_MAX"]) == (qat, dst_max)


def test_empty_variables_count_as_unset():
    assert launch.resolve(dict.fromkeys(launch.VARIABLES, ""), []) == launch.resolve({}, [])


def test_description_shows_every_variable_its_value_and_the_command():
    environment = {"RECIPE": "bf16", "MXFP8_DUAL_AXIS_FORWARD": "off"}
    text = launch.describe(launch.resolve(environment, ["--training.steps", "9"]), environment)
    for name in launch.VARIABLES:
        assert name in text
    assert "bf16 " in text
    assert "off            -> 0" in text
    assert "--config debug_bf16" in text
    assert "--training.steps 9" in text


def test_help_lists_variables_and_known_values(capsys):
    assert launch.main(["--help"]) == 0
    text = capsys.readouterr().out
    for part in (*launch.VARIABLES, *launch.MODELS, *recipes.NAMES, "flash", "671b"):
        assert part in text


def test_unknown_value_ends_with_status_2_and_no_traceback(monkeypatch, capsys):
    monkeypatch.setenv("RECIPE", "nonsense")
    assert launch.main([]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: RECIPE='nonsense' is not known")
    assert captured.out == ""
