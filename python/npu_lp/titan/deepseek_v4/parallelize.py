"""Data and expert parallelism for DeepSeek-V4, with an FSDP unit in each block for what stays in fp32.

The order is the one torchtitan uses for DeepSeek-V3: shard experts over the EP mesh, wrap blocks for activation
checkpointing, compile, apply FSDP. Before FSDP takes a block as a whole, the modules marked `KeepFloat32` in it become
one unit of their own whose parameters are gathered as they are stored, in fp32; `mixed_precision_param` applies to the
rest. One exception: the final norm shares a unit with lm_head in torchtitan, so forward passes see its weight rounded.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import SAC_IGNORED_OPS
from torchtitan.config import TORCH_DTYPE_MAP, CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.activation_checkpoint import ActivationCheckpointingConfig
from torchtitan.distributed.compile import apply_compile
from torchtitan.distributed.fsdp import disable_fsdp_gradient_division, get_fsdp_reshard_after_forward_policy
from torchtitan.distributed.full_dtensor import resolve_fsdp_mesh, resolve_sparse_fsdp_mesh, validate_config
from torchtitan.models.deepseek_v3.mtp import apply_fsdp_to_mtp_decoder

from npu_lp.titan.deepseek_v4.model import DeepSeekV4Model
from npu_lp.titan.deepseek_v4.precision import KeepFloat32

_PROFILER_ANNOTATIONS = (
    torch.ops.profiler._record_function_enter_new.default,
    torch.ops.profiler._record_function_exit._RecordFunction,
)


def parallelize_deepseek_v4(
    model: DeepSeekV4Model,
    *,
    parallel_dims: ParallelDims,
    training: TrainingConfig,
    parallelism: ParallelismConfig,
    compile_config: CompileConfig,
    ac_config: ActivationCheckpointingConfig,
    dump_folder: str,
) -> nn.Module:
    """torchtitan's parallelize_fn of the model: arguments are the trainer's config sections; returns the model."""
    multi_axis = parallelism.spmd_backend in ("full_dtensor", "spmd_types")
    if multi_axis:
        validate_config(parallel_dims, model)
    if multi_axis or parallel_dims.ep_enabled:
        model.parallelize(parallel_dims)
    if ac_config is not None:
        # The fp32 units lie within the recomputed blocks, and FSDP annotates its work differently in a recomputation
        # than in the forward pass. Without this, selective checkpointing takes that for a different computation.
        SAC_IGNORED_OPS.update(_PROFILER_ANNOTATIONS)
        ac_config.build(dump_folder=dump_folder).apply(model)
    if compile_config.enable and "model" in compile_config.components:
        apply_compile(model, compile_config=compile_config, parallel_dims=parallel_dims)

    mesh = _fsdp_meshes(parallel_dims, multi_axis)
    reduce_dtype = TORCH_DTYPE_MAP[training.mixed_precision_reduce]
    _shard_float32_units(model, mesh, reduce_dtype, training, parallelism)
    apply_fsdp_to_mtp_decoder(
        model,
        **mesh,
        param_dtype=TORCH_DTYPE_MAP[training.mixed_precision_param],
        reduce_dtype=reduce_dtype,
        pp_enabled=False,
        cpu_offload=training.enable_cpu_offload,
        reshard_after_forward_policy=parallelism.fsdp_reshard_after_forward,
        ep_degree=parallel_dims.ep,
        enable_symm_mem=parallelism.enable_fsdp_symm_mem,
    )
    disable_fsdp_gradient_division(model)
    return model


def float32_modules(module: nn.Module) -> Iterator[nn.Module]:
    """The outermost modules in `module` (itself included) that are marked KeepFloat32 and have parameters."""
    if isinstance(module, KeepFloat32):
        if next(module.parameters(), None) is not None:
            yield module
        return
    for child in module.children():
        yield from float32_modules(child)


def _fsdp_meshes(parallel_dims: ParallelDims, multi_axis: bool) -> dict[str, Any]:
    """Meshes over which FSDP shards dense and expert parameters, as arguments of apply_fsdp_to_mtp_decoder."""
    if multi_axis:
        dp_mesh, dp_mesh_dims = resolve_fsdp_mesh(parallel_dims)
        edp_mesh, edp_mesh_dims = resolve_sparse_fsdp_mesh(parallel_dims)
        return {"dp_mesh": dp_mesh, "dp_mesh_dims": dp_mesh_dims, "edp_mesh": edp_mesh, "edp_mesh_dims": edp_mesh_dims}
    replicate = ["dp_replicate"] if parallel_dims.dp_replicate_enabled else []
    return {
        "dp_mesh": parallel_dims.get_mesh([*replicate, "fsdp"]),
        "edp_mesh": parallel_dims.get_optional_mesh([*replicate, "efsdp"]) if parallel_dims.ep_enabled else None,
    }


def _shard_float32_units(
    model: DeepSeekV4Model,
    mesh: dict[str, Any],
    reduce_dtype: torch.dtype,
    training: TrainingConfig,
    parallelism: ParallelismConfig,
) -> None:
    options: dict[str, Any] = {
        "mesh": mesh["dp_mesh"],
        "mp_policy": MixedPrecisionPolicy(param_dtype=None, reduce_dtype=reduce_dtype, cast_forward_inputs=False),
        "reshard_after_forward": get_fsdp_reshard_after_forward_policy(
            parallelism.fsdp_reshard_after_forward, pp_enabled=False
        ),
    }
    if mesh.get("dp_mesh_dims") is not None:
        options["dp_mesh_dims"] = mesh["dp_mesh_dims"]
    if training.enable_cpu_offload:
        options["offload_policy"] = CPUOffloadPolicy()
    blocks = [*model.layers.values(), *(model.mtp_layers or ())]
    for owner in (*blocks, model.hc_head):
        fully_shard(list(float32_modules(owner)), **options)
