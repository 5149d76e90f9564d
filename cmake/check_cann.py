"""Checks that what the NPU part is built with is there and fits together; prints it as CMake set() calls.

Run with `python -I`, like installed_torch.py. On failure every missing piece is named, with what to do, and the exit code
is 1. torch_npu is found, never imported: it cannot be, where there is no NPU.
"""

import importlib.metadata
import os
import platform
import re
import sys
from importlib import util
from pathlib import Path

OLDEST_CANN = (9, 1)
TORCH_NPU = "2.13."
VERSION_FILES = ("version.cfg", "version.info", "compiler/version.info", "share/info/asc-devkit/version.info")


def cann_version(home: Path) -> tuple[int, ...] | None:
    """The first version number that one of the toolkit's version files has."""
    for name in VERSION_FILES:
        file = home / name
        found = re.search(r"(?im)^[^#\n]*version[^=\n]*=\s*\[?(\d+)\.(\d+)", file.read_text()) if file.is_file() else None
        if found is not None:
            return int(found[1]), int(found[2])
    return None


def acl_version(header: Path) -> tuple[int, int] | None:
    """Of the runtime's C interface, as its header has it."""
    if not header.is_file():
        return None
    text = header.read_text(errors="replace")
    parts = [re.search(rf"#define\s+ACL_{part}_VERSION\s+(\d+)", text) for part in ("MAJOR", "MINOR")]
    return None if None in parts else (int(parts[0][1]), int(parts[1][1]))  # type: ignore[index]


def first(paths: list[Path]) -> Path | None:
    """The first of the paths that exists."""
    return next((path for path in paths if path.exists()), None)


def check_toolkit(home: Path, problems: list[str]) -> dict[str, str]:
    """The toolkit's compiler, CMake package, headers and runtime library."""
    if not home.is_dir():
        problems.append(f"ASCEND_HOME_PATH={home} is not a folder. Source the toolkit's set_env.sh again.")
        return {}
    version = cann_version(home)
    if version is None:
        problems.append(f"No CANN version is found in {home} ({', '.join(VERSION_FILES)}). Reinstall the toolkit.")
    elif version < OLDEST_CANN:
        problems.append(
            f"CANN {'.'.join(map(str, version))} in {home} is too old for Ascend 950's register API. "
            f"Install {'.'.join(map(str, OLDEST_CANN))} or newer."
        )
    machine = home / f"{platform.machine()}-linux"
    found = {
        "the compiler bisheng": first([machine / "ccec_compiler/bin/bisheng", home / "bin/bisheng"]),
        "the CMake package ASC (asc-config.cmake)": first(sorted(home.rglob("asc-config.cmake"))),
        "the header kernel_operator.h": first(sorted(home.rglob("kernel_operator.h"))),
        "the header acl/acl_rt.h": first([home / "include/acl/acl_rt.h", machine / "include/acl/acl_rt.h"]),
        "the library libascendcl.so": first([home / "lib64/libascendcl.so", machine / "lib64/libascendcl.so"]),
    }
    for what, path in found.items():
        if path is None:
            problems.append(f"{what} is not in {home}. Install the whole toolkit (CANN toolkit and ops packages).")
    config, header = found["the CMake package ASC (asc-config.cmake)"], found["the header acl/acl_rt.h"]
    library = found["the library libascendcl.so"]
    return {
        "ASC_DIR": str(config.parent) if config else "",
        "CANN_INCLUDE_DIR": str(header.parents[1]) if header else "",
        "CANN_LIB_DIR": str(library.parent) if library else "",
    }


def check_torch_npu(cann_include: str, problems: list[str]) -> dict[str, str]:
    """The installed torch_npu, and that the toolkit's runtime is as new as the one it was built with."""
    spec = util.find_spec("torch_npu")
    if spec is None or spec.origin is None:
        problems.append(f"torch_npu is not installed in {sys.executable}. Install it: pip install torch_npu==2.13.0")
        return {}
    version, folder = importlib.metadata.version("torch_npu"), Path(spec.origin).parent
    if not version.startswith(TORCH_NPU):
        problems.append(f"torch_npu {version} is installed, npu_lp needs {TORCH_NPU}*: pip install torch_npu==2.13.0")
    theirs = acl_version(folder / "include/third_party/acl/inc/acl/acl_rt.h")
    ours = acl_version(Path(cann_include) / "acl/acl_rt.h") if cann_include else None
    if theirs and ours and (theirs[0] != ours[0] or theirs[1] > ours[1]):
        problems.append(
            f"torch_npu {version} was built with version {theirs[0]}.{theirs[1]} of CANN's runtime interface (acl_rt.h), "
            f"the toolkit has {ours[0]}.{ours[1]}. Install the CANN release that torch_npu {version} names in its notes."
        )
    return {"TORCH_NPU_DIR": str(folder)}


def main() -> None:
    """Print settings, or all problems."""
    problems: list[str] = []
    settings = check_toolkit(Path(os.environ.get("ASCEND_HOME_PATH", "")), problems)
    settings |= check_torch_npu(settings.get("CANN_INCLUDE_DIR", ""), problems)
    if problems:
        sys.exit("\n".join(["npu_lp: the NPU part cannot be built:", *(f"  - {problem}" for problem in problems),
                            "Build without it by NPU_LP_NPU=OFF."]))  # fmt: skip
    for name, value in settings.items():
        print(f'set({name} "{value}")')


if __name__ == "__main__":
    main()
