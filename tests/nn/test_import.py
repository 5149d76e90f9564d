"""What ``import npu_lp`` loads, and what it says when the compiled library is missing or belongs to another torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import npu_lp
import pytest
import torch

PACKAGE = Path(npu_lp.__file__).parent


def python(code: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(path)} if path else None
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A package that is only what is imported first: the rest is never reached."""
    package = tmp_path / "npu_lp"
    package.mkdir()
    for name in ("__init__.py", "_library.py", "_build_info.py"):
        shutil.copy(PACKAGE / name, package)
    return package


def test_it_imports_neither_torch_npu_nor_torchtitan_and_registers_the_ops() -> None:
    done = python(
        "import sys, npu_lp, torch\n"
        "print([m for m in ('torch_npu', 'torchtitan', 'torchao', 'transformers', 'hypothesis') if m in sys.modules])\n"
        "print(torch.ops.npu_lp.mx_quant is not None)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[]", "True"]


def error_of(copied: Path) -> str:
    done = python("import npu_lp", copied.parent)
    assert done.returncode == 1
    last = done.stderr[done.stderr.rindex("ImportError") :]
    assert str(copied) in done.stderr and "pip install -e ." in last
    return last


def test_a_missing_library_is_named_with_the_remedy(copied: Path) -> None:
    assert f"compiled library is missing: {copied / 'libnpu_lp.so'} does not exist" in error_of(copied)


def test_the_environment_report_works_without_the_library_and_says_what_is_wrong(copied: Path) -> None:
    for name in ("env.py", "__main__.py", "backends.py"):
        shutil.copy(PACKAGE / name, copied / name)
    shutil.copytree(PACKAGE / "twin", copied / "twin")
    env = {**os.environ, "PYTHONPATH": str(copied.parent)}
    done = subprocess.run([sys.executable, "-m", "npu_lp", "env"], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert f"cannot be loaded: npu_lp's compiled library is missing: {copied / 'libnpu_lp.so'}" in done.stdout
    assert "torch_npu" in done.stdout


def test_a_library_for_another_torch_is_not_loaded_and_both_versions_are_named(copied: Path) -> None:
    # Not a library at all: loading it would fail otherwise than by the versions.
    (copied / "libnpu_lp.so").write_bytes(b"")
    (copied / "_build_info.py").write_text('TORCH_VERSION = "2.12.1+cpu"\nBACKENDS = ("cpu",)\n')
    message = error_of(copied)
    assert f"was built for torch 2.12.1+cpu, but torch {torch.__version__} is installed" in message


def test_a_library_that_cannot_be_loaded_says_why(copied: Path) -> None:
    (copied / "libnpu_lp.so").write_bytes(b"nonsense")
    message = error_of(copied)
    assert "cannot be loaded" in message and ("invalid ELF header" in message or "file too short" in message)
