"""A forked process computes: OpenMP's threads are not there any more, and must not be waited for."""

from __future__ import annotations

import subprocess
import sys

# Its own process: the threads of pytest's must not decide. The alarm ends a child that waits for ever.
PROGRAM = """
import os, signal, torch
from npu_lp import ops
torch.set_num_threads(3)
x = torch.randn(512, 512)
def product():
    data, scale = ops.mx_quant(x)
    codes, hif8_scale = ops.hif8_quant(x)
    results = [
        ops.mx_quant_matmul(data, data.T, scale, scale.transpose(0, 1)),
        ops.hif8_quant_matmul(codes, codes.T, hif8_scale, hif8_scale),
        *ops.mx_quant_dual(x),
    ]
    # Compared as bytes: torch's own operators would wait for OpenMP's threads in the child.
    return [result.view(torch.uint8).numpy().tobytes() for result in results]
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
