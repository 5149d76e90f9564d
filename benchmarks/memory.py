"""Peak memory of a large matmul, beyond its operands and its output, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

NAME = "extra memory, matmul 64x8192x8192 and 8192x8192x8192"

_PROGRAM = """
import resource, sys, torch, npu_lp
from npu_lp import ops
threads, m = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(threads)
def codes(rows):
    scales = torch.full((rows, 128, 2), 127, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    return torch.zeros(rows, 8192, dtype=torch.float8_e4m3fn), scales
a, a_scale = codes(m)
b, b_scale = codes(8192)
small, small_scale = codes(64)
# Threads, code and libraries are in memory before the measurement; the output's pages are touched by hand.
ops.mx_quant_matmul(small[:, :256], b[:64, :256].T, small_scale[:, :4], b_scale[:64, :4].transpose(0, 1))
output = torch.zeros(m, 8192, dtype=torch.bfloat16)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
del output
ops.mx_quant_matmul(a, b.T, a_scale, b_scale.transpose(0, 1))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def extra_peak(threads: int) -> float:
    """Bytes a thread; the largest of two shapes, three times each: pages that the system takes back meanwhile lower it."""
    peaks = []
    for m in (64, 8192) * 3:
        command = [sys.executable, "-c", _PROGRAM, str(threads), str(m)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout.split()[-1]))
    return max(peaks) / threads
