"""Config functions of DeepSeek-V4, named {flavor}_{recipe}: debug_bf16, debug_all_mxfp8, flash_all_mxfp8, pro_bf16, ..."""

from __future__ import annotations

from torchtitan.components.loss import BaseLoss
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.protocols.model_spec import ModelSpec

from npu_lp.titan.configs import DEBUG, LARGE, config_functions
from npu_lp.titan.deepseek_v4 import LOW_PRECISION_FQNS, MTPLoss, model_registry

SCHEDULES = {"debug": DEBUG, "1b": LARGE, "flash": LARGE, "pro": LARGE}


def _loss(spec: ModelSpec) -> BaseLoss.Config:
    return MTPLoss.Config(global_vocab_size=decoder_vocab_size(spec))


__getattr__, __dir__ = config_functions(__name__, SCHEDULES, model_registry, LOW_PRECISION_FQNS, _loss)
