"""Configs: plain data that refuses what it cannot mean."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from typing import Any

import pytest
import torch
from npu_lp import BlockMXConfig, FakeQuantConfig, HiF8Config, MXConfig
from npu_lp.config import GEMMS, HIF8_DST_MAX, Config

CONFIGS: list[Config | FakeQuantConfig] = [
    MXConfig(),
    MXConfig("e5m2", "e3m2", "floor", False, ("dgrad", "wgrad"), 128, "stochastic", True),
    BlockMXConfig(),
    BlockMXConfig("e5m2", "e5m2", "floor", FakeQuantConfig("e1m2", "floor"), False, ("forward",)),
    FakeQuantConfig(),
    FakeQuantConfig(dst_max=7.0),
    HiF8Config(),
    HiF8Config(0.0, 32768.0, ("wgrad",)),
]
each = pytest.mark.parametrize("config", CONFIGS, ids=repr)


@each
def test_frozen(config: Any) -> None:
    for field in dataclasses.fields(config):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, field.name, getattr(config, field.name))


@each
def test_equal_and_hashable_by_value(config: Any) -> None:
    other = copy.deepcopy(config)
    assert other == config and hash(other) == hash(config) and {config: 1}[other] == 1
    assert len({*CONFIGS}) == len(CONFIGS)


@each
def test_repr_builds_an_equal_one(config: Any) -> None:
    assert eval(repr(config)) == config


@each
def test_torch_save_and_weights_only_load(config: Any) -> None:
    buffer = io.BytesIO()
    torch.save({"config": config, "weight": torch.ones(2)}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)["config"]
    assert loaded == config and type(loaded) is type(config)
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("kind", "name", "wrong", "allowed"),
    [
        (MXConfig, "fmt", "fp8", "'e4m3', 'e5m2', 'e3m2', 'e2m3'"),
        (MXConfig, "fmt", "E4M3", "'e4m3', 'e5m2', 'e3m2', 'e2m3'"),
        (MXConfig, "fmt", torch.float8_e4m3fn, "'e4m3', 'e5m2', 'e3m2', 'e2m3'"),
        (MXConfig, "fmt", "e2m1", "'e4m3', 'e5m2', 'e3m2', 'e2m3'"),
        (MXConfig, "grad_fmt", "hif8", "'e4m3', 'e5m2', 'e3m2', 'e2m3'"),
        (MXConfig, "scale_rule", "dtype_range", "'floor', 'rceil'"),
        (MXConfig, "scale_rule", 1, "'floor', 'rceil'"),
        (MXConfig, "block_size", 48, "16, 32, 64, 128"),
        (MXConfig, "block_size", 0, "16, 32, 64, 128"),
        (MXConfig, "grad_rounding", "round", "'rint', 'stochastic'"),
        (MXConfig, "dual_axis_forward", "0", "True or False"),
        (MXConfig, "hadamard", 1, "True or False"),
        (MXConfig, "high_precision_gemms", "dgrad", "tuple of names from .*'forward', 'dgrad', 'wgrad'"),
        (MXConfig, "high_precision_gemms", ["dgrad"], "tuple of names from .*'forward', 'dgrad', 'wgrad'"),
        (MXConfig, "high_precision_gemms", ("backward",), "'forward', 'dgrad', 'wgrad'"),
        (BlockMXConfig, "fmt", "e3m2", "'e4m3', 'e5m2'"),
        (BlockMXConfig, "grad_fmt", "e2m3", "'e4m3', 'e5m2'"),
        (BlockMXConfig, "scale_rule", "dtype_range", "'floor', 'rceil'"),
        (BlockMXConfig, "weight_fake_quant", "e2m1", "a FakeQuantConfig or None"),
        (BlockMXConfig, "weight_fake_quant", True, "a FakeQuantConfig or None"),
        (BlockMXConfig, "dual_axis_forward", None, "True or False"),
        (BlockMXConfig, "high_precision_gemms", ("x",), "'forward', 'dgrad', 'wgrad'"),
        (FakeQuantConfig, "fmt", "e4m3", "'e2m1', 'e1m2'"),
        (FakeQuantConfig, "scale_rule", "rceil", "'dtype_range', 'floor'"),
        (FakeQuantConfig, "dst_max", 5.9, "0, or .* from 6 to 12"),
        (FakeQuantConfig, "dst_max", 12.5, "0, or .* from 6 to 12"),
        (FakeQuantConfig, "dst_max", float("nan"), "0, or .* from 6 to 12"),
        (FakeQuantConfig, "dst_max", -6.0, "0, or .* from 6 to 12"),
        (HiF8Config, "dst_max", 16.0, "0.0, 15.0, 56.0, 224.0, 32768.0"),
        (HiF8Config, "dst_max", float("nan"), "0.0, 15.0, 56.0, 224.0, 32768.0"),
        (HiF8Config, "grad_dst_max", -15.0, "0.0, 15.0, 56.0, 224.0, 32768.0"),
        (HiF8Config, "high_precision_gemms", ("x",), "'forward', 'dgrad', 'wgrad'"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_it_and_what_is_allowed(
    kind: type, name: str, wrong: Any, allowed: str
) -> None:
    with pytest.raises(ValueError, match=rf"{kind.__name__}: {name}=.*{allowed}") as error:
        kind(**{name: wrong})
    shown = wrong[0] if name == "high_precision_gemms" and isinstance(wrong, tuple) else wrong
    assert repr(shown) in str(error.value)


def test_wrong_combinations() -> None:
    with pytest.raises(ValueError, match="could not be told apart"):
        MXConfig(fmt="e3m2", grad_fmt="e2m3")
    with pytest.raises(ValueError, match=r"FakeQuantConfig: scale_rule='dtype_range' is unknown. Pass one of 'floor'"):
        FakeQuantConfig("e1m2")
    with pytest.raises(ValueError, match=r"dst_max=7\.0 is out of range"):
        FakeQuantConfig("e2m1", "floor", 7.0)


@pytest.mark.parametrize("dst_max", [0.0, 6.0, 6.5, 7.0, 12.0])
def test_every_allowed_dst_max_of_fp4(dst_max: float) -> None:
    assert FakeQuantConfig(dst_max=dst_max).dst_max == dst_max


def test_every_allowed_dst_max_of_hif8() -> None:
    assert HIF8_DST_MAX == (0.0, 15.0, 56.0, 224.0, 32768.0)
    for dst_max in HIF8_DST_MAX:
        assert HiF8Config(dst_max, dst_max).grad_dst_max == dst_max


def test_the_defaults_are_those_of_torchtitan_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MXFP8_DUAL_AXIS_FORWARD", raising=False)
    assert MXConfig() == MXConfig("e4m3", "e4m3", "rceil", True, (), 32, "rint", False)
    assert BlockMXConfig() == BlockMXConfig("e4m3", "e4m3", "rceil", None, True, ())
    assert FakeQuantConfig() == FakeQuantConfig("e2m1", "dtype_range", 0.0)
    assert HiF8Config() == HiF8Config(15.0, 224.0, ())
    assert GEMMS == ("forward", "dgrad", "wgrad")


def test_labels() -> None:
    assert MXConfig().label == "mxfp8_rceil" and MXConfig(scale_rule="floor").label == "mxfp8_floor"
    assert MXConfig("e3m2").label == "mxfp6_rceil"
    assert BlockMXConfig().label == "block_fp8"
    assert BlockMXConfig(weight_fake_quant=FakeQuantConfig()).label == "block_fp8_mxfp4_qat"
    assert HiF8Config().label == "hif8"


@pytest.mark.parametrize("kind", [MXConfig, BlockMXConfig])
def test_the_environment_sets_the_default_of_dual_axis_forward(
    kind: type[MXConfig | BlockMXConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, want in (("0", False), ("1", True)):
        monkeypatch.setenv("MXFP8_DUAL_AXIS_FORWARD", value)
        assert kind().dual_axis_forward is want
        assert kind(dual_axis_forward=not want).dual_axis_forward is not want
    for wrong in ("", "true", "2", "off"):
        monkeypatch.setenv("MXFP8_DUAL_AXIS_FORWARD", wrong)
        with pytest.raises(ValueError, match=f"MXFP8_DUAL_AXIS_FORWARD='{wrong}' is unknown. Set it to 1 .* or 0"):
            kind()
