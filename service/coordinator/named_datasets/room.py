"""What is to go so that a data set fits, where there is no room for it (--when_full). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.filesize import decimal

from tfquiver import errors

PARTIAL, MANUAL, DATASET_LRU = "partial", "manual", "dataset_lru"
WHEN_FULL = (PARTIAL, MANUAL, DATASET_LRU)
_SAID = 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """A data set that may go: neither pinned nor read. `used_s`: when it was last read, or made."""

    name: str
    resident_bytes: int
    used_s: int


def to_evict(
    when_full: str, name: str, wanted_bytes: int, free_bytes: int, candidates: Sequence[Candidate]
) -> list[str]:
    """Names of the data sets that go whole, the one that was used longest ago first; none where it fits, or where only
    what fits is wanted.

    Raises ResourceExhaustedError, which says what to evict and what each would free.
    """
    if wanted_bytes <= free_bytes or when_full == PARTIAL:
        return []
    oldest = sorted((one for one in candidates if one.resident_bytes), key=lambda one: (one.used_s, one.name))
    chosen, left_bytes = [], wanted_bytes - free_bytes
    for one in oldest if when_full == DATASET_LRU else ():
        if left_bytes <= 0:
            break
        chosen.append(one.name)
        left_bytes -= one.resident_bytes
    if left_bytes <= 0:
        return chosen
    could = ", ".join(f"{one.name} ({decimal(one.resident_bytes)})" for one in oldest[:_SAID])
    more = f"; and {len(oldest) - _SAID} more" if len(oldest) > _SAID else ""
    what = f"evict some of {could}{more}" if could else "nothing can be evicted: all else is pinned, or read"
    raise errors.ResourceExhaustedError(
        f"name: {name} needs {decimal(wanted_bytes)} and {decimal(free_bytes)} are free on all nodes: {what}"
    )
