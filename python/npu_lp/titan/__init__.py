"""DeepSeek training on torchtitan 0.3.0 with npu_lp's low-precision matmuls; the only folder that imports torchtitan.

Importing this package first adapts torchtitan to the machine (see `npu_lp.titan.host`): on a machine without triton or
without an accelerator, `import torchtitan.trainer` would fail otherwise. `ADAPTATIONS` says what was done.
"""

from npu_lp.titan import host

ADAPTATIONS: tuple[str, ...] = host.adapt_torchtitan()
