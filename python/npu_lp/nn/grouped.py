"""Routed experts in low precision: a function, and a way to convert modules that multiply through ``_grouped_mm``."""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from npu_lp import autograd
from npu_lp.config import Config
from npu_lp.nn.linear import autocast_input


def grouped_linear(x: Tensor, weight: Tensor, offs: Tensor, config: Config) -> Tensor:
    """Multiply each group of tokens by its expert's weight, all matmuls quantized as ``config`` says.

    Under torch.autocast, x and weight are converted to its dtype first. Arguments, result and errors are those of
    :func:`npu_lp.autograd.grouped_linear`: ``x [T, K]``, ``weight [G, N, K]``, ``offs [G]`` to ``[T, N]``.
    """
    x, cast = autocast_input(x)
    with torch.autocast(x.device.type, enabled=False):
        return autograd.grouped_linear(x, weight, offs, config, cast_weight=cast)


@runtime_checkable
class GroupedExperts(Protocol):
    """Experts that send every grouped matmul through one method, as torchtitan's do."""

    def _grouped_mm(self, *, A: Tensor, B_t: Tensor, offs: Tensor) -> Tensor: ...


class LowPrecisionExperts(nn.Module):
    """Mixed in before an experts class: its grouped matmuls quantize as ``low_precision`` says."""

    low_precision: Config

    def _grouped_mm(self, *, A: Tensor, B_t: Tensor, offs: Tensor) -> Tensor:
        return grouped_linear(A, B_t.mT, offs, self.low_precision)


_classes: dict[type[nn.Module], type[nn.Module]] = {}


def _new_experts(experts: type[nn.Module]) -> nn.Module:
    cls = low_precision_experts_class(experts)
    return cls.__new__(cls)


def _reduce(self: nn.Module) -> tuple[Any, ...]:
    """For pickle and torch.save, which cannot find a class that was made at run time by its name."""
    return _new_experts, (type(self).__bases__[1],), self.__dict__


def low_precision_experts_class(experts: type[nn.Module]) -> type[nn.Module]:
    """Return the class ``LowPrecision<experts>``: ``experts`` with LowPrecisionExperts mixed in, one for each class."""
    if experts not in _classes:
        _classes[experts] = type(
            f"LowPrecision{experts.__name__}",
            (LowPrecisionExperts, experts),
            {"__module__": experts.__module__, "__reduce__": _reduce},
        )
    return _classes[experts]


def convert_experts(module: nn.Module, config: Config) -> None:
    """Make an experts module low-precision in place; parameters and state_dict keys stay as they are."""
    module.__class__ = low_precision_experts_class(type(module))
    module.low_precision = config  # type: ignore[assignment]
