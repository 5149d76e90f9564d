"""What the NPU must be: Ascend 950 is the first with 8-bit floating-point matrix multiplication."""

import re

import torch

from npu_lp.config import Config, HiF8Config


def check_npu(*configs: Config | None) -> None:
    """Raise unless this process's NPU, if it has one, can run the configs. A machine without an NPU passes.

    HiF8 is checked too, at the start, where torchtitan-npu lets it fail at its first operator.

    Raises:
        RuntimeError: the NPU is older than Ascend 950.
    """
    wanted = [config for config in configs if config is not None]
    npu = getattr(torch, "npu", None)  # torch_npu puts it there when torch loads; it is never imported from here
    if not wanted or npu is None or not npu.is_available():
        return
    name = str(npu.get_device_name())
    # "Ascend910_95" is an early name of the Ascend 950.
    number = re.search(r"Ascend(\d+)", name)
    if "Ascend910_95" in name or (number is not None and int(number[1]) >= 950):
        return
    what = "HiF8" if all(isinstance(config, HiF8Config) for config in wanted) else "MXFP8"
    raise RuntimeError(f"{what} is only supported on Ascend950 or higher architecture, but got device: {name}")
