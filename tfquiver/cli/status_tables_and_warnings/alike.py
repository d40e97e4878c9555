"""Sentences that are alike: of a thousand nodes with the same trouble they would hide all other problems (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfquiver.sizes_durations_amounts.amounts import many

MOST = 5


def some(lines: Iterable[str], what: str) -> Iterator[str]:
    """The first few, and how many more there are. `what`: one of those that they are about, as "node"."""
    every = list(lines)
    yield from every[:MOST]
    if more := every[MOST:]:
        yield f"the same of {many(len(more), f'more {what}', f'more {what}s')}: `tfquiver status --json` has all"
