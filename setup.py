"""Builds the compiled part of npu_lp with CMake, against the torch that is installed in the environment.

torch is not a build requirement in pyproject.toml: pip would put another copy of it (gigabytes, perhaps another version)
into its isolated build environment. Instead the environment's own interpreter is asked, with -I, which pip's isolation
does not affect.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()


def installed_torch() -> dict[str, str]:
    """Version, header and library folders of the environment's torch."""
    asked = subprocess.run(
        [sys.executable, "-I", str(ROOT / "cmake/installed_torch.py")], capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        reason = asked.stderr.strip().splitlines()[-1] if asked.stderr.strip() else "no output"
        raise SystemExit(
            f"npu_lp is compiled against torch 2.13, but {sys.executable} cannot import torch ({reason}).\n"
            "Install it first, then npu_lp again:\n    pip install torch==2.13.0"
        )
    torch: dict[str, str] = json.loads(asked.stdout)
    if not torch["INSTALLED_TORCH_VERSION"].startswith("2.13."):
        raise SystemExit(
            f"npu_lp is compiled against torch 2.13, but torch {torch['INSTALLED_TORCH_VERSION']} is installed.\n"
            "Install the right one first, then npu_lp again:\n    pip install torch==2.13.0"
        )
    return torch


class CMakeBuild(build_ext):
    """Configures and builds CMakeLists.txt; all libraries come out of one build."""

    def run(self) -> None:
        """Build into the source tree for an editable install, else into the wheel's folder."""
        torch = installed_torch()
        package = ROOT / "python/npu_lp" if self.inplace else Path(self.build_lib).resolve() / "npu_lp"
        package.mkdir(parents=True, exist_ok=True)
        build = ROOT / "build" / f"cmake-{sys.implementation.cache_tag}{'' if self.inplace else '-wheel'}"
        pybind11 = subprocess.check_output([sys.executable, "-m", "pybind11", "--cmakedir"], text=True).strip()
        ninja = shutil.which("ninja")
        if ninja is None or shutil.which("cmake") is None:
            raise SystemExit("npu_lp is built with cmake and ninja. Install them: pip install cmake ninja pybind11")
        configure = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(build)]
        settings = torch | {
            "CMAKE_MAKE_PROGRAM": ninja,  # given anew: the cache may name the ninja of a build environment that is gone
            "Python_EXECUTABLE": sys.executable,
            "pybind11_DIR": pybind11,
            "NPU_LP_OUTPUT_DIR": str(package),
            "NPU_LP_WERROR": os.environ.get("NPU_LP_WERROR", "OFF"),
            "NPU_LP_NPU": os.environ.get("NPU_LP_NPU", "ON"),  # OFF: without the NPU part, whatever ASCEND_HOME_PATH is
        }
        jobs = os.environ.get("MAX_JOBS", str(os.cpu_count() or 1))
        for command in (
            configure + [f"-D{name}={value}" for name, value in settings.items()],
            ["cmake", "--build", str(build), "--parallel", jobs],
        ):
            if subprocess.run(command, check=False).returncode != 0:
                raise SystemExit(f"npu_lp: the build stopped; the reason is above. The command was:\n{' '.join(command)}")
        libraries = {"twin": "libnpu_lp_twin.so", "npu": "libnpu_lp_npu.so"}
        backends = ("cpu", *(name for name, library in libraries.items() if (package / library).exists()))
        (package / "_build_info.py").write_text(
            '"""Written by setup.py: what the compiled library was built for."""\n\n'
            f'TORCH_VERSION = "{torch["INSTALLED_TORCH_VERSION"]}"\nBACKENDS = {backends!r}\n'
        )

    def get_outputs(self) -> list[str]:
        """Return what was built, for the wheel's record."""
        package = Path(self.build_lib) / "npu_lp"
        return [str(path) for path in [*package.glob("*.so"), package / "_build_info.py"]]


setup(ext_modules=[Extension("npu_lp._formats", sources=[])], cmdclass={"build_ext": CMakeBuild})
