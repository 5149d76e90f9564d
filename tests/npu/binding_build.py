"""Builds what the binding to torch_npu needs where there is no CANN: the torch_npu wheel unpacked, a stub of CANN's
libraries, and the binding itself with empty launch functions."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
TORCH_NPU = "2.13.0"
# Out-parameters that somebody reads, and answers that are not an error.
STUB_BODIES = {
    "aclrtGetDeviceCount": "*(unsigned*)a = 0; return 0;",
    "aclrtGetSocName": 'return (long)"Ascend950PR";',
}
CANN_ERROR = 507899  # what CANN's own stub says: an internal error of the driver


def unpacked_wheel(cache: Path) -> Path:
    """The folder that holds the package torch_npu; skips the test where the wheel cannot be had."""
    folder = cache / f"torch_npu-{TORCH_NPU}-{sys.implementation.cache_tag}"
    if folder.exists():
        return folder
    download = subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(cache),
         f"torch_npu=={TORCH_NPU}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    wheels = sorted(cache.glob(f"torch_npu-{TORCH_NPU}-*{platform.machine()}.whl"))
    if download.returncode != 0 or not wheels:
        reason = (download.stderr.strip().splitlines() or ["no wheel for this machine"])[-1]
        pytest.skip(f"torch_npu {TORCH_NPU} cannot be downloaded: {reason}")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(partial)
    partial.rename(folder)
    return folder


def symbols(library: Path, which: str) -> set[str]:
    shown = subprocess.run(["nm", "-D", which, str(library)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in shown.splitlines() if line}


def stub_cann(wheel: Path, folder: Path) -> None:
    """Libraries with the names that torch_npu asks for, and every function that nothing else in the process has."""
    libraries = [*(wheel / "torch_npu/lib").glob("*.so"), *(wheel / "torch_npu").glob("_C*.so")]
    libraries = [library for library in libraries if library.name != "libop_plugin_atb.so"]  # loaded on demand
    torch_libraries = (Path(torch.__file__).parent / "lib").glob("*.so")
    needed, undefined = set(), set()
    for library in libraries:
        dynamic = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
        undefined |= symbols(library, "--undefined-only")
    defined = set().union(*(symbols(library, "--defined-only") for library in [*libraries, *torch_libraries]))
    missing = {name for name in undefined - defined if re.match(r"(acl|Hccl|hccl|Msprof|rt[A-Z]|ge|aml)", name)}
    assert len(missing) > 40, f"few functions of CANN are missing, which is unlikely: {sorted(missing)}"
    # The binding's own calls.
    missing |= {"aclrtGetDeviceInfo"}
    source = folder / "stub.c"
    bodies = {name: STUB_BODIES.get(name, f"(void)a; return {CANN_ERROR};") for name in sorted(missing)}
    source.write_text("\n".join(f"long {name}(void* a) {{ {body} }}" for name, body in bodies.items()))
    names = ("hccl", "ascendcl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel")
    ours = {f"lib{name}.so" for name in names}
    assert ours <= needed
    subprocess.run(["gcc", "-w", "-fno-builtin", "-shared", "-fPIC", "-o", str(folder / "libascendcl.so"), str(source)],
                   check=True)  # fmt: skip
    empty = folder / "empty.c"
    empty.write_text("")
    for name in ours - {"libascendcl.so"}:
        # Each names the one that has the functions, as some libraries ask for only a part of them.
        subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-o", str(folder / name),
                        str(empty), f"-L{folder}", "-lascendcl"], check=True)  # fmt: skip


def launch_stubs() -> str:
    """Every launch function, doing nothing."""
    text = ['#include "ascend/launch/matmul.h"', '#include "ascend/launch/quant.h"', "namespace npu_lp::ascend {"]
    for header in sorted((CSRC / "ascend/launch").glob("*.h")):
        if header.name not in ("launcher.h", "quant_types.h"):
            for signature in re.findall(r"^void launch_\w+\([^;]*\);", header.read_text(), re.MULTILINE):
                text.append(signature[:-1] + " {}")
    assert len(text) > 12
    return "\n".join([*text, "}"])


def build_binding(wheel: Path, stub: Path, folder: Path) -> Path:
    """The shared library of CMake's target npu_lp_npu, without the kernels."""
    launch = folder / "launch.cpp"
    launch.write_text(launch_stubs())
    header = folder / "torch_headers.h"
    header.write_text("#include <ATen/ATen.h>\n#include <torch/library.h>\n")
    includes = [f"-I{CSRC}", *(f"-isystem{path}" for path in cpp_extension.include_paths())]
    npu = wheel / "torch_npu/include"
    flags = ["g++", "-std=c++20", "-O0", "-fPIC", "-fvisibility=hidden", *includes,
             f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]  # fmt: skip
    subprocess.run([*flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
    host = [path for path in (CSRC / "ascend/host").glob("*.cpp") if not path.name.startswith(("twin_", "npu_"))]
    plain = [*host, *(path for path in (CSRC / "ops").glob("*.cpp") if path.name not in ("backend.cpp", "schemas.cpp")),
             *(CSRC / "ascend/tiling").glob("*.cpp"), launch]  # fmt: skip
    bound = sorted((CSRC / "ascend/host").glob("npu_*.cpp"))

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.parent.name}_{source.stem}.o"
        extra = ["-w", "-include", str(header)]  # the twin's build has their warnings
        if source in bound:
            extra = ["-Wall", "-Wextra", "-Werror", f"-isystem{npu}", f"-isystem{npu}/third_party/acl/inc"]
        done = subprocess.run([*flags, *extra, "-c", str(source), "-o", str(target)], capture_output=True, text=True)
        assert done.returncode == 0, f"{source.name}:\n{done.stderr[-4000:]}"
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, [*bound, *plain]))
    library = folder / "libnpu_lp_npu.so"
    torch_lib = cpp_extension.library_paths()[0]
    linked = subprocess.run(
        ["g++", "-shared", "-o", str(library), *map(str, objects), f"-L{torch_lib}", f"-L{wheel}/torch_npu/lib", f"-L{stub}",
         "-ltorch", "-ltorch_cpu", "-lc10", "-ltorch_npu", "-lascendcl", f"-Wl,-rpath-link,{stub}", "-Wl,--no-undefined"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert linked.returncode == 0, linked.stderr[-4000:]
    return library
