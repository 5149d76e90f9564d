"""Every figure that benchmarks report: what runs, against what, and the ratio that is asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import npu_lp
import torch
from npu_lp import ops
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import peers


@dataclass(frozen=True)
class Goal:
    """time(peer) / time(ours), at least, and what one would like it to be."""

    peer: str
    ours: str
    at_least: float | None = None
    aim: float | None = None


@dataclass(frozen=True)
class Case:
    """Functions to run in turn, made by `setup` only when the case is run, and the ratios between them."""

    name: str
    group: str
    setup: Callable[[], dict[str, Callable[[], object]]]
    goals: tuple[Goal, ...]
    size: dict[str, int] = field(default_factory=dict)
    absent: str = "setup made no such function"  # why a peer of `goals` may be missing


def all_cases() -> Iterator[Case]:
    """In the order of the report."""
    yield from quantization()
    yield from conversions()
    yield from gemms()
    yield from linears()
    yield from grouped()
    yield from training_steps()


# ---- quantization ---------------------------------------------------------------------------------------------------


TO_NEW = Goal("memcpy to new memory", "ours")


def copies(moved: int) -> dict[str, Callable[[], object]]:
    """What moves as many bytes: into memory that the process has, and, like an op's results, into new memory."""
    return {"memcpy": peers.memcpy(moved), "memcpy to new memory": peers.memcpy_to_new(moved)}


def quantization(rows: int = 8192, cols: int = 4096) -> Iterator[Case]:
    """bf16 and fp32 out of memory (8192x4096), e4m3 with scales rounded up."""
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        element = dtype.itemsize

        def tensor(dtype: torch.dtype = dtype) -> Tensor:
            return torch.randn(rows, cols, generator=torch.Generator().manual_seed(0)).to(dtype)

        moved = rows * cols * (element + 1) + rows * cols // 32

        def row(moved: int = moved, tensor: Callable[[], Tensor] = tensor) -> dict[str, Callable[[], object]]:
            x = tensor()
            compiled = peers.torchao_quantize_compiled(x)
            return {
                "ours": lambda: ops.mx_quant(x),
                **copies(moved),
                "narrowing copy": peers.narrowing_copy(x),
                "narrowing copy to new memory": peers.narrowing_copy_to_new(x),
                "torchao eager": peers.torchao_quantize(x),
            } | ({} if compiled is None else {"torchao compiled": compiled})

        def column(moved: int = moved, tensor: Callable[[], Tensor] = tensor) -> dict[str, Callable[[], object]]:
            x = tensor()
            return {"ours": lambda: ops.mx_quant(x, axis=-2), **copies(moved)}

        def dual(tensor: Callable[[], Tensor] = tensor) -> dict[str, Callable[[], object]]:
            x = tensor()
            return {
                "ours": lambda: ops.mx_quant_dual(x),
                "two calls": lambda: (ops.mx_quant(x), ops.mx_quant(x, axis=-2)),
            }

        def block(moved: int = moved, tensor: Callable[[], Tensor] = tensor) -> dict[str, Callable[[], object]]:
            x = tensor()
            return {"ours": lambda: ops.mx_quant_block(x, scale_rule="floor"), **copies(moved)}

        bf16 = dtype == torch.bfloat16
        size = {"rows": rows, "cols": cols}
        yield Case(
            f"quantize rows, {name}",
            "quantization",
            row,
            (
                Goal("memcpy", "ours", 0.50, 0.65),
                TO_NEW,
                Goal("narrowing copy", "ours", 0.70, 0.85),
                Goal("narrowing copy to new memory", "ours"),
                Goal("torchao eager", "ours", 25 if bf16 else 12, 40 if bf16 else 18),
                Goal("torchao compiled", "ours"),
            ),
            size,
            "torch.compile cannot compile torchao's to_mx here",
        )
        yield Case(f"quantize axis -2, {name}", "quantization", column, (Goal("memcpy", "ours", 0.45, 0.55), TO_NEW), size)
        yield Case(
            f"quantize both axes, {name}",
            "quantization",
            dual,
            (Goal("two calls", "ours", 1.0 if bf16 else 1.1, 1.1 if bf16 else 1.3),),
            size,
        )
        yield Case(f"quantize 32x32 tiles, {name}", "quantization", block, (Goal("memcpy", "ours"), TO_NEW), size)


def conversions(size: int = 4096) -> Iterator[Case]:
    """The other ops that write as much as they read, on a square matrix of bf16 (4096x4096)."""

    def matrix() -> Tensor:
        return torch.randn(size, size, generator=torch.Generator().manual_seed(0)).bfloat16()

    def case(name: str, quantize: Callable[[], tuple[Tensor, ...]], convert: Callable[..., object]) -> Case:
        def setup() -> dict[str, Callable[[], object]]:
            given = quantize()
            results = convert(*given)
            moved = sum(t.nbytes for t in (*given, *(results if isinstance(results, tuple) else (results,))))
            return {"ours": lambda: convert(*given), **copies(moved)}

        return Case(name, "quantization", setup, (Goal("memcpy", "ours"), TO_NEW), {"rows": size, "cols": size})

    yield case("HiF8 quantize, bf16", lambda: (matrix(),), ops.hif8_quant)
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        yield case(
            f"dequantize to {name}", lambda: ops.mx_quant(matrix()), functools.partial(ops.mx_dequant, out_dtype=dtype)
        )
    yield case(
        "MXFP4 to 32x32 tiles of FP8", lambda: ops.mx_quant(matrix(), fmt="e2m1", scale_rule="floor"), ops.mx_to_block
    )


# ---- matmul ---------------------------------------------------------------------------------------------------------

GEMM_SHAPES = (
    (1, 4096, 4096), (16, 4096, 4096), (256, 2048, 2048), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 7168, 2048),
)  # fmt: skip


def quantized(*shape: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Codes and scales of normal numbers, quantized along the last axis."""
    return ops.mx_quant(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16())


def gemms(shapes: tuple[tuple[int, int, int], ...] = GEMM_SHAPES) -> Iterator[Case]:
    """Quantized operands, bf16 out, against torch's fp32 and bf16 matmuls of the same shape (weight stored [N, K])."""
    for m, n, k in shapes:

        def setup(m: int = m, n: int = n, k: int = k) -> dict[str, Callable[[], object]]:
            (a, a_scale), (b, b_scale) = quantized(m, k), quantized(n, k, seed=1)
            x, w = torch.randn(m, k), torch.randn(n, k)
            xb, wb = x.bfloat16(), w.bfloat16()
            return {
                "ours": lambda: ops.mx_quant_matmul(a, b.T, a_scale, b_scale.transpose(0, 1)),
                "sgemm": lambda: F.linear(x, w),
                "bf16 matmul": lambda: F.linear(xb, wb),
            }

        at_least, aim = {1: (2.0, 3.0), 16: (1.7, 2.5)}.get(m, (0.85, 1.0))
        yield Case(
            f"matmul {m}x{n}x{k}",
            "matmul",
            setup,
            (Goal("sgemm", "ours", at_least, aim), Goal("bf16 matmul", "ours")),
            {"m": m, "n": n, "k": k},
        )


# ---- layers ---------------------------------------------------------------------------------------------------------


def linears() -> Iterator[Case]:
    """Forward and backward of LowPrecisionLinear, weights quantized in every step, against nn.Linear in BF16."""
    for m, n, k in ((256, 2048, 2048), (1024, 1024, 1024)):

        def setup(m: int = m, n: int = n, k: int = k) -> dict[str, Callable[[], object]]:
            torch.manual_seed(0)
            dense = nn.Linear(k, n, bias=False).bfloat16()
            ours = npu_lp.LowPrecisionLinear.from_linear(dense, npu_lp.MXConfig())
            x = torch.randn(m, k, dtype=torch.bfloat16, requires_grad=True)
            grad = torch.randn(m, n, dtype=torch.bfloat16)
            weight = dense.weight.detach().clone().requires_grad_()

            def step(layer: nn.Module) -> Callable[[], object]:
                return lambda: layer(x).backward(grad)

            return {
                "ours": step(ours),
                "BF16 nn.Linear": step(dense),
                "torchao emulated": peers.torchao_linear(x, weight, grad),
            }

        yield Case(
            f"linear forward+backward {m}x{n}x{k}",
            "layers",
            setup,
            (Goal("BF16 nn.Linear", "ours", 2.0, 3.0), Goal("torchao emulated", "ours", 4, 6)),
            {"m": m, "n": n, "k": k},
        )


def grouped(experts: int = 64, n: int = 1024, k: int = 1024) -> Iterator[Case]:
    """Tokens quantized, expert weights quantized before, bf16 out: what an MoE layer's forward does."""
    for name, most in (("0..200 rows", 200), ("decode, 0..8 rows", 8)):

        def setup(most: int = most) -> dict[str, Callable[[], object]]:
            generator = torch.Generator().manual_seed(0)
            counts = torch.randint(0, most + 1, (experts,), generator=generator)
            offs = counts.cumsum(0)
            ends = offs.tolist()
            x = torch.randn(ends[-1], k, generator=generator)
            w = torch.randn(experts, n, k, generator=generator).transpose(1, 2)  # stored [E, N, K], as torchao needs it
            xb, wb = x.bfloat16(), w.bfloat16()
            data, scale = ops.mx_quant(wb.transpose(1, 2))
            codes, scales = data.transpose(1, 2), scale.transpose(1, 2)

            def ours() -> object:
                data, scale = ops.mx_quant(xb)
                return ops.mx_grouped_matmul(data, codes, scale, scales, offs)

            return {
                "ours": ours,
                "fp32 loop": peers.loop(x, w, ends),
                "bf16 loop": peers.loop(xb, wb, ends),
                "F.grouped_mm bf16": lambda: F.grouped_mm(xb, wb, offs=offs.int()),
                "torchao emulated": peers.torchao_grouped(xb, wb, offs.int()),
            }

        first = most == 200
        goals = (
            Goal("fp32 loop", "ours", 1.0 if first else None, 1.3 if first else None),
            Goal("bf16 loop", "ours", 3 if first else None, 4 if first else None),
            Goal("F.grouped_mm bf16", "ours"),
            Goal("torchao emulated", "ours"),
        )
        yield Case(f"grouped, {experts} experts, {name}", "grouped", setup, goals, {"n": n, "k": k})


# ---- a whole training step ------------------------------------------------------------------------------------------


def training_steps(batch: int = 4, length: int = 256) -> Iterator[Case]:
    """Forward and backward of the debug DeepSeek-V4 under each recipe, against BF16 in plain torch."""
    from benchmarks.step import step_of

    def setup() -> dict[str, Callable[[], object]]:
        return {
            name: step_of(recipe, batch, length, wide=wide)
            for name, recipe, wide in (
                ("ours", "all_mxfp8", True),
                ("BF16", "bf16", False),
                ("BF16 multiplied in fp32", "bf16", True),
                ("mix", "mix", True),
                ("all_hif8", "all_hif8", True),
            )
        }

    yield Case(
        "training step, debug DeepSeek-V4",
        "step",
        setup,
        (
            Goal("BF16", "ours", 1.0, 1.5),
            Goal("BF16 multiplied in fp32", "ours"),
            Goal("BF16", "mix"),
            Goal("BF16", "all_hif8"),
        ),
        {"batch": batch, "length": length},
    )
