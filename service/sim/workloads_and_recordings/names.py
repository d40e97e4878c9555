"""Names that others chose, as names of a scenario: of 1 to 200 characters, none twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 180  # with a number behind it they are still short enough


def tidy(name: str) -> str:
    return name[:_LONGEST] or "?"


def numbered(names: Iterable[str]) -> list[str]:
    """The second of one name is "name (2)"."""
    counts, taken, made = dict[str, int](), set[str](), list[str]()
    for name in names:
        unique = name
        while unique in taken:
            counts[name] = counts.get(name, 1) + 1
            unique = f"{name} ({counts[name]})"
        taken.add(unique)
        made.append(unique)
    return made
