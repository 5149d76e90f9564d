"""DeepSeek-V4 under FSDP and expert parallelism: two gloo processes compute what one does, in the promised precision."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import npu_lp.titan  # noqa: F401  (adapts torchtitan to this machine first)
import pytest
import torch
import torch.distributed as dist
from deepseek_v4_pair import TINY, our_model
from npu_lp.titan.deepseek_v4 import MTPLoss, parallelize_deepseek_v4
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.activation_checkpoint import SelectiveAC
from torchtitan.distributed.utils import set_spmd_backend

LENGTH = 24
_WRAPPER = "_checkpoint_wrapped_module."  # what activation checkpointing adds to names


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(0, TINY.vocab_size, (2, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    return tokens[:, :-1], tokens[:, 1:]


def _loss(model: torch.nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    positions = torch.arange(LENGTH).expand_as(tokens)
    loss, _ = MTPLoss.Config().build()(model(tokens, positions), labels, positions=positions)
    return loss


def _parallelize(model: torch.nn.Module, *, ep: int, param: str, recompute: bool) -> torch.nn.Module:
    parallelism = ParallelismConfig(spmd_backend="partial_dtensor", expert_parallel_degree=ep)
    dims = ParallelDims.from_config(parallelism, dist.get_world_size())
    set_spmd_backend("partial_dtensor")
    if ep > 1:
        # Sets the sharding of experts in the config, which `build` copied into the modules: build again.
        config = model.config
        config.update_from_config(config=SimpleNamespace(parallelism=parallelism))
        state = model.state_dict()
        model = config.build()
        model.init_states()
        model.load_state_dict(state)
    model.train()
    model = parallelize_deepseek_v4(
        model,
        parallel_dims=dims,
        training=TrainingConfig(mixed_precision_param=param),
        parallelism=parallelism,
        compile_config=CompileConfig(),
        ac_config=SelectiveAC.Config() if recompute else None,
        dump_folder="",
    )
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # gloo cannot scale while it reduces
    return model


def _worker(ep: int, out: str) -> None:
    """Each rank trains on one of the two rows; rank 0 writes the gradients of all parameters."""
    dist.init_process_group("gloo")
    model = _parallelize(our_model(mtp=1), ep=ep, param="float32", recompute=ep == 1)
    row = slice(dist.get_rank(), dist.get_rank() + 1)
    tokens, labels = _batch()
    _loss(model, tokens[row], labels[row]).backward()
    gradients = {}
    for name, p in model.named_parameters():
        grad = p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
        gradients[name.replace(_WRAPPER, "")] = grad
    if dist.get_rank() == 0:
        torch.save(gradients, out)
    dist.destroy_process_group()


@pytest.mark.parametrize("ep", [1, 2])
def test_gradients_of_two_processes_are_those_of_one(ep: int, tmp_path: Path):
    out = tmp_path / "gradients.pt"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", __file__]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run([*command, str(ep), str(out)], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-3000:]
    got = torch.load(out)

    model = our_model(mtp=1).train()
    tokens, labels = _batch()
    _loss(model, tokens, labels).backward()
    assert got.keys() == {name for name, _ in model.named_parameters()}
    for name, p in model.named_parameters():
        if p.grad is None:
            assert got[name] is None, name
        else:
            atol = 1e-4 * p.grad.abs().max().item() + 1e-5
            torch.testing.assert_close(got[name], p.grad, rtol=0, atol=atol, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("recompute", [False, True])
def test_mixed_precision_casts_projections_and_experts_but_not_what_stays_in_fp32(recompute: bool, tmp_path: Path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        model = _parallelize(our_model(mtp=1), ep=1, param="bfloat16", recompute=recompute)
        seen: dict[str, torch.dtype] = {}

        def record(module: torch.nn.Module, args: object) -> None:
            for name, p in module.named_parameters(recurse=False):
                seen[f"{names[module]}.{name}"] = p.dtype

        names = {module: name.replace(_WRAPPER, "") for name, module in model.named_modules()}
        for module in model.modules():
            module.register_forward_pre_hook(record)
        tokens, labels = _batch()
        _loss(model, tokens, labels).backward()
        assert seen.keys() == {name.replace(_WRAPPER, "") for name, _ in model.named_parameters()}
        kept = ("hc_", "_norm", "enorm", "hnorm", "attn_sink", "compressor", "router.gate")
        for name, dtype in seen.items():
            expected = torch.float32 if any(part in name for part in kept) else torch.bfloat16
            assert dtype == expected, name
        assert all(p.dtype == torch.float32 for p in model.parameters())
        assert all(p.grad is None or p.grad.dtype == torch.float32 for p in model.parameters())
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    _worker(int(sys.argv[1]), sys.argv[2])
