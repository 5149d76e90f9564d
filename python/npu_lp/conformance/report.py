"""What the runner prints: each failure, a table by basis, and the totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npu_lp.conformance.replay import Outcome, Result


def lines_of(result: Result, *, verbose: bool) -> Iterator[str]:
    """A failure in full, with its mark and note; other cases only if verbose."""
    case = result.case
    if result.outcome is not Outcome.FAILED and not verbose:
        return
    yield f"{result.outcome.value.upper():15s} {case.id}  [{case.basis}]  {case.op}"
    for detail in result.details:
        yield f"    {detail}"
    if result.outcome is Outcome.FAILED and case.note:
        yield f"    note: {case.note}"


def missing(results: Sequence[Result]) -> Iterator[str]:
    """Why cases are not implemented, each reason once, with the number of cases."""
    reasons: dict[str, int] = {}
    for result in results:
        if result.outcome is Outcome.NOT_IMPLEMENTED:
            reasons[result.details[0]] = reasons.get(result.details[0], 0) + 1
    for reason, count in reasons.items():
        yield f"not implemented ({count} case{'s' if count > 1 else ''}): {reason}"


def table(results: Sequence[Result], basis_meaning: dict[str, str]) -> Iterator[str]:
    """Outcomes by what the expectations rest on."""
    yield f"{'basis':16s} {'passed':>7s} {'failed':>7s} {'not impl.':>10s}  meaning"
    bases = list(basis_meaning) + [r.case.basis for r in results]
    for basis in dict.fromkeys(bases):
        of_basis = [r.outcome for r in results if r.case.basis == basis]
        if of_basis:
            counts = [of_basis.count(outcome) for outcome in Outcome]
            meaning = basis_meaning.get(basis, "")
            yield f"{basis:16s} {counts[0]:7d} {counts[1]:7d} {counts[2]:10d}  {meaning}".rstrip()


def totals(results: Sequence[Result]) -> str:
    """The last line."""
    outcomes = [r.outcome for r in results]
    return ", ".join(f"{outcomes.count(outcome)} {outcome.value}" for outcome in Outcome)
