"""npu_lp: 8-bit matrix multiplications for training on Ascend 950, with the same bits on any CPU."""

from npu_lp import _library

_library.load()

from npu_lp import ops  # noqa: E402  (its registrations need the library)
from npu_lp.config import BlockMXConfig, FakeQuantConfig, HiF8Config, MXConfig  # noqa: E402
from npu_lp.nn import LowPrecisionLinear, Plan, convert, grouped_linear  # noqa: E402

__all__ = [
    "BlockMXConfig",
    "FakeQuantConfig",
    "HiF8Config",
    "LowPrecisionLinear",
    "MXConfig",
    "Plan",
    "convert",
    "grouped_linear",
    "ops",
]
__version__ = "0.1.0"
