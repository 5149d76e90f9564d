"""scripts/setup_env.sh: installs and builds when something that matters has changed, and says why.

The scripts are run in a small tree and an environment of its own, whose pip only records that it was called and makes the
tree importable, as an editable installation does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "setup.py", "CMakeLists.txt", "csrc/op.cpp", "cmake/npu.cmake")
PIP = """
import os, pathlib, sys
here = pathlib.Path(__file__).parents[1]
if "install" in sys.argv:
    with open(here / "calls", "a") as calls:
        print(sys.argv[-1], os.environ.get("NPU_LP_WERROR", "OFF"), file=calls)
    (here / "editable.pth").write_text(sys.argv[-1].split("[")[0] + "/python")
"""


def tree(root: Path) -> Path:
    for name in (*SOURCES, "python/npu_lp/__init__.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup_env.sh", root / "scripts")
    return root


class Environment:
    def __init__(self, path: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
        self.path = path
        (self.packages,) = path.glob("lib/python*/site-packages")
        (self.packages / "pip").mkdir()
        (self.packages / "pip/__main__.py").write_text(PIP)
        self.torch("2.13.0")

    def torch(self, version: str) -> None:
        for old in self.packages.glob("torch-*.dist-info"):
            shutil.rmtree(old)
        info = self.packages / f"torch-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")

    def run(self, root: Path, extras: str, **variables: str) -> tuple[list[str], str]:
        """What pip was asked to install, and what the script said."""
        calls = self.packages / "calls"
        calls.unlink(missing_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NPU_LP_", "ASCEND_", "PYTHON"))}
        variables = {**kept, "VIRTUAL_ENV": str(self.path), "PATH": f"{self.path}/bin:{os.environ['PATH']}", **variables}
        script = f'set -euo pipefail; . "{root}/scripts/setup_env.sh" {extras}'
        done = subprocess.run(["bash", "-c", script], env=variables, capture_output=True, text=True, check=False, cwd=root)
        assert done.returncode == 0 or "error: " in done.stderr, done.stdout + done.stderr
        return calls.read_text().splitlines() if calls.exists() else [], done.stdout + done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path / "tree")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def test_the_two_scripts_in_turn_install_once(root, environment):
    installed, said = environment.run(root, "titan,test", NPU_LP_WERROR="ON")
    assert installed == [f"{root}[titan,test] ON"] and "first" in said
    for extras, variables in [("titan", {}), ("titan,test", {"NPU_LP_WERROR": "ON"}), ("titan", {})]:
        installed, said = environment.run(root, extras, **variables)
        assert installed == [] and len(said.splitlines()) == 1 and "up to date" in said, said


def test_a_missing_extra_is_added_to_those_that_are_there(root, environment):
    assert environment.run(root, "titan")[0] == [f"{root}[titan] OFF"]
    installed, said = environment.run(root, "test")
    assert installed == [f"{root}[test,titan] OFF"] and "extra test" in said
    assert environment.run(root, "titan")[0] == []


def test_warnings_as_errors_are_asked_for_once_and_kept(root, environment):
    environment.run(root, "titan")
    installed, said = environment.run(root, "titan", NPU_LP_WERROR="ON")
    assert installed == [f"{root}[titan] ON"] and "NPU_LP_WERROR" in said
    (root / "csrc/op.cpp").write_text("changed")
    assert environment.run(root, "titan")[0] == [f"{root}[titan] ON"]
    assert environment.run(root, "titan", NPU_LP_WERROR="OFF")[0] == [f"{root}[titan] OFF"]


@pytest.mark.parametrize("name", [*SOURCES, "csrc/new.h"])
def test_a_changed_or_new_source_is_named(root, environment, name):
    environment.run(root, "titan")
    (root / name).write_text("changed")
    installed, said = environment.run(root, "titan")
    assert installed == [f"{root}[titan] OFF"] and name in said
    assert environment.run(root, "titan")[0] == []


def test_python_sources_need_nothing(root, environment):
    environment.run(root, "titan")
    (root / "python/npu_lp/__init__.py").write_text("changed = True")
    assert environment.run(root, "titan")[0] == []


def test_another_torch_or_cann_builds_again(root, environment):
    environment.run(root, "titan")
    environment.torch("2.13.1")
    installed, said = environment.run(root, "titan")
    assert len(installed) == 1 and "torch" in said
    installed, said = environment.run(root, "titan", ASCEND_HOME_PATH="/opt/cann")
    assert len(installed) == 1 and "ASCEND_HOME_PATH" in said
    assert environment.run(root, "titan", ASCEND_HOME_PATH="/opt/cann")[0] == []


def test_a_package_that_cannot_be_imported_is_built_again(root, environment):
    environment.run(root, "titan")
    (environment.packages / "editable.pth").unlink()
    installed, said = environment.run(root, "titan")
    assert len(installed) == 1 and "import npu_lp" in said


def test_two_trees_in_one_environment_do_not_train_with_each_others_code(root, environment, tmp_path):
    other = tree(tmp_path / "other")
    environment.run(root, "titan")
    installed, said = environment.run(other, "titan")
    assert installed == [f"{other}[titan] OFF"] and str(root) in said
    assert len(environment.run(root, "titan")[0]) == 1
    _, said = environment.run(root, "titan", PYTHONPATH=str(other / "python"))
    assert "error: " in said and "PYTHONPATH" in said and str(other) in said


def test_a_failed_installation_is_tried_again(root, environment):
    working = (environment.packages / "pip/__main__.py").read_text()
    (environment.packages / "pip/__main__.py").write_text("import sys\nsys.exit('install' in sys.argv)")
    assert "error: the installation failed" in environment.run(root, "titan")[1]
    (environment.packages / "pip/__main__.py").write_text(working)
    assert len(environment.run(root, "titan")[0]) == 1
