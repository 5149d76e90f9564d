"""A forked process computes: OpenMP's threads are not there any more, and must not be waited for."""

from __future__ import annotations

import subprocess
import sys

# Its own process: the threads of pytest's must not decide. The alarm ends a child that waits for ever. torch itself
# goes to OpenMP's threads from 32768 elements on, so every output, and what is zeroed or copied for it, is larger: an
# odd number of blocks leaves scale bytes to zero, groups that end early leave rows, and what is not contiguous is copied.
PROGRAM = """
import numpy, os, signal, torch
from npu_lp import ops
torch.set_num_threads(3)
x = torch.randn(2048, 2048)
odd, strided, weights, bias = x[:2016], torch.randn(2016, 4096)[:, ::2], torch.randn(3, 2048, 64), torch.randn(131072)[::2]
ends = torch.tensor([256, 256, 1024], dtype=torch.int32)
data, scale = ops.mx_quant(x[:512, :512].contiguous())
rows, row_scale = ops.mx_quant(x)
experts, expert_scale = ops.mx_quant(weights, -2)
codes, hif8_scale = ops.hif8_quant(x)
hif8_experts, hif8_expert_scale = ops.hif8_quant(weights)
fp4, fp4_scale = ops.mx_quant(odd, fmt="e2m1", scale_rule="floor")
blocks, block_scale = ops.block_quant(x[:512, :512].contiguous(), 128, 128)
tiles, tile_scale = ops.block_quant(x[:512, :512].contiguous())
batch = data.expand(4, 512, 512)
long, long_scale = ops.mx_quant(torch.randn(bias.numel(), 32))
def added():
    total = torch.from_numpy(numpy.ones((512, 512), numpy.float32))
    ops.mx_quant_matmul_add_(total, data, data.T, scale, scale.transpose(0, 1))
    return total
calls = {
    "mx_quant": lambda: ops.mx_quant(x),
    "mx_quant, odd columns": lambda: ops.mx_quant(odd, 0),
    "mx_quant, strided": lambda: ops.mx_quant(strided),
    "mx_quant_dual": lambda: ops.mx_quant_dual(odd),
    "mx_quant_dual, strided": lambda: ops.mx_quant_dual(strided),
    "mx_quant_block": lambda: ops.mx_quant_block(odd),
    "mx_quant_block, strided": lambda: ops.mx_quant_block(strided),
    "mx_quant_grouped": lambda: ops.mx_quant_grouped(x, ends),
    "mx_quant_grouped, strided": lambda: ops.mx_quant_grouped(strided, ends),
    "mx_to_block": lambda: ops.mx_to_block(fp4, fp4_scale),
    "mx_to_block, strided": lambda: ops.mx_to_block(fp4[:, ::2], fp4_scale[:, ::2]),
    "mx_dequant": lambda: ops.mx_dequant(rows, row_scale),
    "mx_dequant, strided": lambda: ops.mx_dequant(rows[::2], row_scale[::2]),
    "mx_quant_matmul": lambda: ops.mx_quant_matmul(data, data.T, scale, scale.transpose(0, 1)),
    "mx_quant_matmul, bias": lambda: ops.mx_quant_matmul(
        data[:1, :32], long.T, scale[:1, :1], long_scale.transpose(0, 1), bias),
    "mx_quant_matmul, FP4 strided": lambda: ops.mx_quant_matmul(
        fp4[:, ::2], fp4[:, ::2].T, fp4_scale[:, ::2], fp4_scale[:, ::2].transpose(0, 1), x1_fmt="e2m1", x2_fmt="e2m1"),
    "mx_quant_matmul_add_": added,
    "mx_grouped_matmul": lambda: ops.mx_grouped_matmul(rows, experts, row_scale, expert_scale, ends),
    "mx_linear": lambda: ops.mx_linear(strided[:, :512], data.T, scale.transpose(0, 1)),
    "mx_linear_dual": lambda: ops.mx_linear_dual(strided[:, :512], data.T, scale.transpose(0, 1)),
    "hif8_quant": lambda: ops.hif8_quant(x),
    "hif8_quant, tokens strided": lambda: ops.hif8_quant(strided, granularity="token"),
    "hif8_quant, channels": lambda: ops.hif8_quant(strided, granularity="channel"),
    "hif8_dequant": lambda: ops.hif8_dequant(codes[:, ::2], hif8_scale),
    "hif8_quant_matmul": lambda: ops.hif8_quant_matmul(codes[:512], codes[:512].T, hif8_scale, hif8_scale),
    "hif8_quant_matmul, batch": lambda: ops.hif8_quant_matmul(
        codes.view(2, 4, 256, 2048).transpose(0, 1), codes[:256].T, hif8_scale, hif8_scale),
    "hif8_grouped_matmul": lambda: ops.hif8_grouped_matmul(codes, hif8_experts, hif8_scale, hif8_expert_scale, ends),
    "block_quant": lambda: ops.block_quant(strided),
    "block_quant_matmul": lambda: ops.block_quant_matmul(tiles, blocks, tile_scale, block_scale),
}
def results(name):
    out = calls[name]()
    # Compared as bytes: torch's own operators would wait for OpenMP's threads in the child.
    return [t.reshape(-1).view(torch.uint8).numpy().tobytes() for t in (out if isinstance(out, tuple) else [out])]
before = {name: results(name) for name in calls}
for name in calls:
    if (child := os.fork()) == 0:
        signal.alarm(20)
        threads = torch.get_num_threads()
        same = results(name) == before[name]
        os._exit(0 if same and torch.get_num_threads() == threads else 3)
    status = os.waitpid(child, 0)[1]
    if status:
        print(name, "ended with status", status)
"""


def test_a_forked_child_computes_the_same_bits_and_does_not_hang() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr
