"""What stays in fp32, whatever the training precision.

Hugging Face keeps mHC, attention sinks, compressor position biases, router biases and norms of DeepSeek-V4 in fp32;
training codes of the model keep whole compressors in fp32 too, and torchtitan computes its router gates in fp32. We
keep all of these, parameters and arithmetic: `parallelize.py` puts the modules marked here into an FSDP unit of their
own, without a cast of parameters, and `full_precision` keeps an enclosing `torch.autocast` from casting inside them.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torchtitan.models.common.linear import Linear
from torchtitan.models.common.nn_modules import RMSNorm


def full_precision(x: torch.Tensor) -> AbstractContextManager:
    """A context in which `torch.autocast` for x's device type is off, so that fp32 operands stay fp32."""
    return torch.autocast(device_type=x.device.type, enabled=False)


class KeepFloat32:
    """Mixin of modules whose parameters, children's included, FSDP's mixed precision must leave in fp32."""


class Float32RMSNorm(KeepFloat32, RMSNorm):
    """RMSNorm that normalizes and scales in fp32 and returns the dtype of its input, as DeepSeek-V4 defines it.

    (torchtitan's RMSNorm rounds to the weight's dtype before it multiplies.)
    """

    @dataclass(kw_only=True, slots=True)
    class Config(RMSNorm.Config):
        """As torchtitan's, with DeepSeek-V4's eps."""

        eps: float = 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize the last dimension: x [..., normalized_shape] of any float dtype -> same shape and dtype."""
        with full_precision(x):
            return F.rms_norm(x.float(), self.normalized_shape, self.weight.float(), self.eps).to(x.dtype)


class Float32Linear(KeepFloat32, Linear):
    """A linear layer whose operands, weight and result are fp32: router gates and compressors."""

    @dataclass(kw_only=True, slots=True)
    class Config(Linear.Config):
        """As torchtitan's Linear."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features] of any float dtype -> fp32 [..., out_features]."""
        with full_precision(x):
            return F.linear(x.float(), self.weight.float(), self.bias)


def rms_normalize(x: torch.Tensor, eps: float) -> torch.Tensor:
    """RMS normalization of the last dimension without a weight, computed in fp32; shape and dtype of x are kept."""
    with full_precision(x):
        return F.rms_norm(x.float(), x.shape[-1:], None, eps).to(x.dtype)
