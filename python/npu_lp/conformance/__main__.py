"""`python -m npu_lp.conformance FILE`: see npu_lp.conformance."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from npu_lp.conformance import report
from npu_lp.conformance.cases import CaseError, load
from npu_lp.conformance.replay import Outcome, Result, replay

PASSED, FAILED, UNUSABLE = 0, 1, 2


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(
        prog="python -m npu_lp.conformance",
        description="Replay recorded calls of torch_npu's ops on npu_lp's ops and compare the bytes.",
        epilog="Exit status: 0 if no case failed, 1 if one did, 2 if the file or the command line is unusable. An "
        "expected byte 0xCC is one that the device leaves unwritten; it is not compared.",
    )
    p.add_argument("file", type=Path, help="JSON file of cases, in the format of golden_cases.json")
    p.add_argument("-k", metavar="SUBSTRING", default="", help="run only cases with this in their id or op")
    p.add_argument("--device", default="cpu", help="device that the inputs are put on (default: cpu)")
    p.add_argument("-v", "--verbose", action="store_true", help="print every case, not only failures")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = parser().parse_args(argv)
    try:
        device = torch.empty(0, device=options.device).device
    except (RuntimeError, AssertionError) as error:
        print(f"error: --device {options.device}: {str(error).splitlines()[0]}", file=sys.stderr)
        return UNUSABLE
    try:
        content = load(options.file)
        chosen = [c for c in content.cases if options.k in c.id or options.k in c.op]
        if not chosen:
            wanted = f"of the {len(content.cases)} cases has {options.k!r} in its id or op" if options.k else "is in it"
            raise CaseError(f"{options.file}: no case {wanted}")
        results: list[Result] = []
        for case in chosen:
            results.append(replay(case, device))
            for line in report.lines_of(results[-1], verbose=options.verbose):
                print(line)
    except CaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return UNUSABLE
    for line in (
        *report.missing(results),
        "",
        *report.table(results, content.basis_meaning),
        "",
        report.totals(results),
    ):
        print(line)
    return FAILED if any(r.outcome is Outcome.FAILED for r in results) else PASSED


if __name__ == "__main__":
    sys.exit(main())
