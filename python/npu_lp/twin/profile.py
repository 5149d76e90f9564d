"""Time kernels in the twin's model of an Ascend 950, without computing anything and without memory for their tensors.

::

    from npu_lp.twin import profile

    for timing in profile.mx_matmul(m=4096, n=4096, k=4096):
        print(profile.table(timing))

Each function launches the kernel as the op would, in the twin's timing mode, and returns one :class:`Timing` a launch.
docs/twin.md says what the model's figures rest on and how far they can be trusted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from npu_lp import _library, twin
from npu_lp.backends import backend

DEFAULT_SKU = "950PR_9589"

_MSPROF = {  # names of PipeUtilization.csv
    "cube": {"CUBE": "aic_mac", "MTE1": "aic_mte1", "MTE2": "aic_mte2", "FIXP": "aic_fixpipe", "SCALAR": "aic_scalar"},
    "vector": {"VECTOR": "aiv_vec", "MTE2": "aiv_mte2", "MTE3": "aiv_mte3", "SCALAR": "aiv_scalar"},
}


@dataclass(frozen=True)
class Machine:
    """What to time on: a product, and changes to the model.

    Attributes:
        sku: a name of :func:`skus`.
        cores: AI cores to use; 0 is all of the SKU's.
        costs: values for names of :func:`costs`, to see how much depends on one.
        trace: file for a Chrome/Perfetto trace; launches after the first get ``.1``, ``.2`` before its suffix.
        trace_cores: how many cores the trace shows.
    """

    sku: str = DEFAULT_SKU
    cores: int = 0
    costs: Mapping[str, float] = field(default_factory=dict)
    trace: str | Path | None = None
    trace_cores: int = 2

    def ai_cores(self) -> int:
        """Return how many AI cores run."""
        return self.cores or int(self._product()["cube_cores"])

    def clock_ghz(self) -> float:
        """Return the clock of the SKU."""
        return float(self._product()["clock_ghz"])

    def _product(self) -> dict[str, Any]:
        for sku in skus():
            if sku["name"] == self.sku:
                return sku
        known = ", ".join(sku["name"] for sku in skus())
        raise ValueError(f'npu_lp.twin: sku="{self.sku}" is unknown. Pass one of {known}.')


@dataclass(frozen=True)
class Timing:
    """One launch in the model.

    Attributes:
        kernel: its name.
        kind: "cube" or "vector".
        total_us: from the start of the task to its end, as msprof's Task Duration.
        pipes: for each pipe that did anything busy_us and share (both averages over cores) and instructions (all cores).
        counters: bytes of each path, fractals and Mmads of the cube, vector instructions and calls, over all cores.
        l2_hit: bytes read from GM that were in L2.
        hbm_read: bytes that HBM delivered.
        hbm_written: bytes that went back to HBM while the kernel ran; what it wrote last is still in L2.
        bound_by: the pipe that is busy longest, and what holds it back.
        tiling: of a matmul.
        blocks: the number of cores used.
        clock_ghz: of the SKU.
    """

    kernel: str
    kind: str
    total_us: float
    pipes: dict[str, dict[str, float]]
    counters: dict[str, int]
    l2_hit: int
    hbm_read: int
    hbm_written: int
    bound_by: str
    tiling: dict[str, int]
    blocks: int
    clock_ghz: float

    def cube_share(self) -> float:
        """Return the part of the used cores' peak that the cube reached, launch included."""
        return self.counters["fractals"] / (self.total_us * 1e3 * self.clock_ghz * max(1, self.blocks))


def skus() -> list[dict[str, Any]]:
    """Return the products the model knows: name, cores, clock, HBM bandwidth, L2 size."""
    return list(_library.load_twin().skus())


def costs() -> list[dict[str, Any]]:
    """Return the cost table: name, value, unit, range, confidence tag and source of each figure."""
    return list(_library.load_twin().costs())


def simulate(record: Any, machine: Machine | None = None, tiling: dict[str, int] | None = None, nth: int = 0) -> Timing:
    """Time one record of :func:`npu_lp.twin.records`."""
    machine = machine or Machine()
    trace = ""
    if machine.trace is not None:
        path = Path(machine.trace)
        trace = str(path if nth == 0 else path.with_suffix(f".{nth}{path.suffix}"))
    result = _library.load_twin().simulate(
        record, sku=machine.sku, costs=dict(machine.costs), trace=trace, trace_cores=machine.trace_cores
    )
    names = ("kernel", "kind", "total_us", "pipes", "counters", "l2_hit", "hbm_read", "hbm_written", "bound_by")
    return Timing(
        **{name: result[name] for name in names},
        tiling=tiling or {},
        blocks=len(result["blocks"]),
        clock_ghz=machine.clock_ghz(),
    )


def ops(call: Callable[[], Any], machine: Machine | None = None) -> list[Timing]:
    """Time every kernel that ``call`` launches: it runs with the twin as backend, in timing mode."""
    machine = machine or Machine()
    with backend("twin"), twin.options(mode="timing", record=True, cores=machine.ai_cores()):
        twin.clear()
        call()
        found = twin.records()
        twin.clear()
    return [simulate(record, machine, nth=nth) for nth, record in enumerate(found)]


def _matmul(machine: Machine | None, a_fmt: str, b_fmt: str | None, **arguments: Any) -> list[Timing]:
    machine = machine or Machine()
    record, tiling = _library.load_twin().matmul_record(
        a_format=a_fmt, b_format=b_fmt or a_fmt, cores=machine.ai_cores(), **arguments
    )
    return [simulate(record, machine, tiling)]


def mx_matmul(
    m: int,
    n: int,
    k: int,
    a_fmt: str = "e4m3",
    b_fmt: str | None = None,
    *,
    layout: str = "NT",
    out: str = "bf16",
    bias: bool = False,
    accumulate: bool = False,
    tiling: Mapping[str, int] | None = None,
    machine: Machine | None = None,
) -> list[Timing]:
    """Time A [m, k] times B [k, n] in MX formats.

    Args:
        m: rows of the result.
        n: columns of the result.
        k: length of the sums.
        a_fmt: format of A.
        b_fmt: format of B; None is A's.
        layout: "N" for row-major, "T" for a transposed view, of A and of B. "NT" is a linear layer's forward pass.
        out: "bf16", "fp16" or "fp32".
        bias: add an fp32 bias.
        accumulate: add to the result (fp32).
        tiling: fixes base_m, base_n, base_k, step_k, scale_factor or stages; the host's tiling chooses the rest.
        machine: what to time on.
    """
    return _matmul(
        machine,
        a_fmt,
        b_fmt,
        m=m,
        n=n,
        k=k,
        layout=layout,
        out=out,
        bias=bias,
        accumulate=accumulate,
        tiling=dict(tiling or {}),
    )


def mx_grouped_matmul(
    n: int,
    k: int,
    offsets: Sequence[int],
    a_fmt: str = "e4m3",
    b_fmt: str | None = None,
    *,
    m: int = 0,
    split: str = "m",
    out: str = "bf16",
    tiling: Mapping[str, int] | None = None,
    machine: Machine | None = None,
) -> list[Timing]:
    """Time a grouped product whose groups end at ``offsets``.

    split "m": A [m, k] in groups of rows, each with its own B [k, n]; m is the last offset unless given. split "k": K in
    groups, A [m, k] and B [k, n] as transposed views; k is the length of all groups together.
    """
    return _matmul(machine, a_fmt, b_fmt, **_groups(n, k, offsets, m, split), out=out, tiling=dict(tiling or {}))


def _groups(n: int, k: int, offsets: Sequence[int], m: int, split: str) -> dict[str, Any]:
    if split not in ("m", "k"):
        raise ValueError(f'npu_lp.twin: split="{split}" is unknown. Pass "m" or "k".')
    if not offsets:
        raise ValueError("npu_lp.twin: a grouped matmul without groups. Pass the end of each group in offsets.")
    rows = (m or offsets[-1]) if split == "m" else m
    return {"m": rows, "n": n, "k": k, "split": split, "offsets": list(offsets), "layout": "NT" if split == "m" else "TN"}


def hif8_matmul(
    m: int, n: int, k: int, *, layout: str = "NT", out: str = "bf16", tiling: Mapping[str, int] | None = None,
    machine: Machine | None = None,
) -> list[Timing]:  # fmt: skip
    """Time A [m, k] times B [k, n] in HiF8, whose two scales Fixpipe multiplies by."""
    return _matmul(machine, "hif8", None, m=m, n=n, k=k, layout=layout, out=out, tiling=dict(tiling or {}))


def hif8_grouped_matmul(
    n: int, k: int, offsets: Sequence[int], *, m: int = 0, split: str = "m", out: str = "bf16",
    tiling: Mapping[str, int] | None = None, machine: Machine | None = None,
) -> list[Timing]:  # fmt: skip
    """Time a grouped HiF8 product; arguments as of :func:`mx_grouped_matmul`."""
    return _matmul(machine, "hif8", None, **_groups(n, k, offsets, m, split), out=out, tiling=dict(tiling or {}))


def quantize(
    kernel: str,
    m: int,
    k: int,
    fmt: str = "e4m3",
    dtype: torch.dtype = torch.bfloat16,
    *,
    axis: int = -1,
    scale_rule: str | None = None,
    offsets: Sequence[int] = (),
    granularity: str = "tensor",
    machine: Machine | None = None,
) -> list[Timing]:
    """Time the quantization of an [m, k] tensor, or its inverse.

    Args:
        kernel: "mx_quant", "mx_quant_dual", "mx_quant_grouped", "mx_quant_block", "mx_to_block", "mx_dequant" or
            "hif8_quant".
        m: rows.
        k: columns.
        fmt: element format; mx_to_block makes it of e2m1.
        dtype: of x; of the result of mx_dequant.
        axis: of mx_quant and mx_dequant.
        scale_rule: None is the op's default.
        offsets: of mx_quant_grouped, the end of each group of rows.
        granularity: of hif8_quant.
        machine: what to time on.
    """
    ops_of = torch.ops.npu_lp
    # Never written or read, so the system gives it no memory.
    x = torch.empty(m, k, dtype=dtype)
    rule = scale_rule or ("floor" if fmt in ("e2m1", "e1m2") or kernel == "mx_quant_block" else "rceil")
    calls: dict[str, Callable[[], Any]] = {
        "mx_quant": lambda: ops_of.mx_quant(x, axis, fmt, rule),
        "mx_quant_dual": lambda: ops_of.mx_quant_dual(x, fmt, rule),
        "mx_quant_grouped": lambda: ops_of.mx_quant_grouped(x, torch.tensor(list(offsets) or [m]), fmt, rule),
        "mx_quant_block": lambda: ops_of.mx_quant_block(x, fmt, rule),
        "mx_to_block": lambda: ops_of.mx_to_block(*_quantized(m, k, "e2m1", -1), "e2m1", fmt),
        "mx_dequant": lambda: ops_of.mx_dequant(*_quantized(m, k, fmt, axis), axis, fmt, dtype),
        "hif8_quant": lambda: ops_of.hif8_quant(x, 0.0, granularity),
    }
    if kernel not in calls:
        raise ValueError(f'npu_lp.twin: kernel="{kernel}" is unknown. Pass one of {", ".join(calls)}.')
    return ops(calls[kernel], machine)


def _quantized(m: int, k: int, fmt: str, axis: int) -> tuple[Tensor, Tensor]:
    def pairs(size: int) -> int:
        return (-(-size // 32) + 1) // 2

    dtypes = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    data = torch.empty(m, k // 2 if fmt in ("e2m1", "e1m2") else k, dtype=dtypes.get(fmt, torch.uint8))
    shape = (m, pairs(k), 2) if axis in (-1, 1) else (pairs(m), k, 2)
    return data, torch.empty(shape, dtype=torch.float8_e8m0fnu)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.2f} MB"


def table(timing: Timing) -> str:
    """Return the launch as msprof's PipeUtilization shows one, with bytes of each path and what bounds it."""
    counters = timing.counters
    lines = [f"{timing.kernel}: {timing.total_us:.2f} us on {timing.blocks} {timing.kind} cores, bound by {timing.bound_by}"]
    if timing.tiling:
        lines.append("  tiling    " + ", ".join(f"{name} {value}" for name, value in timing.tiling.items()))
    lines.append(f"  {'pipe':12}{'time(us)':>12}{'ratio':>9}{'instructions':>15}")
    for name, label in _MSPROF[timing.kind].items():
        if name in timing.pipes:
            pipe = timing.pipes[name]
            lines.append(f"  {label:12}{pipe['busy_us']:12.2f}{pipe['share']:9.3f}{int(pipe['instructions']):15d}")
    paths = {
        "GM -> L1": "gm_to_l1", "GM -> UB": "gm_to_ub", "L1 -> L0": "l1_to_l0", "L1 -> L0 (scales)": "l1_to_l0_scale",
        "L1 -> BT": "l1_to_bt", "L0C -> GM": "l0c_to_gm", "UB -> GM": "ub_to_gm",
    }  # fmt: skip
    moved = [f"{path} {_megabytes(counters[key])}" for path, key in paths.items() if counters[key]]
    if moved:
        lines.append("  bytes     " + ", ".join(moved))
    if counters["gm_read"]:
        rate = (counters["gm_read"] + counters["gm_written"]) / timing.total_us / 1e6
        lines.append(
            f"  memory    {timing.l2_hit / counters['gm_read']:.1%} of reads in L2, HBM read {_megabytes(timing.hbm_read)}, "
            f"written {_megabytes(timing.hbm_written)}; GM reads and writes {rate:.2f} TB/s"
        )
    if counters["mmads"]:
        flops = 2 * counters["macs"] / timing.total_us / 1e6
        lines.append(
            f"  cube      {counters['mmads']} Mmads of {counters['fractals']} fractals, "
            f"{timing.cube_share():.1%} of peak, {flops:.1f} TFLOP/s with padding"
        )
    if counters["vector_calls"]:
        lines.append(f"  vector    {counters['vector_calls']} calls of {counters['vector_instructions']} instructions")
    return "\n".join(lines)
