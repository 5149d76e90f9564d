"""The Hadamard rotation of research configs: spreads an outlier over its block before quantization.

A sum over an axis does not change when both operands are rotated along it by the same orthonormal matrix. The matrix here
is Sylvester's, of size 32, applied to each 32 elements; a shorter rest is left as it is, in both operands.
"""

import torch
from torch import Tensor

_SIZE = 32


def _matrix(like: Tensor) -> Tensor:
    h = torch.ones(1, 1, dtype=like.dtype, device=like.device)
    while h.shape[0] < _SIZE:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h * _SIZE**-0.5


def rotate(x: Tensor, axis: int) -> Tensor:
    """Rotate each 32 elements of ``x`` along ``axis``, in x's dtype; the last ``d % 32`` stay."""
    moved = x.movedim(axis, -1)
    whole = moved.shape[-1] // _SIZE * _SIZE
    blocks = moved[..., :whole].unflatten(-1, (-1, _SIZE)) if whole else moved[..., :0].reshape(*moved.shape[:-1], 0, _SIZE)
    # Backward may run under autocast, which would lower the matmul's precision.
    with torch.autocast(x.device.type, enabled=False):
        rotated = torch.cat([(blocks @ _matrix(x)).flatten(-2), moved[..., whole:]], -1)
    return rotated.movedim(-1, axis)
