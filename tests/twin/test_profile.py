"""`python -m npu_lp twin profile`: real kernels in the timing model."""

import json
from pathlib import Path

import pytest
from npu_lp.__main__ import main
from npu_lp.twin import profile

_MXFP8 = {"base_m": 128, "base_n": 256, "base_k": 128, "step_k": 4, "scale_factor": 8, "stages": 2}
_MXFP4 = {"base_m": 256, "base_n": 256, "base_k": 256, "step_k": 2, "scale_factor": 4, "stages": 2}


@pytest.mark.parametrize(
    ("size", "fmt", "tiling", "microseconds"),
    [
        (8192, "e1m2", _MXFP4, 681.06),
        (2048, "e5m2", _MXFP8, 38.3),
        (4096, "e5m2", _MXFP8, 187.9),
        (8192, "e5m2", _MXFP8, 1474.9),
        (6144, "e5m2", _MXFP8, 602.0),  # held out: nothing was fitted to it
    ],
)
def test_published_tilings_take_what_was_measured(size: int, fmt: str, tiling: dict[str, int], microseconds: float) -> None:
    (timing,) = profile.mx_matmul(size, size, size, fmt, tiling=tiling)
    assert timing.total_us == pytest.approx(microseconds, rel=0.15)


def test_the_held_out_fp4_matmul() -> None:
    (timing,) = profile.mx_matmul(8448, 4096, 12288, "e2m1", tiling=_MXFP4)
    assert timing.total_us == pytest.approx(605.8, rel=0.15)


@pytest.mark.parametrize(("size", "share"), [(4096, 0.88), (8192, 0.90)])
def test_the_cube_is_kept_busy(size: int, share: float) -> None:
    (timing,) = profile.mx_matmul(size, size, size)
    assert timing.pipes["CUBE"]["share"] >= share


def test_bytes_of_a_matmul_are_those_of_its_tiles() -> None:
    (timing,) = profile.mx_matmul(512, 512, 1024, tiling={"base_m": 256, "base_n": 256})
    counters = timing.counters
    assert timing.blocks == 4
    assert counters["gm_read"] == 4 * (256 + 256) * (1024 + 1024 // 32)
    assert counters["gm_written"] == 512 * 512 * 2
    assert counters["fractals"] == 512 * 512 * 1024 / (16 * 16 * 32)
    assert timing.hbm_read == 2 * 512 * (1024 + 1024 // 32)  # each byte once, whatever the cores read twice


def test_grouped_matmuls_of_ragged_and_empty_groups() -> None:
    offsets = [100, 100, 356, 600]
    (timing,) = profile.mx_grouped_matmul(512, 1024, offsets)
    assert timing.counters["macs"] == (112 + 256 + 256) * 512 * 1024  # rows of a tile are rounded up to 16
    (timing,) = profile.hif8_grouped_matmul(512, 600, offsets, m=256, split="k")
    assert timing.kernel.startswith("hif8_grouped_matmul")


def test_the_command_prints_a_table_and_writes_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    main(["twin", "profile", "mx_matmul", "--m", "512", "--n", "512", "--k", "512", "--trace", str(trace)])
    printed = capsys.readouterr().out
    for expected in ("aic_mac", "aic_mte2", "aic_fixpipe", "bound by", "L0C -> GM 0.52 MB", "of peak"):
        assert expected in printed
    events = json.loads(trace.read_text())["traceEvents"]
    assert list(tmp_path.iterdir()) == [trace]
    lanes = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"CUBE", "MTE1", "MTE2", "FIXP"} <= lanes <= {"CUBE", "MTE1", "MTE2", "FIXP", "SCALAR"}
    mmads = [event for event in events if event["name"] == "MMAD"]
    assert mmads
    assert all(event["dur"] > 0 and "block_mmad.h" in event["args"]["at"] for event in mmads)


@pytest.mark.parametrize(
    "kernel",
    ["mx_quant", "mx_quant_dual", "mx_quant_grouped", "mx_quant_block", "mx_to_block", "mx_dequant", "hif8_quant"],
)
def test_vector_kernels_move_what_they_must(kernel: str) -> None:
    m, k = 1024, 2048
    timings = profile.quantize(kernel, m, k)
    read, written = (sum(timing.counters[name] for timing in timings) for name in ("gm_read", "gm_written"))
    scale = m * k // 32
    must_read = {"mx_dequant": m * k + scale, "mx_to_block": m * k // 2 + scale, "hif8_quant": 2 * 2 * m * k}
    must_write = {"mx_dequant": 2 * m * k, "mx_quant_dual": 2 * (m * k + scale), "hif8_quant": m * k}
    must_write["mx_quant_block"] = must_write["mx_to_block"] = m * k + 2 * scale
    least = must_read.get(kernel, 2 * m * k)
    assert least <= read <= 1.02 * least
    assert must_write.get(kernel, m * k + scale) <= written <= 1.02 * must_write.get(kernel, m * k + scale)
    assert all(timing.kind == "vector" for timing in timings)


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r'sku="310P" is unknown\. Pass one of 950PR_9589'):
        profile.mx_matmul(256, 256, 256, machine=profile.Machine(sku="310P"))
    with pytest.raises(ValueError, match='there is no cost "speed"'):
        profile.mx_matmul(256, 256, 256, machine=profile.Machine(costs={"speed": 1.0}))
    with pytest.raises(ValueError, match='tiling has no "tile"'):
        profile.mx_matmul(256, 256, 256, tiling={"tile": 1})
    with pytest.raises(SystemExit, match=r'layout="XX" is unknown'):
        main(["twin", "profile", "mx_matmul", "--layout", "XX"])


def test_more_bandwidth_and_fewer_cores_show() -> None:
    shape = {"m": 1024, "n": 4096, "k": 4096}
    (base,) = profile.mx_matmul(**shape)
    (dt,) = profile.mx_matmul(**shape, machine=profile.Machine(sku="950DT_9581"))
    (few,) = profile.mx_matmul(**shape, machine=profile.Machine(cores=8))
    assert dt.total_us <= base.total_us < few.total_us
    assert few.blocks == 8


def test_costs_and_skus_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["twin", "costs"])
    main(["twin", "skus"])
    printed = capsys.readouterr().out
    assert "mmad_overhead" in printed
    assert "950PR_9589   32 AIC  64 AIV  1.65 GHz" in printed
