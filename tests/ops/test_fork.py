"""A forked process computes: OpenMP's threads are not there any more, and must not be waited for."""

from __future__ import annotations

import subprocess
import sys

# Its own process: the threads of pytest's must not decide. The alarm ends a child that waits for ever. torch itself
# goes to OpenMP's threads from 32768 elements on, so every output, and what is zeroed in it, is larger: an odd number
# of blocks leaves scale bytes to zero, groups that end early leave rows.
PROGRAM = """
import os, signal, torch
from npu_lp import ops
torch.set_num_threads(3)
x = torch.randn(2048, 2048)
odd, small, weights = x[:2016], torch.randn(512, 512), torch.randn(3, 2048, 64)
ends = torch.tensor([256, 256, 1024], dtype=torch.int32)
def product():
    data, scale = ops.mx_quant(small)
    codes, hif8_scale = ops.hif8_quant(x)
    rows, row_scale = ops.mx_quant(x)
    experts, expert_scale = ops.mx_quant(weights, -2)
    hif8_experts, hif8_expert_scale = ops.hif8_quant(weights)
    results = [
        ops.mx_quant_matmul(data, data.T, scale, scale.transpose(0, 1)),
        ops.hif8_quant_matmul(codes[:512], codes[:512].T, hif8_scale, hif8_scale),
        *ops.mx_quant(odd, 0),
        *ops.mx_quant_dual(odd),
        *ops.mx_quant_block(odd),
        *ops.mx_quant_grouped(x, ends),
        *ops.mx_to_block(*ops.mx_quant(odd, fmt="e2m1", scale_rule="floor")),
        ops.mx_dequant(rows, row_scale),
        ops.mx_grouped_matmul(rows, experts, row_scale, expert_scale, ends),
        ops.hif8_grouped_matmul(codes, hif8_experts, hif8_scale, hif8_expert_scale, ends),
    ]
    # Compared as bytes: torch's own operators would wait for OpenMP's threads in the child.
    return [result.reshape(-1).view(torch.uint8).numpy().tobytes() for result in results]
before = product()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if product() == before else 3)
print("status", os.waitpid(child, 0)[1])
"""


def test_a_forked_child_computes_the_same_bits_and_does_not_hang() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "status 0", done.stdout + done.stderr
