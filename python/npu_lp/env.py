"""``python -m npu_lp env``: a report to paste into a bug."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from importlib import util


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
            for line in cpuinfo:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _compiler() -> str:
    gxx = shutil.which(os.environ.get("CXX", "g++"))
    if gxx is None:
        return "not found"
    shown = subprocess.run([gxx, "--version"], capture_output=True, text=True, check=False).stdout
    return shown.splitlines()[0] if shown else gxx


def _cann() -> str:
    home = os.environ.get("ASCEND_HOME_PATH")
    if home is None:
        return "not found: ASCEND_HOME_PATH is not set (source the toolkit's set_env.sh)"
    return home if os.path.isdir(home) else f"not found: ASCEND_HOME_PATH={home} is not a folder"


def _torch_npu() -> str:
    """Its version, and whether it can be imported; asked in a process of its own, which a bad install may not survive."""
    if util.find_spec("torch_npu") is None:
        return "not installed"
    asked = subprocess.run(
        [sys.executable, "-c", "import torch_npu; print(torch_npu.npu.is_available())"],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        return f"{_version('torch_npu')}, cannot be imported: {asked.stderr.strip().splitlines()[-1]}"
    return f"{_version('torch_npu')}, NPU available: {asked.stdout.strip()}"


def _twin() -> str:
    """Whether the twin's library can be loaded, and how it runs kernels."""
    from npu_lp import _library, twin

    try:
        _library.load_twin()
    except ImportError as error:
        return f"cannot be loaded: {error}"
    return f"{_library.TWIN_LIBRARY}, {twin.settings()}"


def report() -> list[tuple[str, str]]:
    """Return names and values: versions, the compiled library, the processor, and what was found of CANN."""
    rows = [
        ("npu_lp", _version("npu_lp")),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("platform", platform.platform()),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("compiler", _compiler()),
    ]
    rows += [(package, _version(package)) for package in ("torch", "torchtitan", "torchao", "transformers", "numpy")]
    try:
        import torch

        from npu_lp import _library

        _library.load()
        from npu_lp import _build_info
    except ImportError as error:
        rows.append(("library", f"cannot be loaded: {error}"))
    else:
        used, available = torch.ops.npu_lp._cpu_kernels()
        rows += [
            ("library", f"{_library.LIBRARY}, for torch {_build_info.TORCH_VERSION}"),
            ("backends built", ", ".join(_build_info.BACKENDS)),
            ("CPU tensors go to", f"{os.environ.get('NPU_LP_BACKEND') or 'cpu'} (NPU_LP_BACKEND chooses)"),
            ("twin", _twin()),
            ("cpu kernels", f"{used} (this processor has: {available}; NPU_LP_CPU chooses)"),
            ("threads", str(torch.get_num_threads())),
        ]
    rows += [("CANN toolkit", _cann()), ("torch_npu", _torch_npu())]
    names = (
        *("NPU_LP_CPU", "NPU_LP_BACKEND", "OMP_NUM_THREADS", "RECIPE", "ENABLE_QUANTIZED_TRAINING"),
        *("ENABLE_MXFP4_QAT", "DST_TYPE_MAX", "MXFP8_DUAL_AXIS_FORWARD"),
    )
    rows += [(name, os.environ[name]) for name in names if name in os.environ]
    return rows


def main() -> None:
    """Print the report."""
    rows = report()
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
