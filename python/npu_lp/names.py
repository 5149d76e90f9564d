"""The names that ops and configs take, as types: editors complete them and mypy checks them."""

from typing import Literal

Format = Literal["e4m3", "e5m2", "e2m1", "e1m2", "e3m2", "e2m3"]
ScaleRule = Literal["floor", "rceil", "dtype_range"]
Underflow = Literal["ocp", "flush_emax", "flush_subnormal"]
Rounding = Literal["rint", "round", "floor", "stochastic"]
Granularity = Literal["tensor", "token", "channel"]
Split = Literal["m", "k"]
GemmName = Literal["forward", "dgrad", "wgrad"]
