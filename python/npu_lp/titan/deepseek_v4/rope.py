"""Rotary embedding of DeepSeek-V4: interleaved pairs in the trailing channels of a head, optionally with YaRN.

Layers without a compressor use theta 10,000. Layers with one use theta 160,000 and YaRN with factor 16; YaRN's
attention factor (mscale) is 1, so the rotation stays a rotation. Keys and values are one tensor in this model, so the
values carry a rotation as well; attention undoes it on its output with the conjugate angles at the query's position.
"""

from dataclasses import dataclass

import torch
from torchtitan.models.common.rope import ComplexRoPE

from npu_lp.titan.deepseek_v4.precision import full_precision


class TrailingRoPE(ComplexRoPE):
    """torchtitan's ComplexRoPE (frequencies, YaRN, table of angles), applied to the last `dim` channels of a head."""

    @dataclass(kw_only=True, slots=True)
    class Config(ComplexRoPE.Config):
        """As torchtitan's: `dim` is the number of rotated channels, `max_seq_len` the length of the table."""

    def angles(self, positions: torch.Tensor) -> torch.Tensor:
        """Complex unit vectors e^(i * angle) of integer positions [...]: complex64 [..., dim / 2].

        Raises IndexError when a position is not below max_seq_len (on devices that check indices).
        """
        return self.cache[positions]


def rotate_trailing(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotate neighbouring pairs of x's trailing channels, in fp32.

    Args:
        x: [..., head_dim]; the leading head_dim - 2 * angles.shape[-1] channels pass unchanged.
        angles: complex64, broadcastable to [..., rope_dim / 2] over x's leading dims; conjugate it to rotate back.

    Returns:
        A tensor with x's shape and dtype.
    """
    rope_dim = 2 * angles.shape[-1]
    plain, pairs = torch.split(x, [x.shape[-1] - rope_dim, rope_dim], dim=-1)
    with full_precision(x):
        even, odd = pairs.float().view(*pairs.shape[:-1], rope_dim // 2, 2).unbind(-1)
        cos, sin = angles.real, angles.imag
        rotated = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)
    return torch.cat((plain, rotated.to(x.dtype)), dim=-1)
