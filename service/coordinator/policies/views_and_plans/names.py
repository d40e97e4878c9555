"""What plans call data sets and jobs: as people know them, and never two things by one name. Pure.

Both are named by whoever brings them; a name that is there twice would be a view that no policy is asked about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

DIGITS = 12  # of a digest id: as people are shown it everywhere
NO_NAME = "(no name)"  # of a job that says neither its name nor a key
_HEX = frozenset("0123456789abcdef")

Reads = tuple[str, bytes]  # job and digest id
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Names:
    datasets: Mapping[bytes, str] = field(default_factory=dict)
    jobs: Mapping[Reads, str] = field(default_factory=dict)


def digits_of(name: str) -> str:
    """Those of a data set's digest id in a name that plans have of it, or of a job that reads several; empty: there are
    none."""
    name = name.rstrip("'")  # of a job, see below
    digits = name.rpartition("(")[2].removesuffix(")") if name.endswith(")") else ""
    return digits if len(digits) >= DIGITS and not set(digits) - _HEX else ""


def job_before(name: str, dataset: str) -> str:
    """The job in a name that plans have of one that reads several data sets, this one among them; empty: it is none."""
    name = name.rstrip("'")
    return name.removesuffix(f", {dataset}") if name.endswith(f", {dataset}") else ""


def names_of(registered: Mapping[bytes, str], reading: Iterable[Reads]) -> Names:
    """
    Args:
      registered: how data sets are called, by digest id; those that `reading` names are among them.
    """
    digits = Counter(digest_id.hex()[:DIGITS] for digest_id in registered)
    datasets = {
        digest_id: f"{name} ({digest_id.hex()[: DIGITS if digits[digest_id.hex()[:DIGITS]] == 1 else None]})".strip()
        for digest_id, name in registered.items()
    }
    pairs = sorted(reading)
    read, taken = Counter(job for job, _ in pairs), set(datasets.values())
    jobs: dict[Reads, str] = {}
    for job, digest_id in pairs:
        # A job with several data sets is several.
        name = job or NO_NAME
        name = name if read[job] == 1 else of_several(name, datasets[digest_id])
        while name in taken:
            name += "'"
        taken.add(name)
        jobs[job, digest_id] = name
    return Names(datasets, jobs)


def of_several(job: str, dataset: str) -> str:
    """`dataset`: as plans call it."""
    return f"{job}, {dataset}"


def renamed(before: Names, now: Names) -> dict[str, str]:
    """Of what both have and call otherwise: the name now, by the one before."""
    return dict([*_otherwise(before.datasets, now.datasets), *_otherwise(before.jobs, now.jobs)])


def _otherwise(before: Mapping[Key, str], now: Mapping[Key, str]) -> Iterator[tuple[str, str]]:
    return ((before[key], now[key]) for key in before.keys() & now.keys() if before[key] != now[key])
