"""Builds and runs the tests of the CPU kernel library: neither torch nor the extension takes part."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "kernels"


@contextmanager
def alone(preset: str) -> Iterator[None]:
    """Hold a build folder: workers of pytest-xdist may want the same one."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / f"{preset}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


PACKAGES = {
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "qemu-aarch64": "qemu-user",
    "clang++": "clang libclang-rt-14-dev",
    "bochs": "bochs bochsbios vgabios isolinux syslinux-common",
    "xorriso": "xorriso",
}


def need(*tools: str) -> None:
    """Skip where a tool is missing. In CI that is a failure: nothing there may go untested unnoticed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if not missing:
        return
    packages = " ".join(PACKAGES[tool] for tool in missing)
    reason = f"{', '.join(missing)} not found; on Debian: apt-get install {packages}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    print(done.stdout)
    return done.stdout


def build(preset: str) -> str:
    """Return the test program of a preset of CMakePresets.json, built."""
    with alone(preset):
        run("cmake", "--preset", preset)
        run("cmake", "--build", "--preset", preset)
    return str(BUILD / preset / "test_kernels")


def instruction_sets(output: str) -> list[str]:
    return output.splitlines()[0].split(":")[1].split(";")[0].split()


def test_every_instruction_set_gives_the_bits_of_the_scalar_reference() -> None:
    output = run(build("native"))
    assert output.splitlines()[-1] == "all equal"
    for name in instruction_sets(output):
        assert any(line.startswith("gemm") and f" {name} " in line for line in output.splitlines()), name


def test_under_address_and_undefined_behaviour_sanitizers() -> None:
    assert "all equal" in run(build("sanitize"), "--values", "50000")


def test_neon_under_qemu() -> None:
    need("aarch64-linux-gnu-g++", "qemu-aarch64")
    output = run("qemu-aarch64", build("aarch64"), "--values", "10000")
    assert instruction_sets(output) == ["neon"]
    assert output.splitlines()[-1] == "all equal"


def test_an_unknown_instruction_set_is_refused_with_what_there_is() -> None:
    done = subprocess.run([build("native"), "--isa", "z80"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "z80" in done.stderr and "which has" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_million_values_of_each_op_and_format(seed: str) -> None:
    assert "all equal" in run(build("native"), "--full", "--seed", seed)


@pytest.mark.slow
def test_a_million_values_on_neon() -> None:
    need("aarch64-linux-gnu-g++", "qemu-aarch64")
    assert "all equal" in run("qemu-aarch64", build("aarch64"), "--full")


@pytest.mark.slow
def test_sanitizers_with_many_cases() -> None:
    assert "all equal" in run(build("sanitize"), "--values", "200000", "--seed", "3")


@pytest.mark.slow
def test_fuzzing_finds_nothing_in_a_minute() -> None:
    """The nightly hour is `python tests/kernels/fuzz.py`."""
    need("clang++")
    run(sys.executable, str(HERE / "fuzz.py"), "--seconds", "60")


@pytest.mark.slow
def test_avx512_in_an_emulator() -> None:
    """On a processor that has AVX-512, the native test covers it."""
    if "v4" in instruction_sets(run(build("native"), "--only", "amax")):
        pytest.skip("this processor has AVX-512")
    need("bochs", "xorriso")
    assert "all equal" in run(sys.executable, str(HERE / "avx512.py"))
