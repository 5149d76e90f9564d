"""Recipes: the names of torchtitan-npu, their configs, and the environment variables that set details."""

from __future__ import annotations

from pathlib import Path

import pytest
from npu_lp import BlockMXConfig, FakeQuantConfig, HiF8Config, MXConfig, __main__, recipes
from npu_lp.config import Config
from npu_lp.recipes import Options

VARIABLES = ("ENABLE_MXFP4_QAT", "DST_TYPE_MAX", "MXFP8_DUAL_AXIS_FORWARD")
QAT = BlockMXConfig(weight_fake_quant=FakeQuantConfig())


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "linear", "experts"),
    [
        ("mix", BlockMXConfig(), QAT),
        ("mix_mxfp8", MXConfig(), QAT),
        ("all_mxfp8", MXConfig(), MXConfig()),
        ("all_block_fp8", BlockMXConfig(), BlockMXConfig()),
        ("all_hif8", HiF8Config(), HiF8Config()),
        ("bf16", None, None),
    ],
)
def test_what_each_recipe_is(name: str, linear: Config | None, experts: Config | None) -> None:
    recipe = recipes.get(name)
    assert (recipe.name, recipe.linear, recipe.experts) == (name, linear, experts) and recipe.doc


def test_the_list_is_complete_and_hif8_is_an_alias() -> None:
    assert recipes.NAMES == ("mix", "mix_mxfp8", "all_mxfp8", "all_block_fp8", "all_hif8", "bf16", "hif8")
    assert recipes.get("hif8") == recipes.get("all_hif8")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=f"Recipe 'fp8' is unknown. The recipes are: {', '.join(recipes.NAMES)}."):
        recipes.get("fp8")


@pytest.mark.parametrize(("value", "want"), [("true", True), ("1", True), ("True", True), ("false", False), ("0", False)])
def test_enable_mxfp4_qat(value: str, want: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENABLE_MXFP4_QAT", value)
    for name in ("mix", "mix_mxfp8"):
        assert recipes.get(name).experts == (QAT if want else BlockMXConfig())
    for name in ("all_mxfp8", "all_block_fp8"):
        assert recipes.get(name) == recipes.get(name, Options())


@pytest.mark.parametrize("value", ["yes", "2"])
def test_enable_mxfp4_qat_is_validated(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENABLE_MXFP4_QAT", value)
    with pytest.raises(ValueError, match=f"ENABLE_MXFP4_QAT='{value}' is unknown. Set it to true or false"):
        recipes.get("mix")


def test_dst_type_max_of_fp4_and_of_hif8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DST_TYPE_MAX", "7")
    for name in ("mix", "mix_mxfp8"):
        assert recipes.get(name).experts == BlockMXConfig(weight_fake_quant=FakeQuantConfig(dst_max=7.0))
    monkeypatch.setenv("DST_TYPE_MAX", "224")
    assert recipes.get("hif8").linear == HiF8Config(dst_max=224.0)
    monkeypatch.setenv("DST_TYPE_MAX", "0")
    assert recipes.get("mix").experts == QAT and recipes.get("all_hif8").linear == HiF8Config(dst_max=0.0)
    monkeypatch.setenv("DST_TYPE_MAX", "")
    assert recipes.get("all_hif8").linear == HiF8Config()


@pytest.mark.parametrize("name", ["mix", "mix_mxfp8", "all_hif8"])
@pytest.mark.parametrize("value", ["seven", "5", "13", "nan", "inf", "-7"])
def test_dst_type_max_is_validated(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DST_TYPE_MAX", value)
    with pytest.raises(ValueError, match=r"6 to 12|32768"):
        recipes.get(name)


def test_dst_type_max_is_an_error_where_it_has_no_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DST_TYPE_MAX", "7")
    for name in ("all_mxfp8", "all_block_fp8", "bf16"):
        with pytest.raises(ValueError, match=rf"DST_TYPE_MAX=7 has no meaning for recipe '{name}'\. .*mix, mix_mxfp8"):
            recipes.get(name)
    monkeypatch.setenv("ENABLE_MXFP4_QAT", "false")
    with pytest.raises(ValueError, match="DST_TYPE_MAX=7 has no meaning for recipe 'mix' without MXFP4 QAT"):
        recipes.get("mix")


def test_dual_axis_forward_reaches_every_config_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFP8_DUAL_AXIS_FORWARD", "0")
    for name in recipes.NAMES:
        recipe = recipes.get(name)
        for config in (recipe.linear, recipe.experts):
            assert getattr(config, "dual_axis_forward", False) is False
    monkeypatch.setenv("MXFP8_DUAL_AXIS_FORWARD", "no")
    with pytest.raises(ValueError, match="MXFP8_DUAL_AXIS_FORWARD='no' is unknown"):
        recipes.get("all_mxfp8")


def test_the_environment_is_read_when_a_recipe_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipes.get("mix")
    monkeypatch.setenv("DST_TYPE_MAX", "7")
    assert recipes.get("mix") != before and recipes.get("mix", Options()) == before


class TestCommand:
    def lines(self, capsys: pytest.CaptureFixture[str], command: str) -> list[str]:
        __main__.main([command])
        return capsys.readouterr().out.splitlines()

    def test_recipes_prints_modules_configs_and_matmuls_of_each(self, capsys: pytest.CaptureFixture[str]) -> None:
        lines = self.lines(capsys, "recipes")
        for column in ("modules", "activations", "weights", "gradients", "low-precision matmuls"):
            assert column in lines[0]
        for name in recipes.NAMES:
            if name in recipes.ALIASES:
                assert any(f"{name} = {recipes.ALIASES[name]}" in line for line in lines)
                continue
            (row,) = (i for i, line in enumerate(lines) if line.split(" ")[0] == name)
            assert "attention, shared experts, MTP" in lines[row] and "routed experts" in lines[row + 1]
        text = "\n".join(lines)
        mix = next(i for i, line in enumerate(lines) if line.startswith("mix "))
        assert "e4m3 32x32 floor" in lines[mix] and "e2m1 1x32 dtype_range, then e4m3 32x32 floor" in lines[mix + 1]
        assert "hif8 tensor, max 15" in text and "hif8 tensor, max 224" in text
        assert "forward, dgrad, wgrad" in lines[mix]

    def test_env_prints_versions_backends_processor_and_cann(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DST_TYPE_MAX", "7")
        monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
        values = dict(line.split("  ", 1) for line in self.lines(capsys, "env"))
        values = {name: value.strip() for name, value in values.items()}
        import torch

        assert values["torch"] == torch.__version__ and torch.__version__ in values["library"]
        assert "cpu, twin" in values["backends built"] and "libnpu_lp_twin.so" in values["twin"]
        assert any(level in values["cpu kernels"] for level in ("v3", "v4", "scalar"))
        assert "ASCEND_HOME_PATH is not set" in values["CANN toolkit"]
        for name in ("npu_lp", "python", "platform", "processor", "compiler", "torchtitan", "torch_npu"):
            assert values[name]
        assert values["DST_TYPE_MAX"] == "7"

    def test_env_says_when_the_toolkits_folder_is_missing(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "nowhere"))
        assert any("nowhere is not a folder" in line for line in self.lines(capsys, "env"))

    def test_no_command_and_an_unknown_one_show_the_commands(self, capsys: pytest.CaptureFixture[str]) -> None:
        for arguments in ([], ["recipe"]):
            with pytest.raises(SystemExit) as exit_:
                __main__.main(arguments)
            assert exit_.value.code == 2
        with pytest.raises(SystemExit):
            __main__.main(["--help"])
        shown = capsys.readouterr().out
        assert "recipes" in shown and "env" in shown
