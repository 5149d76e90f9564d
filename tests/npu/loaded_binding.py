"""Run in a process of its own, with torch_npu and the stub of CANN: what the loaded binding says, as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import npu_lp
import torch
import torch_npu
from torch._subclasses.fake_tensor import FakeTensorMode

E4M3, E8M0 = torch.float8_e4m3fn, torch.float8_e8m0fnu


def facts(result: Any) -> list[list[Any]]:
    tensors = [result] if isinstance(result, torch.Tensor) else list(result)
    return [[list(t.shape), str(t.dtype).removeprefix("torch."), t.device.type, list(t.stride())] for t in tensors]


def calls(device: str) -> dict[str, Any]:
    """Results of each op on tensors without data."""
    x = torch.empty(128, 256, dtype=torch.bfloat16, device=device)
    odd = torch.empty(3, 70, 96, dtype=torch.float32, device=device)
    offs = torch.empty(4, dtype=torch.int64, device=device)
    a, a_scale = ops.mx_quant(x)
    b, b_scale = ops.mx_quant(torch.empty(256, 512, dtype=torch.bfloat16, device=device), -2)
    token, token_scale = ops.mx_quant_grouped(x, offs)
    h = torch.empty(128, 256, dtype=torch.uint8, device=device)
    one = torch.empty(1, device=device)
    return {
        "mx_quant": facts((a, a_scale)),
        "mx_quant axis -2": facts((b, b_scale)),
        "mx_quant batch": facts(ops.mx_quant(odd, 1)),
        "mx_quant fp4": facts(ops.mx_quant(x, -1, "e2m1", "dtype_range")),
        "mx_quant_dual": facts(ops.mx_quant_dual(odd)),
        "mx_quant_grouped": facts((token, token_scale)),
        "mx_quant_block": facts(ops.mx_quant_block(x)),
        "mx_to_block": facts(ops.mx_to_block(*ops.mx_quant(odd, -1, "e2m1", "floor"))),
        "mx_dequant": facts(ops.mx_dequant(a, a_scale)),
        "mx_quant_matmul": facts(ops.mx_quant_matmul(a, b, a_scale, b_scale)),
        "mx_quant_matmul_add_": facts(
            ops.mx_quant_matmul_add_(torch.empty(128, 512, device=device), a, b, a_scale, b_scale)
        ),
        "mx_grouped_matmul m": facts(
            ops.mx_grouped_matmul(
                a, b.expand(4, -1, -1), a_scale, b_scale.expand(4, -1, -1, -1), offs, out_dtype=torch.float16
            )
        ),
        "mx_grouped_matmul k": facts(ops.mx_grouped_matmul(token.t(), token, token_scale, token_scale, offs, "k")),
        "hif8_quant": facts(ops.hif8_quant(x, 224.0, "token")),
        "hif8_quant_matmul": facts(ops.hif8_quant_matmul(h, h.t(), one, one)),
        "hif8_grouped_matmul": facts(ops.hif8_grouped_matmul(h, h.t().expand(4, -1, -1), one, one, offs)),
    }


def torch_npus_layouts() -> dict[str, Any]:
    """The same results of torch_npu's own ops, on fake tensors of the NPU."""
    x = torch.empty(128, 256, dtype=torch.bfloat16, device="npu:0")
    offs = torch.empty(4, dtype=torch.int32, device="npu:0")
    fp8 = torch.float8_e4m3fn
    return {
        "mx_quant": facts(torch_npu.npu_dynamic_mx_quant(x, axis=-1, dst_type=fp8)),
        "mx_quant axis -2": facts(
            torch_npu.npu_dynamic_mx_quant(
                torch.empty(256, 512, dtype=torch.bfloat16, device="npu:0"), axis=-2, dst_type=fp8
            )
        ),
        "mx_quant_grouped": facts(torch_npu.npu_grouped_dynamic_mx_quant(x, offs, dst_type=fp8)),
    }


library = sys.argv[1]
torch.ops.load_library(library)
ops: Any = npu_lp.ops
names = sorted(
    rest.split(".")[0]
    for space, _, rest in (name.partition("::") for name in torch._C._dispatch_get_all_op_names())
    if space == "npu_lp" and not rest.startswith("_")
)
with FakeTensorMode():
    fake = calls("npu:0")
    theirs = torch_npus_layouts()
print(
    json.dumps(
        {
            "kernels": {
                name: torch._C._dispatch_has_kernel_for_dispatch_key(f"npu_lp::{name}", "PrivateUse1") for name in names
            },
            "meta": calls("meta"),
            "fake": fake,
            "torch_npu": theirs,
            "available": torch_npu.npu.is_available(),
        }
    )
)
