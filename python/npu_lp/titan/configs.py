"""Trainer configurations shared by the models: how each size is trained, and config functions named {flavor}_{recipe}.

A model's `config_registry` is three lines: it says how its flavors are trained (a `Schedule` each) and takes its
`__getattr__` and `__dir__` from `config_functions`. A recipe added to `npu_lp.recipes` needs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.loss import BaseLoss, ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw
from torchtitan.components.validate import Validator
from torchtitan.config import DebugConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import SelectiveAC
from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.protocols.model_spec import ModelSpec

from npu_lp import recipes
from npu_lp.titan import data
from npu_lp.titan.converter import LowPrecisionConverter
from npu_lp.titan.loader import DocumentDataLoader
from npu_lp.titan.metrics import Metrics
from npu_lp.titan.trainer import Trainer


@dataclass(frozen=True)
class Schedule:
    """How one flavor (size) of a model is trained by default; every number has a torchtitan flag."""

    batch_size: int
    """Sequences per rank and step (--training.local_batch_size)."""
    seq_len: int
    """Tokens per sequence (--training.seq_len)."""
    steps: int
    """Training steps (--training.steps)."""
    lr: float
    """Peak learning rate of AdamW (--optimizer.param_groups.0.optimizer_kwargs.lr)."""
    warmup_steps: int
    """Steps in which the learning rate rises to its peak; it stays there, then falls linearly over the last 70%."""
    recompute: bool = True
    """Whether activations are recomputed in backward to save memory (torchtitan's selective activation checkpointing)."""


DEBUG = Schedule(batch_size=8, seq_len=256, steps=240, lr=4e-3, warmup_steps=10, recompute=False)
"""Three to five minutes on two CPU cores that have nothing else to do."""
LARGE = Schedule(batch_size=1, seq_len=4096, steps=1000, lr=2.2e-4, warmup_steps=100)
"""For accelerators; batch size and parallelism are set by flags to suit the machine."""

LossBuilder = Callable[[ModelSpec], BaseLoss.Config]


def chunked_cross_entropy(spec: ModelSpec) -> BaseLoss.Config:
    """Cross entropy computed in pieces of the sequence, so that the logits are never all in memory."""
    return ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(spec)))


def trainer_config(
    spec: ModelSpec, schedule: Schedule, *, low_precision: bool, loss: LossBuilder = chunked_cross_entropy
) -> Trainer.Config:
    """The configuration that trains `spec` on Python's sources with the shipped tokenizer, as `schedule` says."""
    return Trainer.Config(
        model_spec=spec,
        loss=loss(spec),
        hf_assets_path=str(data.TOKENIZER),
        dataloader=DocumentDataLoader.Config(dataset=data.TRAIN),
        validator=Validator.Config(
            enable=True,
            freq=max(1, schedule.steps // 4),
            steps=8,
            dataloader=HuggingFaceTextDataLoader.Config(dataset=data.VALIDATION),
        ),
        metrics=Metrics.Config(low_precision=low_precision),
        optimizer=default_adamw(lr=schedule.lr),
        lr_scheduler=LRSchedulersContainer.Config(
            warmup_steps=schedule.warmup_steps, decay_ratio=0.7, decay_type="linear", min_lr_factor=0.1
        ),
        training=TrainingConfig(
            local_batch_size=schedule.batch_size, seq_len=schedule.seq_len, steps=schedule.steps, disable_cuda_graphs=True
        ),
        activation_checkpoint=SelectiveAC.Config() if schedule.recompute else None,
        checkpoint=CheckpointManager.Config(
            interval=max(1, schedule.steps // 2), initial_load_model_only=False, last_save_model_only=False
        ),
        debug=DebugConfig(seed=0, save_config_file="config.json"),
    )


def config_functions(
    module: str,
    schedules: Mapping[str, Schedule],
    model_registry: Callable[..., ModelSpec],
    fqns: list[str],
    loss: LossBuilder = chunked_cross_entropy,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a model's config_registry.

    The names are {flavor}_{recipe}; a flavor may begin with a digit ("1b_bf16"), which only getattr takes.

    Args:
        module: the registry's `__name__`.
        schedules: flavor, by the name that `model_registry` takes -> how it is trained.
        model_registry: (flavor, converters=[...]) -> ModelSpec.
        fqns: substrings of the names of the modules that recipes convert.
        loss: the model's training loss.
    """
    names = [f"{flavor}_{recipe}" for flavor in schedules for recipe in recipes.NAMES]

    def attribute(name: str) -> Callable[[], Trainer.Config]:
        flavor, _, recipe = name.partition("_")
        if name not in names:
            raise AttributeError(f"module {module!r} has no config {name!r}; it has {', '.join(names)}")

        def config() -> Trainer.Config:
            return _config(model_registry, flavor, schedules[flavor], recipe, fqns, loss)

        config.__name__, config.__module__ = name, module
        return config

    return attribute, lambda: list(names)


def _config(
    model_registry: Callable[..., ModelSpec],
    flavor: str,
    schedule: Schedule,
    recipe: str,
    fqns: list[str],
    loss: LossBuilder,
) -> Trainer.Config:
    low_precision = recipe != "bf16"
    converters = [LowPrecisionConverter.Config(recipe=recipe, fqns=fqns)] if low_precision else []
    spec = model_registry(flavor, converters=converters)
    return trainer_config(spec, schedule, low_precision=low_precision, loss=loss)

