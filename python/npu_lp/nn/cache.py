"""The explicit cache of quantized weights."""

from contextlib import ContextDecorator
from types import TracebackType
from typing import Self

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.tensor import DTensor

from npu_lp.autograd import weight_cache
from npu_lp.nn.linear import LowPrecisionLinear


class cache_quantized_weights(ContextDecorator):
    """Within ``with npu_lp.cache_quantized_weights(model):``, quantize each weight of ``model`` once, while it is unchanged.

    For steps that use a weight more than once before the optimizer changes it: gradient accumulation, activation
    checkpointing, evaluation. Results are the same bits. What is kept is dropped at the end.

    A weight is quantized again after a step of any torch.optim.Optimizer, after anything that torch's version counter sees
    (in-place operations, load_state_dict) and after its ``.data`` was assigned. **What bypasses the counter outside of an
    optimizer is not seen: in-place operations on** ``weight.data``, **as in** ``weight.data.mul_(2)``. Leave the ``with``
    before them.

    Not kept, and quantized at each use as without it: weights under torch.compile, parameters that took another's place
    within the ``with`` (load_state_dict with assign=True), copies of parameters, such as torchtitan's own experts make.

    Like :class:`npu_lp.backend`, it holds for the process.

    Args:
        model: a module with low-precision layers.

    Raises:
        ValueError: the model has none; its parameters are sharded (FSDP, tensor parallelism): their memory is refilled
            without a change of version; or they were made under torch.inference_mode, and have no version.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._added: list[list[Tensor]] = []

    def __enter__(self) -> Self:
        self._added.append(weight_cache.add(_weights(self._model)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        weight_cache.remove(self._added.pop())

    @property
    def nbytes(self) -> int:
        """Bytes that are kept now: up to 2.07 for an element of a weight in MXFP8, 1.07 in block MX and 1 in HiF8."""
        return weight_cache.nbytes(parameter for added in self._added for parameter in added)


def _weights(model: nn.Module) -> list[Tensor]:
    """Parameters of the low-precision layers, each once."""
    layers = [m for m in model.modules() if isinstance(m, LowPrecisionLinear) or hasattr(m, "low_precision")]
    weights = {id(p): p for layer in layers for p in layer.parameters(recurse=False) if p.dim() >= 2}
    if not weights:
        raise ValueError(
            f"cache_quantized_weights: {type(model).__name__} has no low-precision layers. Convert it first, with "
            "npu_lp.convert."
        )
    for name, module in model.named_modules():
        if isinstance(module, FSDPModule | FullyShardedDataParallel):
            raise ValueError(
                f"cache_quantized_weights: {name or 'the model'} is sharded by FSDP, which refills the memory of weights "
                "without a change of version. Use it on models without FSDP."
            )
    for name, parameter in model.named_parameters():
        if id(parameter) in weights and (isinstance(parameter, DTensor) or hasattr(parameter, "_fsdp_flattened")):
            raise ValueError(
                f"cache_quantized_weights: {name} is sharded ({type(parameter).__name__}). Use it on models whose "
                "parameters are whole."
            )
        if id(parameter) in weights and parameter.is_inference():
            raise ValueError(
                f"cache_quantized_weights: {name} was made under torch.inference_mode, where changes are not counted. Make "
                "or load the model outside of it."
            )
    return list(weights.values())
