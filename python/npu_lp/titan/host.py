"""Runs torchtitan 0.3.0 on machines it was not written for: a CPU, no triton, torch 2.13.

Each function below removes one obstacle, looks first whether this machine has it, and returns one sentence that says
what was done, or None when there was nothing to do: on a machine that needs nothing, nothing is touched. torchtitan's
files are neither copied nor edited. Two moments matter:

- `adapt_torchtitan()` runs before torchtitan's trainer is imported (`import npu_lp.titan` calls it);
- `adapt_config(config)` runs on a Trainer.Config before command-line flags are applied, so that a flag still wins, and
  `adapt_model(config)` after them.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import resource
import sys
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from torchtitan.trainer import Trainer

_KERNELS = "torchtitan.distributed.minimal_async_ep.kernels"
_GIB = 1024**3


def adapt_torchtitan() -> tuple[str, ...]:
    """Removes the obstacles to importing and running torchtitan; call it before `torchtitan.trainer` is imported.

    Returns one sentence for each thing done (empty on a machine with triton, an accelerator and a newer torch). A
    second call does nothing.
    """
    steps = (
        _import_kernels_without_triton,
        _use_cpu_as_device,
        _no_foreign_peak_flops,
        _add_set_timeout,
        _integers_in_hf_checkpoints,
    )
    return tuple(done for step in steps if (done := step()) is not None)


def adapt_config(config: Trainer.Config) -> tuple[str, ...]:
    """Changes defaults of `config` that cannot work here; flags given on the command line afterwards still win."""
    steps = (_partial_dtensor_before_torch_2_14, _no_cuda_graphs_without_cuda)
    return tuple(done for step in steps if (done := step(config)) is not None)


def adapt_model(config: Trainer.Config) -> tuple[str, ...]:
    """Makes the model of `config` (flags already applied) run on this machine's device."""
    steps = (_sdpa_instead_of_flex_attention, _fp32_units_for_bf16, _sum_reduction_for_gloo)
    return tuple(done for step in steps if (done := step(config)) is not None)


def on_cpu() -> bool:
    """Whether torch sees no accelerator (GPU, NPU), so that training runs on the CPU."""
    return not torch.accelerator.is_available()


# ---- before torchtitan is imported ----------------------------------------------------------------------------------


class _NoTriton:
    """Stands for every name of triton while a file full of triton kernels is imported; running a kernel fails."""

    def __getattr__(self, name: str) -> _NoTriton:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> _NoTriton:
        return self

    def __getitem__(self, grid: Any) -> _NoTriton:
        raise RuntimeError(
            "torchtitan's MinimalAsyncEP dispatcher is written in triton, which is not installed here: "
            "use another token dispatcher (the default 'standard'), or `pip install triton` on a machine with a GPU"
        )


def _import_kernels_without_triton() -> str | None:
    """torchtitan imports one file of triton kernels unconditionally, even if no kernel is ever launched.

    Only that file is executed with a stand-in for triton, which is taken away again at once: torch and everything else
    go on seeing that triton is absent.
    """
    if importlib.util.find_spec("triton") is not None or _KERNELS in sys.modules:
        return None
    package = importlib.util.find_spec("torchtitan")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("npu_lp.titan needs torchtitan 0.3.0: pip install 'npu_lp[titan]'", name="torchtitan")
    path = os.path.join(package.submodule_search_locations[0], *_KERNELS.split(".")[1:]) + ".py"
    spec = importlib.util.spec_from_file_location(_KERNELS, path)
    assert spec is not None and spec.loader is not None
    kernels = importlib.util.module_from_spec(spec)
    stand_in = ModuleType("triton")
    language = ModuleType("triton.language")
    for module in (stand_in, language):
        module.__getattr__ = _NoTriton().__getattr__  # type: ignore[method-assign]
    stand_in.language = language  # type: ignore[attr-defined]
    sys.modules.update({"triton": stand_in, "triton.language": language})
    try:
        spec.loader.exec_module(kernels)
    finally:
        del sys.modules["triton"], sys.modules["triton.language"]
    sys.modules[_KERNELS] = kernels
    return "triton is not installed: torchtitan's triton kernels were imported as names only, they cannot be launched"


class CpuDevice:
    """The part of torch's device-module interface (torch.cuda, torch.npu) that torchtitan uses, for the CPU.

    torch.cpu lacks names, properties and memory statistics. Memory is that of the process: bytes resident at most since
    it started; the operating system keeps one peak, so it cannot be reset.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def get_device_name(self, device: Any = None) -> str:
        """The processor's name, e.g. "Intel(R) Xeon(R) ...", or the architecture if the system does not tell."""
        return _cpu_name()

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        """An object with `name` and `total_memory` (bytes of physical memory)."""
        return SimpleNamespace(name=_cpu_name(), total_memory=physical_memory())

    def current_device(self) -> int:
        """Always 0; torch.cpu.current_device() answers "cpu", which torch.distributed.barrier does not take."""
        return 0

    def memory_stats(self, device: Any = None) -> dict[str, int]:
        """The process's peak resident memory under the names that torch.cuda.memory_stats uses."""
        peak = peak_resident_memory()
        return {"active_bytes.all.peak": peak, "reserved_bytes.all.peak": peak, "num_alloc_retries": 0, "num_ooms": 0}

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Does nothing: see the class docstring."""

    def empty_cache(self) -> None:
        """Does nothing: the CPU allocator caches nothing that could be returned."""


def physical_memory() -> int:
    """Bytes of physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def peak_resident_memory() -> int:
    """Bytes this process held in memory at most (getrusage counts KiB on Linux and bytes on macOS)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else f"CPU ({os.uname().machine})"


def _use_cpu_as_device() -> str | None:
    """torchtitan takes "cuda" for its device when torch sees no accelerator."""
    if not on_cpu():
        return None
    import torchtitan.tools.utils as utils

    if isinstance(utils.device_module, CpuDevice):
        return None
    old_type, old_module = utils.device_type, utils.device_module
    new_module = CpuDevice()
    for name, module in list(sys.modules.items()):
        # torchtitan modules that are already imported hold copies (`from torchtitan.tools.utils import device_type`).
        if name.startswith("torchtitan.") and isinstance(module, ModuleType):
            if vars(module).get("device_type") == old_type:
                module.device_type = "cpu"  # type: ignore[attr-defined]
            if vars(module).get("device_module") is old_module:
                module.device_module = new_module  # type: ignore[attr-defined]
    return f"no accelerator: torchtitan's device is the CPU ({_cpu_name()}, {physical_memory() / _GIB:.1f} GiB)"


_A100_PEAK = 312e12


def _no_foreign_peak_flops() -> str | None:
    """torchtitan gives a device it does not know the peak of an A100; here its peak is NaN, and no mfu is printed.

    Ascend 950 is sold with 28, 32 and 36 cores under one name, so its peak cannot be told from the name either.
    """
    import torchtitan.tools.utils as utils

    if getattr(utils.get_peak_flops, "_npu_lp", False):
        return None
    name = utils.device_module.get_device_name()
    # The CPU and the NPU are not in torchtitan's table; asking it anyway would print a misleading warning.
    asked = utils.device_type not in ("cpu", "npu")
    if asked and ("A100" in name or utils.get_peak_flops(name) != _A100_PEAK):
        return None

    def get_peak_flops(device_name: str) -> float:
        return float("nan")

    get_peak_flops._npu_lp = True  # type: ignore[attr-defined]
    utils.get_peak_flops = get_peak_flops
    return f"the peak FLOP/s of {name} is not known: no mfu"


def _add_set_timeout() -> str | None:
    """torchtitan 0.3.0 calls torch.distributed.set_timeout, which torch has from 2.14 on."""
    if hasattr(dist, "set_timeout"):
        return None
    from torch.distributed.distributed_c10d import _set_pg_timeout

    def set_timeout(timeout: timedelta, group: dist.ProcessGroup | None = None) -> None:
        _set_pg_timeout(timeout, group)

    setattr(dist, "set_timeout", set_timeout)  # noqa: B010  # an attribute this torch does not have
    return f"torch {torch.__version__} has no torch.distributed.set_timeout: _set_pg_timeout serves instead"


class _TorchThatSizesIntegers:
    """The torch module, except that finfo() also tells the number of bits of integer and bool dtypes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def finfo(dtype: torch.dtype) -> Any:
        return torch.finfo(dtype) if dtype.is_floating_point else SimpleNamespace(bits=8 * dtype.itemsize)


def _integers_in_hf_checkpoints() -> str | None:
    """torch 2.13 asks torch.finfo for the size of every tensor that it merges into Hugging Face safetensors files.

    DeepSeek-V4 has an integer one, the expert of each token in hash-routed layers (tid2eid).
    """
    import torch.distributed.checkpoint._consolidate_hf_safetensors as consolidate

    names = vars(consolidate)
    if "torch.finfo" not in inspect.getsource(consolidate) or isinstance(names["torch"], _TorchThatSizesIntegers):
        return None
    names["torch"] = _TorchThatSizesIntegers()
    return f"torch {torch.__version__} cannot save integer tensors in Hugging Face format: their size is told to it"


# ---- on the configuration -------------------------------------------------------------------------------------------


def _partial_dtensor_before_torch_2_14(config: Trainer.Config) -> str | None:
    """The default "spmd_types" backend needs FSDP of a newer torch (2.13: "all parameters must be DTensors")."""
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version >= (2, 14) or config.parallelism.spmd_backend != "spmd_types":
        return None
    config.parallelism.spmd_backend = "partial_dtensor"
    return f"torch {torch.__version__}: parallelism.spmd_backend is partial_dtensor (spmd_types needs torch 2.14)"


def _no_cuda_graphs_without_cuda(config: Trainer.Config) -> str | None:
    if torch.cuda.is_available() or config.training.disable_cuda_graphs:
        return None
    config.training.disable_cuda_graphs = True
    return "no CUDA: training.disable_cuda_graphs is set"


def _sdpa_instead_of_flex_attention(config: Trainer.Config) -> str | None:
    """FlexAttention, torchtitan's default for packed documents, has no backward on the CPU."""
    if not on_cpu():
        return None
    from torch.nn.attention.flex_attention import create_block_mask
    from torchtitan.models.common import attention

    # Compiling the making of a mask takes 20 seconds and a compiler at run time; making it takes milliseconds.
    attention._compiled_create_block_mask = create_block_mask
    if not _activate(config, "dense_attention", attention.FlexAttention.Config):
        return None
    return "FlexAttention has no backward on the CPU: the same masks are used with scaled_dot_product_attention"


def _fp32_units_for_bf16(config: Trainer.Config) -> str | None:
    """torch's BF16 matmuls are 3 to 50 times slower than fp32 ones on processors without BF16 instructions."""
    if not on_cpu():
        return None
    from torchtitan.models.common.linear import Linear
    from torchtitan.models.common.moe import GroupedExperts

    from npu_lp.titan.cpu_modules import has_bf16_instructions
    from npu_lp.titan.deepseek_v4.grouped_linear import GroupedLinear

    if has_bf16_instructions():
        return None
    units = (
        ("wide_linear", Linear.Config),
        ("wide_experts", GroupedExperts.Config),
        ("wide_grouped_linear", GroupedLinear.Config),
    )
    activated = [_activate(config, function, kind) for function, kind in units]
    if not any(activated):
        return None
    return "no BF16 instructions: BF16 operands are multiplied in fp32, and the results rounded to BF16"


def _activate(config: Trainer.Config, function: str, kind: type) -> bool:
    """Asks torchtitan to apply an override of cpu_modules; False if the model has no config of that kind."""
    target = f"npu_lp.titan.cpu_modules.{function}"
    if config.model_spec is None or target in config.override.imports:
        return False
    if not any(True for _ in config.model_spec.traverse(kind)):
        return False
    config.override.imports.append(target)
    return True


def _sum_reduction_for_gloo(config: Trainer.Config) -> str | None:
    """Gloo, the CPU's collectives, cannot scale while it reduces (ReduceOp.PREMUL_SUM), as FSDP asks it to."""
    spec = config.model_spec
    if not on_cpu() or spec is None or getattr(spec.parallelize_fn, "_npu_lp", False):
        return None
    parallelize: Callable[..., torch.nn.Module] = spec.parallelize_fn

    def parallelize_fn(model: torch.nn.Module, **kwargs: Any) -> torch.nn.Module:
        from torch.distributed.fsdp import FSDPModule

        model = parallelize(model, **kwargs)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)
        return model

    parallelize_fn._npu_lp = True  # type: ignore[attr-defined]
    spec.parallelize_fn = parallelize_fn
    return "gloo has no PREMUL_SUM: FSDP sums gradients and scales them afterwards"
