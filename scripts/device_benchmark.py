"""Times npu_lp's ops on an Ascend 950, beside torch_npu's and beside what the twin's timing model predicts.

    python scripts/device_benchmark.py --json benchmark.json      # on the device
    python scripts/device_benchmark.py --model --json model.json  # the twin's prediction of the same shapes, anywhere

Both print one line a shape. On the device, functions run in turn and a time is the median over rounds of device events.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from npu_lp import ops

QUANTIZE = [(4096, 7168), (8192, 8192), (16384, 2048), (1000, 4100)]
MATMUL = [(2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 2048, 7168), (128, 4096, 7168), (1, 4096, 4096)]


def main(arguments: list[str]) -> int:
    """Exit status 0; 1 without an NPU (unless --model)."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, required=True, help="file for the results")
    parser.add_argument("--rounds", type=int, default=21, help="rounds of each shape (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="the first two shapes of each kind")
    parser.add_argument("--model", action="store_true", help="the twin's timing model instead of a device")
    options = parser.parse_args(arguments)
    end = 2 if options.quick else None
    results = []
    if not options.model and importing_npu() is None:
        print("error: torch_npu is not installed or sees no NPU. --model predicts without one.", file=sys.stderr)
        return 1
    for rows, cols in QUANTIZE[:end]:
        for axis in (-1, -2):
            if options.model:
                times = {"model": modelled("mx_quant", "--m", rows, "--k", cols, "--axis", axis)}
            else:
                times = on_device(quantizers(rows, cols, axis), options.rounds)
            results.append(shown(f"mx_quant bf16->e4m3 {rows}x{cols} axis {axis}", times))
    for m, n, k in MATMUL[:end]:
        if options.model:
            times = {"model": modelled("mx_matmul", "--m", m, "--n", n, "--k", k)}
        else:
            times = on_device(matmuls(m, n, k), options.rounds)
        results.append(shown(f"mx_quant_matmul e4m3 {m}x{n}x{k}", times))
    part = options.json.with_name(options.json.name + ".part")
    part.write_text(json.dumps(results, indent=1), encoding="utf-8")
    part.replace(options.json)
    return 0


def shown(name: str, times: dict[str, float]) -> dict[str, object]:
    """Prints microseconds, returns them for the file."""
    print(f"{name:48}", "  ".join(f"{who} {us:10.1f} us" for who, us in times.items()), flush=True)
    return {"case": name, "us": times}


def importing_npu() -> object | None:
    """torch.npu, if there is one to use."""
    try:
        import torch_npu  # noqa: F401
    except ImportError:
        return None
    npu = getattr(torch, "npu", None)
    return npu if npu is not None and npu.is_available() else None


def on_device(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median microseconds of each, all in turn."""
    npu = torch.npu  # type: ignore[attr-defined]
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds + 3):
        for name, function in functions.items():
            start, stop = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
            start.record()
            function()
            stop.record()
            npu.synchronize()
            times[name].append(start.elapsed_time(stop) * 1e3)
    return {name: statistics.median(values[3:]) for name, values in times.items()}


def quantizers(rows: int, cols: int, axis: int) -> dict[str, Callable[[], object]]:
    """npu_lp's op and torch_npu's (scale_alg 1 is rceil, dst_type 292 is float8_e4m3fn)."""
    x = torch.randn(rows, cols, device="npu", dtype=torch.bfloat16)
    return {
        "npu_lp": lambda: ops.mx_quant(x, axis),
        "torch_npu": lambda: torch.ops.npu.npu_dynamic_mx_quant(x, axis=axis, dst_type=292, scale_alg=1),
    }


def matmuls(m: int, n: int, k: int) -> dict[str, Callable[[], object]]:
    """npu_lp's matmul and a BF16 one."""
    x, w = (torch.randn(rows, k, device="npu", dtype=torch.bfloat16) for rows in (m, n))
    (a, a_scale), (b, b_scale) = ops.mx_quant(x), ops.mx_quant(w)
    return {
        "npu_lp": lambda: ops.mx_quant_matmul(a, b.T, a_scale, b_scale.transpose(0, 1)),
        "bf16": lambda: torch.nn.functional.linear(x, w),
    }


def modelled(kernel: str, *flags: object) -> float:
    """Microseconds that `python -m npu_lp twin profile` prints."""
    command = [sys.executable, "-m", "npu_lp", "twin", "profile", kernel, *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    found = re.search(r"([\d.]+) us", done.stdout)
    if found is None:
        raise RuntimeError(f"{' '.join(command)} printed no time:\n{done.stdout}")
    return float(found[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
