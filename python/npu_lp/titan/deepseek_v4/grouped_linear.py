"""The grouped half of DeepSeek-V4's output projection: a block-diagonal linear layer."""

from dataclasses import dataclass

import torch
from torch import nn
from torchtitan.protocols.module import Module


class GroupedLinear(Module):
    """A linear layer that projects each of `n_groups` groups of features with its own weight, without a bias.

    The weight is stored as Hugging Face stores `o_a_proj`: [n_groups * out_features, in_features], group after group.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(Module.Config):
        """Sizes: in_features and out_features are those of one group."""

        n_groups: int
        in_features: int
        out_features: int

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.n_groups = config.n_groups
        self.in_features = config.in_features
        self.out_features = config.out_features
        self.weight = nn.Parameter(torch.empty(config.n_groups * config.out_features, config.in_features))

    def extra_repr(self) -> str:
        """Sizes for print(model)."""
        return f"n_groups={self.n_groups}, in_features={self.in_features}, out_features={self.out_features}"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., n_groups, in_features] -> [..., n_groups, out_features], in the dtype that the matmul returns.

        Raises ValueError if the last two dims of x are not (n_groups, in_features).
        """
        if x.ndim < 2 or x.shape[-2:] != (self.n_groups, self.in_features):
            raise ValueError(
                f"GroupedLinear got an input of shape {tuple(x.shape)}; its last two dims must be "
                f"(n_groups, in_features) = ({self.n_groups}, {self.in_features})"
            )
        leading = x.shape[:-2]
        x_gti = x.reshape(-1, self.n_groups, self.in_features).transpose(0, 1)
        w_goi = self.weight.view(self.n_groups, self.out_features, self.in_features)
        y_gto = self._matmul(x_gti, w_goi)
        return y_gto.transpose(0, 1).reshape(*leading, self.n_groups, self.out_features)

    def _matmul(self, x_gti: torch.Tensor, w_goi: torch.Tensor) -> torch.Tensor:
        """The seam for low-precision variants: x [G, T, in] @ w [G, out, in]^T -> [G, T, out]."""
        return torch.bmm(x_gti, w_goi.transpose(1, 2))
