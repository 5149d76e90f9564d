"""Trains a model: `python -m npu_lp.titan.train --module npu_lp.titan.deepseek_v4 --config debug_all_mxfp8 [flags]`.

Flags are torchtitan's (`--training.steps 1000`, `--dump_folder DIR`, ...); `--help` after --module and --config lists
them all with their values. Without torchrun it is one process. Exit status: 0, 2 for input that cannot be used, 130
after Ctrl-C (143 after SIGTERM).
"""

from __future__ import annotations

import copy
import importlib
import logging
import os
import signal
import socket
import sys
import warnings
from types import ModuleType
from typing import Any

import torch
import torchtitan.tools.utils as titan_utils
from torchtitan.config import ConfigManager
from torchtitan.experiments import _supported_experiments
from torchtitan.models import _supported_models
from torchtitan.observability import structured_logger
from torchtitan.tools.logging import init_logger, logger

from npu_lp.titan import ADAPTATIONS, data, host
from npu_lp.titan.errors import InputError
from npu_lp.titan.trainer import Trainer

MODULES = ("npu_lp.titan.deepseek_v4", "npu_lp.titan.deepseek_v3")
"""The modules of this package that --module takes; those of torchtitan (llama3, ...) work as well."""


class _Configs(ConfigManager):
    """torchtitan's reader of --module, --config and flags, with our errors, and defaults that suit this machine."""

    def _load_config(self, args: list[str]) -> tuple[Any, list[str]]:
        check_choice(_value(args, "--module"), _value(args, "--config"))
        config, rest = super()._load_config(args)
        self.adaptations = host.adapt_config(config)
        return config, rest


def _value(args: list[str], flag: str) -> str | None:
    """The value of `flag` in `args` ("--flag value" or "--flag=value"), or None."""
    for i, arg in enumerate(args):
        if arg == flag:
            return args[i + 1] if i + 1 < len(args) else None
        if arg.startswith(flag + "="):
            return arg.partition("=")[2]
    return None


def check_choice(module: str | None, config: str | None) -> None:
    """Raises InputError, with what there is to choose from, unless `module` has the config function `config`.

    An import that fails inside the module is raised as it is: torchtitan would call the module unknown.
    """
    if module is None:
        raise InputError(f"--module is missing: give one of {', '.join(MODULES)}, or a model of torchtitan")
    registry = _registry(module)
    if registry is None:
        raise InputError(
            f"--module {module}: there is no such module; known are {', '.join(MODULES)} and torchtitan's models "
            f"{', '.join(_torchtitan_models())}; one of your own must be importable (PYTHONPATH)"
        )
    known = [name for name in dir(registry) if not name.startswith("_") and _is_config(registry, name)]
    if config is None:
        raise InputError(f"--config is missing: {module} has {', '.join(known)}")
    if not _is_config(registry, config):
        raise InputError(f"--config {config}: {module} has no such config; it has {', '.join(known)}")


def _torchtitan_models() -> list[str]:
    """Short names that --module takes for torchtitan's own models."""
    return sorted(_supported_models)


def _registry(module: str) -> ModuleType | None:
    """The module that holds the config functions of `module`, or None if there is none of that name."""
    candidates = [f"{module}.config_registry", module]
    if module in _torchtitan_models():
        candidates = [f"torchtitan.models.{module}.config_registry"]
    elif module in _supported_experiments:
        candidates = [f"torchtitan.experiments.{module}.config_registry"]
    for candidate in candidates:
        try:
            return importlib.import_module(candidate)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if candidate != missing and not candidate.startswith(missing + "."):
                raise
    return None


def _is_config(registry: ModuleType, name: str) -> bool:
    value = getattr(registry, name, None)
    return callable(value) and not isinstance(value, type) and value.__module__ == registry.__name__


def _single_process_environment() -> None:
    """What torchrun would set, for a process that was not started by it."""
    if "RANK" in os.environ:
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    single = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    os.environ.update(single, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def _quiet_known_warnings() -> None:
    """Silences warnings of libraries about themselves, which a reader of the log can do nothing about."""
    for message in (
        "'set_vital' is deprecated",  # torchdata
        "In CPU autocast, but the target dtype is not supported",  # torchtitan's router, which asks for fp32: as it is
        "DTensor random operators may not have complete support on cpu",  # torch; with one process nothing is sharded
    ):
        warnings.filterwarnings("ignore", message=message)


class _NotTwice(logging.Filter):
    """Drops a message that is equal to the one before it: each of a loader's readers says the same."""

    def __init__(self) -> None:
        super().__init__()
        self._last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        fresh = message != self._last
        self._last = message
        return fresh


def check_memory(config: Trainer.Config, ranks: int) -> None:
    """Raises InputError if weights, gradients and AdamW's two moments cannot fit the memory of this machine's device.

    Counts 16 bytes a parameter (fp32 each), spread over the ranks; activations come on top and are not counted.
    """
    spec = config.model_spec
    if spec is None or config.training.enable_cpu_offload or config.training.dtype != "float32":
        return
    model_config = copy.deepcopy(spec.model)
    with torch.device("meta"):
        parameters = sum(p.numel() for p in model_config.build().parameters())
    # On the CPU all ranks of the machine share its memory; an accelerator has its own.
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if titan_utils.device_type == "cpu" else 1
    need = 16 * parameters * local / ranks
    have = titan_utils.device_module.get_device_properties(titan_utils.get_local_device()).total_memory
    if need > have:
        raise InputError(
            f"{spec.name} {spec.flavor} has {parameters / 1e9:.1f} billion parameters: weights, gradients and optimizer "
            f"take {need / 1024**3:,.0f} GiB here, and {titan_utils.device_type} has {have / 1024**3:,.0f} GiB. Choose "
            "a smaller flavor (BASE_MODEL=debug) or spread it over more devices and machines (NGPU, torchrun --nnodes)"
        )


def run(argv: list[str]) -> int:
    """Reads the flags, checks the input, trains; returns the exit status."""
    _single_process_environment()
    _quiet_known_warnings()
    init_logger()
    for handler in logger.handlers:
        handler.addFilter(_NotTwice())
    ranks = int(os.environ["WORLD_SIZE"])
    manager = _Configs()
    config = manager.parse_args(argv)
    for line in (*ADAPTATIONS, *manager.adaptations, *host.adapt_model(config)):
        logger.info(f"This machine: {line}")
    if host.on_cpu() and os.environ.get("OMP_WAIT_POLICY", "").upper() != "PASSIVE":
        # Too late to set it: the OpenMP runtime reads it when torch is loaded.
        logger.warning("OMP_WAIT_POLICY=PASSIVE is not set: training slows down many times if anything else runs here")
    about = data.check(config, ranks)
    check_memory(config, ranks)
    logger.info(f"Input: {about}")
    logger.info(f"Output folder: {os.path.abspath(config.dump_folder)}")
    structured_logger.init_structured_logger(
        source="training", output_dir=config.dump_folder, enable=config.debug.enable_structured_logging
    )
    trainer = config.build()
    try:
        if config.checkpoint.create_seed_checkpoint:
            trainer.checkpointer.save(curr_step=0, last_step=True)
        else:
            trainer.train()
    finally:
        trainer.close()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    stopped_by = getattr(trainer, "stopped_by", None)
    return 0 if stopped_by is None else 128 + stopped_by


def usage() -> str:
    """What `--help` without a module answers."""
    lines = [__doc__ or "", "Modules and their configs:"]
    for module in MODULES:
        registry = _registry(module)
        assert registry is not None
        names = [name for name in dir(registry) if not name.startswith("_") and _is_config(registry, name)]
        lines.append(f"  {module}: {', '.join(names)}")
    lines.append(f"  models of torchtitan: {', '.join(_torchtitan_models())}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    args = sys.argv[1:] if argv is None else argv
    if not args or (("--help" in args or "-h" in args) and _value(args, "--config") is None):
        print(usage())
        return 0 if args else 2
    try:
        return run(args)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
