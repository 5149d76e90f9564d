"""cmake/check_cann.py: what it finds of a toolkit, and what it says is missing."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "cmake/check_cann.py"


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_cann", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def toolkit(home: Path, version: str = "9.1.0", minor: int = 17) -> Path:
    """A folder with the files that a toolkit has."""
    machine = home / f"{platform.machine()}-linux"
    files = {
        home / "version.cfg": f"# generated\ntoolkit_running_version=[{version}:{version}]\n",
        machine / "ccec_compiler/bin/bisheng": "",
        home / "compiler/tikcpp/asc-config.cmake": "",
        machine / "asc/include/kernel_operator.h": "",
        home / "include/acl/acl_rt.h": f"#define ACL_MAJOR_VERSION 1\n#define ACL_MINOR_VERSION   {minor}\n",
        home / "lib64/libascendcl.so": "",
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return home


def test_a_whole_toolkit_has_no_problem(check: ModuleType, tmp_path: Path) -> None:
    problems: list[str] = []
    settings = check.check_toolkit(toolkit(tmp_path), problems)
    assert not problems
    assert settings["CANN_INCLUDE_DIR"] == str(tmp_path / "include")
    assert settings["CANN_LIB_DIR"] == str(tmp_path / "lib64")
    assert settings["ASC_DIR"] == str(tmp_path / "compiler/tikcpp")


def test_an_old_toolkit_is_named_with_its_version(check: ModuleType, tmp_path: Path) -> None:
    problems: list[str] = []
    check.check_toolkit(toolkit(tmp_path, "8.5.0"), problems)
    (problem,) = problems
    assert "8.5" in problem and "9.1" in problem


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("compiler/tikcpp/asc-config.cmake", "asc-config.cmake"),
        ("include/acl/acl_rt.h", "acl_rt.h"),
        ("lib64/libascendcl.so", "libascendcl.so"),
        ("version.cfg", "version"),
    ],
)
def test_each_missing_piece_is_named(check: ModuleType, tmp_path: Path, file: str, what: str) -> None:
    (toolkit(tmp_path) / file).unlink()
    problems: list[str] = []
    check.check_toolkit(tmp_path, problems)
    assert len(problems) == 1 and what in problems[0] and "nstall" in problems[0]


def test_a_runtime_older_than_torch_npus_is_a_problem(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site/torch_npu"
    header = package / "include/third_party/acl/inc/acl/acl_rt.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define ACL_MAJOR_VERSION 1\n#define ACL_MINOR_VERSION 17\n")
    (package / "__init__.py").write_text("raise ImportError('no NPU here')")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(check.importlib.metadata, "version", lambda name: "2.13.0")
    for minor, expected in ((16, 1), (17, 0), (20, 0)):
        problems: list[str] = []
        check.check_torch_npu(str(toolkit(tmp_path / f"cann{minor}", minor=minor) / "include"), problems)
        assert len(problems) == expected
    assert "torch_npu" not in sys.modules


def test_the_script_lists_every_problem_and_how_to_build_without_the_npu(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-I", str(SCRIPT)],
        env=os.environ | {"ASCEND_HOME_PATH": str(tmp_path / "nowhere")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "nowhere is not a folder" in run.stderr and "NPU_LP_NPU=OFF" in run.stderr
