"""What `run_train.sh` starts: turns its variables into one training command, shows both, and runs it.

`python -m npu_lp.titan.launch [torchtitan flags]` reads the variables of `VARIABLES` from the environment. A value that is
not known is an error that lists the known ones, before anything is imported for training or written.
"""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from npu_lp import recipes
from npu_lp.config import BlockMXConfig, HiF8Config
from npu_lp.titan.errors import InputError

MODELS = {"deepseek_v4": "npu_lp.titan.deepseek_v4", "deepseek_v3": "npu_lp.titan.deepseek_v3"}
DEFAULT_MODEL = "deepseek_v4"
DEFAULT_FLAVOR = "debug"
DEFAULT_RECIPE = "mix"

VARIABLES = {
    "MODEL": "the model",
    "BASE_MODEL": "its flavor (size)",
    "RECIPE": "which matmuls run in which format",
    "ENABLE_QUANTIZED_TRAINING": "false: BF16, whatever RECIPE says",
    "ENABLE_MXFP4_QAT": "false: no MXFP4 fake quantization of routed experts in mix and mix_mxfp8",
    "DST_TYPE_MAX": "what MXFP4 QAT (0, 6 to 12) or all_hif8 (0, 15, 56, 224, 32768) scales a maximum to",
    "MXFP8_DUAL_AXIS_FORWARD": "1: quantize along both axes in forward; 0: quantize again in backward",
    "NGPU": "number of processes (devices)",
    "DATASET_PATH": "JSON Lines file with `text` fields, or directory of text files",
    "TOKENIZER_PATH": "directory with a Hugging Face tokenizer.json",
    "OUTPUT_DIR": "folder for metrics, curves and checkpoints",
}

_TRUE = ("true", "1", "yes", "on")
_FALSE = ("false", "0", "no", "off")


@dataclass(frozen=True)
class Launch:
    """A training run, resolved."""

    module: str
    config: str
    processes: int
    flags: list[str]
    resolved: dict[str, str]
    """Variable -> what it resolves to, in words."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables to set for the training process."""

    @property
    def train_args(self) -> list[str]:
        """Arguments of `npu_lp.titan.train`."""
        return ["--module", self.module, "--config", self.config, *self.flags]

    @property
    def command(self) -> list[str]:
        """The command that does the same without this module."""
        if self.processes == 1:
            return ["python", "-m", "npu_lp.titan.train", *self.train_args]
        rank0 = ["--local-ranks-filter", "0", "--role", "rank", "--tee", "3"]
        torchrun = ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.processes)]
        return [*torchrun, *rank0, "-m", "npu_lp.titan.train", *self.train_args]


def resolve(environment: Mapping[str, str], flags: list[str]) -> Launch:
    """The run that the variables in `environment` and the torchtitan `flags` describe; a flag wins over a variable.

    An empty value counts as unset. Raises InputError, listing what is known, for a value that is not.
    """
    given = {name: environment.get(name, "").strip() for name in VARIABLES}
    model = _choice("MODEL", given["MODEL"] or DEFAULT_MODEL, MODELS)
    flavors = importlib.import_module(f"{MODELS[model]}.config_registry").SCHEDULES
    flavor = _choice("BASE_MODEL", given["BASE_MODEL"] or DEFAULT_FLAVOR, flavors, f" for MODEL={model}")
    recipe = _choice("RECIPE", given["RECIPE"] or DEFAULT_RECIPE, recipes.NAMES)
    quantized = _switch("ENABLE_QUANTIZED_TRAINING", given["ENABLE_QUANTIZED_TRAINING"] or "true")
    dual_axis = _switch("MXFP8_DUAL_AXIS_FORWARD", given["MXFP8_DUAL_AXIS_FORWARD"] or "1")
    processes = _processes(given["NGPU"])
    used_recipe = recipe if quantized else "bf16"
    details, used_qat, used_dst_max = _details(recipe, quantized, given["ENABLE_MXFP4_QAT"], given["DST_TYPE_MAX"])
    output = given["OUTPUT_DIR"] or os.path.join("outputs", f"{model}_{flavor}_{used_recipe}")

    added: list[str] = []
    for flag, value in (
        ("--dump_folder", output),
        ("--dataloader.dataset_path", given["DATASET_PATH"]),
        ("--hf_assets_path", given["TOKENIZER_PATH"]),
    ):
        if value and not any(arg == flag or arg.startswith(flag + "=") for arg in flags):
            added += [flag, value]
    child: dict[str, str] = {"MXFP8_DUAL_AXIS_FORWARD": "1" if dual_axis else "0", **details}
    if processes > 1 and not torch.accelerator.is_available() and "OMP_NUM_THREADS" not in environment:
        child["OMP_NUM_THREADS"] = str(max(1, len(os.sched_getaffinity(0)) // processes))
    device = "accelerator(s)" if torch.accelerator.is_available() else "CPU"
    resolved = {
        "MODEL": f"{model} ({MODELS[model]})",
        "BASE_MODEL": flavor,
        "RECIPE": used_recipe if quantized else f"bf16 (ENABLE_QUANTIZED_TRAINING is off, {recipe} is not used)",
        "ENABLE_QUANTIZED_TRAINING": "true" if quantized else "false",
        "ENABLE_MXFP4_QAT": used_qat,
        "DST_TYPE_MAX": used_dst_max,
        "MXFP8_DUAL_AXIS_FORWARD": child["MXFP8_DUAL_AXIS_FORWARD"],
        "NGPU": f"{processes} process(es) on {device}",
        "DATASET_PATH": given["DATASET_PATH"] or "the sources of Python's standard library",
        "TOKENIZER_PATH": given["TOKENIZER_PATH"] or "the shipped one (BPE, 2048 entries)",
        "OUTPUT_DIR": output,
    }
    return Launch(MODELS[model], f"{flavor}_{used_recipe}", processes, added + flags, resolved, child)


def _details(recipe: str, quantized: bool, qat: str, dst_type_max: str) -> tuple[dict[str, str], str, str]:
    """The two variables that set a recipe's details, for the training process and in words.

    Raises InputError for a value that they cannot have, or that has no meaning for the recipe.
    """
    details = {
        "ENABLE_MXFP4_QAT": "true" if _switch("ENABLE_MXFP4_QAT", qat or "true") else "false",
        "DST_TYPE_MAX": dst_type_max,
    }
    try:
        chosen = recipes.get(recipe, recipes.Options.from_environment(details))
    except ValueError as error:
        raise InputError(str(error)) from None
    if not quantized:
        return {"ENABLE_MXFP4_QAT": details["ENABLE_MXFP4_QAT"], "DST_TYPE_MAX": ""}, "not used", "not used"
    config = chosen.experts
    said_qat = details["ENABLE_MXFP4_QAT"]
    if recipe not in recipes.WITH_MXFP4_QAT:
        said_qat = f"{recipe} has no fake quantization"
    if isinstance(config, BlockMXConfig) and config.weight_fake_quant is not None:
        said_max = f"{config.weight_fake_quant.dst_max:g} (MXFP4 QAT)"
    elif isinstance(config, HiF8Config):
        said_max = f"{config.dst_max:g} (HiF8)"
    else:
        said_max = f"{chosen.name} does not use it"
    return details, said_qat, said_max


def _choice(name: str, value: str, known: Mapping[str, object] | tuple[str, ...] | list[str], where: str = "") -> str:
    if value not in known:
        raise InputError(f"{name}={value!r} is not known{where}; known are {', '.join(known)}")
    return value


def _switch(name: str, value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise InputError(f"{name}={value!r} is not known; known are {', '.join((*_TRUE, *_FALSE))}")


def _processes(value: str) -> int:
    devices = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
    if not value:
        return max(1, devices)
    if not value.isdecimal() or int(value) < 1:
        raise InputError(f"NGPU={value!r} is not a number of processes; it must be 1 or more")
    if devices and int(value) > devices:
        raise InputError(f"NGPU={value} is more than the {devices} device(s) of this machine; use 1 to {devices}")
    return int(value)


def describe(launch: Launch, environment: Mapping[str, str]) -> str:
    """The table of variables, what they were given and what they resolve to, and the command."""
    lines = ["npu_lp training run"]
    for name, value in launch.resolved.items():
        given = environment.get(name, "").strip()
        lines.append(f"  {name:<26} {given or '(default)':<14} -> {value}")
    lines.append(f"  command                    {shlex.join(launch.command)}")
    return "\n".join(lines)


def usage() -> str:
    """What `--help` answers."""
    known = {
        "MODEL": ", ".join(MODELS),
        "RECIPE": ", ".join(recipes.NAMES),
        "ENABLE_QUANTIZED_TRAINING": "true, false",
        "ENABLE_MXFP4_QAT": "true, false",
        "MXFP8_DUAL_AXIS_FORWARD": "1, 0",
    }
    lines = [__doc__ or "", "Variables:"]
    for name, meaning in VARIABLES.items():
        lines.append(f"  {name:<26} {meaning}" + (f": {known[name]}" if name in known else ""))
    for model, module in MODELS.items():
        flavors = importlib.import_module(f"{module}.config_registry").SCHEDULES
        lines.append(f"  BASE_MODEL of {model}: {', '.join(flavors)}")
    lines.append("\nAll torchtitan flags: python -m npu_lp.titan.train --module MODULE --config CONFIG --help")
    return "\n".join(lines)


def _torchrun(launch: Launch) -> int:
    """Runs the processes; a Ctrl-C reaches all of them from the terminal, and torchrun waits until they have stopped."""
    interrupted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: interrupted.append(number))
    command = [sys.executable, *launch.command[1:]]
    status = subprocess.run(command, env={**os.environ, **launch.environment}, check=False).returncode
    return 128 + signal.SIGINT if interrupted else status


def main(argv: list[str] | None = None) -> int:
    """The command; returns its exit status."""
    flags = sys.argv[1:] if argv is None else argv
    if "--help" in flags or "-h" in flags:
        print(usage())
        return 0
    try:
        launch = resolve(os.environ, flags)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(describe(launch, os.environ), flush=True)
    if launch.processes > 1:
        return _torchrun(launch)
    os.environ.update(launch.environment)
    from npu_lp.titan import train

    return train.main(launch.train_args)


if __name__ == "__main__":
    sys.exit(main())
