"""Fault injection: the check that is for it must notice every mutation of mutations.py, and none the kernels as they are.

`python tests/twin/test_mutations.py` prints the table; `... WORDS` of those whose name has the words (all: ""), and
`... WORDS SEEDS` also in how many of so many shuffled orders a race shows in the results.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from mutations import DOES_NOT_COMPILE, MUTATIONS, Mutation
from twin_build import CPP, CSRC, CompileError, compile_all, compile_cpp, twin_objects

HOST = [CSRC / "ascend/host/twin_launch.cpp"]
PROGRAMS = {
    "mutants_matmul": [
        CPP / "mutants_matmul.cpp",
        CPP / "matmul_cases.cpp",
        CSRC / "ascend/tiling/matmul_tiling.cpp",
        *HOST,
    ],
    "mutants_quant": [CPP / "mutants_quant.cpp", *HOST],
    "mutants_to_block": [CPP / "mutants_to_block.cpp", CSRC / "ascend/launch/mx_to_block.cpp", *HOST],
    "mutants_floats": [CPP / "mutants_floats.cpp", *HOST],
}
# -O0: the cases are small. A mutation may leave a variable unused.
FLAGS = ("-O0", "-Wno-unused", "-Wno-unused-parameter")
PRECOMPILED = ("<algorithm>", "<functional>", "<random>", "<sstream>", "<string>", "<vector>", '"twin/kernel_operator.h"')
SAMPLE = (  # of the default run
    "the wait for a chunk in L1 is dropped",
    "Fill after the flag, as in published examples",
    "the last Mmad keeps the unit flag (2 instead of 3)",
    "halved buffer: L1 is laid out for half a chunk",
    "no zeros behind the rows",
    "the products are read back without LocalMemBar",
)


@dataclass(frozen=True)
class Finding:
    """What noticed a mutation. The case is that of the driver, the place is file:line of the kernel."""

    case: str
    check: str
    place: str
    message: str


class TextNotFoundError(Exception):
    """A kernel has changed under a mutation."""


class Suite:
    """The drivers, built as they are; a mutation compiles anew only what includes the file it changes.

    All is built from one copy of csrc/ascend, so that a kernel may be edited while the suite runs.
    """

    def __init__(self, folder: Path, twin: list[Path]) -> None:
        self.folder = folder
        self.twin = twin
        self.flags = (*FLAGS, "-include", str(folder / "all.h"))
        self.objects = {source: folder / f"{source.stem}.o" for sources in PROGRAMS.values() for source in sources}
        with FileLock(folder / "lock"):
            if (folder / "done").exists():
                return
            shutil.copytree(CSRC / "ascend", folder / "ascend")
            header = folder / "all.h"
            header.write_text("".join(f"#include {name}\n" for name in PRECOMPILED))
            compile_cpp(*FLAGS, "-x", "c++-header", header, "-o", folder / "all.h.gch")
            compile_all(
                {self.source(source, folder): to for source, to in self.objects.items()}, *self.flags, "-MMD", first=folder
            )
            for name in PROGRAMS:
                self.link(name, {}, folder / name)
            (folder / "done").touch()

    @staticmethod
    def source(source: Path, folder: Path) -> Path:
        """Return the file to compile: of csrc/ascend that in `folder`."""
        return folder / source.relative_to(CSRC) if source.is_relative_to(CSRC) else source

    def link(self, name: str, instead: dict[Path, Path], program: Path) -> None:
        objects = [instead.get(source, self.objects[source]) for source in PROGRAMS[name]]
        compile_cpp(*objects, *self.twin, "-o", program, "-pthread")

    def run(self, program: Path, seed: int | None = None) -> Finding | None:
        arguments = [] if seed is None else [str(seed)]
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, 1) and (done.returncode == 0) == (done.stdout == ""), f"{done}"
        return Finding(*done.stdout.strip().split("|", 3)) if done.stdout else None

    def mutate(self, mutation: Mutation, folder: Path) -> Path:
        """Build the mutation's program; `folder` gets a changed copy of csrc/ascend."""
        shutil.copytree(self.folder / "ascend", folder / "ascend", dirs_exist_ok=True)
        for file, old, new in mutation.edits:
            path = folder / "ascend" / file
            text = path.read_text()
            if text.count(old) != 1:
                raise TextNotFoundError(f"{mutation.name}: {text.count(old)} times in {file}, not once: {old!r}")
            path.write_text(text.replace(old, new))
        changed = [str(self.folder / "ascend" / file) for file, _, _ in mutation.edits]
        instead = {}
        for source in PROGRAMS[mutation.program]:
            included = self.objects[source].with_suffix(".d").read_text().split()
            if any(file in included for file in changed):
                instead[source] = folder / f"{source.stem}.o"
                compile_cpp(*self.flags, "-c", self.source(source, folder), "-o", instead[source], first=folder)
        assert instead, f"{mutation.name}: no source of {mutation.program} includes {mutation.file}"
        program = folder / mutation.program
        self.link(mutation.program, instead, program)
        return program

    def noticed(self, mutation: Mutation, folder: Path) -> Finding | None:
        """Return what notices the mutation first; None if nothing does."""
        try:
            program = self.mutate(mutation, folder)
        except CompileError as error:
            line = next((line for line in str(error).splitlines() if " error: " in line), str(error))
            place, _, message = line.partition(": error: ")
            return Finding("", DOES_NOT_COMPILE, ":".join(Path(place).name.split(":")[:2]), message)
        return self.run(program)


@pytest.fixture(scope="session")
def suite(twin: list[Path]) -> Suite:
    folder = twin[0].parent / "mutations"
    folder.mkdir(exist_ok=True)
    return Suite(folder, twin)


def check(suite: Suite, mutation: Mutation, folder: Path) -> None:
    finding = suite.noticed(mutation, folder)
    assert finding is not None, f"nothing noticed it: {mutation.name}"
    assert finding.check == mutation.expected, f"{mutation.name}: {finding}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_as_they_are(suite: Suite, name: str) -> None:
    for seed in (None, *range(1, 13)):
        assert suite.run(suite.folder / name, seed) is None, f"seed {seed}"


def of_mutations(names: Iterator[str]) -> pytest.MarkDecorator:
    by_name = {mutation.name: mutation for mutation in MUTATIONS}
    chosen = list(names)
    return pytest.mark.parametrize("mutation", [by_name[name] for name in chosen], ids=chosen)


@of_mutations(iter(SAMPLE))
def test_some_mutations_are_noticed(suite: Suite, mutation: Mutation, tmp_path: Path) -> None:
    check(suite, mutation, tmp_path)


@pytest.mark.slow
@of_mutations(mutation.name for mutation in MUTATIONS if mutation.name not in SAMPLE)
def test_mutations_are_noticed(suite: Suite, mutation: Mutation, tmp_path: Path) -> None:
    check(suite, mutation, tmp_path)


def test_the_table() -> None:
    assert len(MUTATIONS) >= 30
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


def shown(suite: Suite, base: Path, seeds: int, mutation: Mutation) -> tuple[bool, str]:
    """Return whether a mutation was noticed as it must be, and its line of the table."""
    with tempfile.TemporaryDirectory(dir=base) as folder:
        try:
            finding = suite.noticed(mutation, Path(folder))
        except Exception as error:  # of one mutation: the others are still worth a line
            return False, f"FAIL {mutation.name}\n     {error}"
        right = finding is not None and finding.check == mutation.expected
        lines = [f"{'ok  ' if right else 'FAIL'} {mutation.name}  ({mutation.file})", f"     expected {mutation.expected}"]
        if finding is None:
            lines.append("     nothing noticed it")
        else:
            lines.append(f"     [{finding.check}] {finding.place} {finding.message}  (case: {finding.case})")
        if seeds and mutation.expected in ("race", "memory_order"):
            found = [suite.run(Path(folder) / mutation.program, seed) for seed in range(1, seeds + 1)]
            lines.append(f"     in shuffled order: {sum(one is not None for one in found)} of {seeds} seeds show it")
        return right, "\n".join(lines)


def main(words: str = "", seeds: str = "0") -> int:
    start = time.time()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "twin").mkdir()
        suite = Suite(base, twin_objects(base / "twin"))
        chosen = [mutation for mutation in MUTATIONS if words in mutation.name]
        wrong = 0
        with ThreadPoolExecutor(2) as pool:
            for right, text in pool.map(partial(shown, suite, base, int(seeds)), chosen):
                print(text, flush=True)
                wrong += not right
    print(f"{len(chosen)} mutations, {wrong} not noticed as they must be, {time.time() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
