"""npu_lp: 8-bit matrix multiplications for training on Ascend 950, with the same bits on any CPU."""

import sys

from npu_lp import _library

# `python -m npu_lp env` reports why the library cannot be loaded, so it must come this far without it.
if sys.orig_argv[-3:] != ["-m", "npu_lp", "env"]:
    _library.load()

    from npu_lp import backends, ops
    from npu_lp.backends import backend
    from npu_lp.config import BlockMXConfig, FakeQuantConfig, HiF8Config, MXConfig
    from npu_lp.nn import LowPrecisionLinear, Plan, cache_quantized_weights, convert, grouped_linear

    backends.select_from_environment()

__all__ = [
    "BlockMXConfig",
    "FakeQuantConfig",
    "HiF8Config",
    "LowPrecisionLinear",
    "MXConfig",
    "Plan",
    "backend",
    "cache_quantized_weights",
    "convert",
    "grouped_linear",
    "ops",
]
__version__ = "0.1.0"
