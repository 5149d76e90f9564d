"""Config functions of DeepSeek-V3, named {flavor}_{recipe}: debug_bf16, debug_all_mxfp8, 16b_all_mxfp8, ..."""

from __future__ import annotations

from npu_lp.titan.configs import DEBUG, LARGE, config_functions
from npu_lp.titan.deepseek_v3 import LOW_PRECISION_FQNS, model_registry

SCHEDULES = {"debug": DEBUG, "16b": LARGE, "236b": LARGE, "671b": LARGE}

__getattr__, __dir__ = config_functions(__name__, SCHEDULES, model_registry, LOW_PRECISION_FQNS)
