"""The record of a conversion: what every module became, or why it stayed."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from npu_lp.config import Config


@dataclass(frozen=True)
class PlanEntry:
    """One module: its fully qualified name ("" for the model itself), its class, what it becomes or why it stays, and its
    config if it has one."""

    fqn: str
    kind: str
    outcome: str
    converted: bool
    config: Config | None = None


@dataclass(frozen=True)
class Plan:
    """What a conversion did with each module that holds parameters. ``print(plan)`` shows it as a table."""

    entries: tuple[PlanEntry, ...]

    @property
    def converted(self) -> tuple[PlanEntry, ...]:
        """The modules that became low-precision."""
        return tuple(entry for entry in self.entries if entry.converted)

    @property
    def kept(self) -> tuple[PlanEntry, ...]:
        """The modules that stayed, with their reasons."""
        return tuple(entry for entry in self.entries if not entry.converted)

    def __str__(self) -> str:
        """One line a module: name, class, and what it becomes or why it stays; then the configs that the lines name."""
        names = [entry.fqn or "(the model)" for entry in self.entries]
        name = max(map(len, names), default=0)
        kind = max((len(entry.kind) for entry in self.entries), default=0)
        lines = [f"{len(self.converted)} of {len(self.entries)} modules in low precision"]
        for fqn, entry in zip(names, self.entries, strict=True):
            mark = "->" if entry.converted else "  stays:"
            lines.append(f"  {fqn:<{name}}  {entry.kind:<{kind}}  {mark} {entry.outcome}")
        configs = dict.fromkeys(entry.config for entry in self.entries if entry.config is not None)
        lines += [f"  {config.label} is {config}" for config in configs]
        return "\n".join(lines)


def named_by(fqn: str, fqns: Sequence[str]) -> bool:
    """Whether ``fqn`` contains one of ``fqns``: case-sensitive substrings, as in torchtitan-npu."""
    return any(part in fqn for part in fqns)


def check_all_match(fqns: Sequence[str], convertible: Iterable[str]) -> None:
    """Raise unless every entry of ``fqns`` is a substring of the name of a module that can be converted.

    Raises:
        TypeError: fqns is one string, whose letters would each match something.
        ValueError: an entry that matches nothing; the message shows the nearest names.
    """
    if isinstance(fqns, str):
        raise TypeError(f"fqns={fqns!r} is a string, but it must be a list of substrings of module names: [{fqns!r}].")
    names = list(convertible)
    if len(fqns) == 0:
        raise ValueError("fqns is empty, so nothing would be converted. Name the modules, or leave fqns out for all.")
    unmatched = [part for part in fqns if not any(part in name for name in names)]
    if unmatched:
        hints = []
        for part in unmatched:
            near = nearest(part, names)
            hints.append(f"{part!r}" + (f" (did you mean {', '.join(map(repr, near))}?)" if near else ""))
        raise ValueError(
            f"No convertible module's name contains {'; '.join(hints)}. fqns are case-sensitive substrings of module names; "
            f"the model has {len(names)} convertible modules" + (f", such as {names[0]!r}." if names else ".")
        )


def nearest(part: str, names: Sequence[str], count: int = 3) -> list[str]:
    """Return the names, or ends of names, that look most like ``part``."""
    ends = {".".join(name.split(".")[i:]): None for name in names for i in range(name.count(".") + 1)}
    folded = {end.lower(): end for end in ends}
    return [folded[match] for match in difflib.get_close_matches(part.lower(), list(folded), n=count, cutoff=0.5)]
