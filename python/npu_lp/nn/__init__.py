"""Low-precision layers, and the conversion of models to them."""

from npu_lp.nn.cache import cache_quantized_weights
from npu_lp.nn.convert import convert
from npu_lp.nn.grouped import grouped_linear
from npu_lp.nn.linear import LowPrecisionLinear
from npu_lp.nn.plan import Plan, PlanEntry

__all__ = ["LowPrecisionLinear", "Plan", "PlanEntry", "cache_quantized_weights", "convert", "grouped_linear"]
