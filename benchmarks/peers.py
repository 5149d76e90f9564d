"""What npu_lp is measured against: copies of memory, torch's own matmuls, torchao's emulation of MX on a CPU."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

with warnings.catch_warnings():  # torchao warns of CUDA libraries that a CPU build of torch cannot load
    warnings.simplefilter("ignore")
    from torchao.prototype.moe_training.mxfp8_grouped_mm import _to_mxfp8_then_scaled_grouped_mm
    from torchao.prototype.moe_training.mxfp8_linear import _to_mxfp8_then_scaled_mm
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    from torchao.quantization.quantize_.common import KernelPreference

Call = Callable[[], object]


def memcpy(moved: int) -> Call:
    """Copies so that reads and writes together are `moved` bytes."""
    source, target = torch.ones(moved // 2, dtype=torch.uint8), torch.empty(moved // 2, dtype=torch.uint8)
    return lambda: target.copy_(source)


def memcpy_to_new(moved: int) -> Call:
    """The same into a new tensor, as every op of torch returns one."""
    source = torch.ones(moved // 2, dtype=torch.uint8)
    return source.clone


def narrowing_copy(x: Tensor) -> Call:
    """Keeps the low byte of each element: the traffic of a quantizer with next to no arithmetic."""
    source = _integers(x)
    target = torch.empty(x.shape, dtype=torch.uint8)
    return lambda: target.copy_(source)


def narrowing_copy_to_new(x: Tensor) -> Call:
    """The same into a new tensor."""
    source = _integers(x)
    return lambda: source.to(torch.uint8)


def _integers(x: Tensor) -> Tensor:
    return x.view(torch.int16 if x.element_size() == 2 else torch.int32)


def torchao_quantize(x: Tensor) -> Call:
    """torchao's eager to_mx: e4m3, blocks of 32 along the last axis, scales rounded up."""
    return lambda: to_mx(x, torch.float8_e4m3fn, 32, ScaleCalculationMode.RCEIL)


def torchao_quantize_compiled(x: Tensor) -> Call | None:
    """The same, compiled; None where torch.compile refuses it (torch 2.13 has no C++ type for e8m0 on a CPU)."""
    compiled = torch.compile(to_mx, fullgraph=True)
    try:
        compiled(x, torch.float8_e4m3fn, 32, ScaleCalculationMode.RCEIL)
    except (torch._dynamo.exc.TorchDynamoException, torch._inductor.exc.InductorError) as error:
        print(f"torchao's to_mx does not compile: {str(error).splitlines()[0]}", file=sys.stderr)
        return None
    return lambda: compiled(x, torch.float8_e4m3fn, 32, ScaleCalculationMode.RCEIL)


def torchao_linear(x: Tensor, weight: Tensor, grad: Tensor) -> Call:
    """torchao's MXFP8 linear, emulated, forward and backward."""

    def step() -> None:
        y = _to_mxfp8_then_scaled_mm(x, weight, KernelPreference.EMULATED, ScaleCalculationMode.RCEIL)
        y.backward(grad)

    return step


def torchao_grouped(x: Tensor, weight_t: Tensor, offs: Tensor) -> Call:
    """torchao's MXFP8 grouped matmul, emulated, forward; group sizes must be multiples of 32."""
    return lambda: _to_mxfp8_then_scaled_grouped_mm(
        x,
        weight_t,
        offs=offs,
        kernel_preference=KernelPreference.EMULATED,
        scale_calculation_mode=ScaleCalculationMode.RCEIL,
        pad_token_groups_for_grouped_mm=True,
    )


def loop(x: Tensor, weight_t: Tensor, ends: list[int]) -> Call:
    """One torch matmul for each expert: x [T, K], weight_t [E, K, N]."""

    def run() -> None:
        start = 0
        for expert, end in enumerate(ends):
            torch.mm(x[start:end], weight_t[expert])
            start = end

    return run
