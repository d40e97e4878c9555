"""How data sets are called, two of one name, too; tables that begin with a job's and a data set's name (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.table import Table

from tfquiver.cli.calls import cut, table
from tfquiver.plain_text import plain

DIGITS = 12  # of a digest id: as people are shown it everywhere, and as commands take it in place of a name
_DIGITS = re.compile(rf"(.*)( \(([0-9a-f]{{{DIGITS}}})\))", re.DOTALL)
_LEAST_NAME = 8
_GAP = 2  # between columns
_LEAST_BESIDE_DIGITS = 3


def called(datasets: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """By digest id the name of each; of those that are called alike `NAME (12 digits)`."""
    every = {str(one["digest_id"]): str(one["name"]) for one in datasets}
    having = Counter(every.values())
    return {
        digest_id: name if having[name] == 1 else f"{name} ({digest_id[:DIGITS]})" for digest_id, name in every.items()
    }


def has_digits(name: str) -> bool:
    """As one of several of a name is called."""
    return _DIGITS.fullmatch(name) is not None


def of_session(info: Mapping[str, Any], called: Mapping[str, str]) -> str:
    """Its data set, of `called`; of one that is no longer there as far as it is known."""
    return called.get(info["digest_id"], "") or info["dataset"] or str(info["digest_id"][:8])


def cut_called(name: str, most: int) -> str:
    """As `cut`; of one of several of a name the digits stay, for nothing else tells it from the others."""
    found = _DIGITS.fullmatch(name)
    if found is None or cell_len(plain(name)) <= most:
        return cut(name, most)
    room = most - len(found[2])
    return f"{cut(found[1], room)}{found[2]}" if room >= _LEAST_BESIDE_DIGITS else cut(found[3], most)


def named_rows(
    heads: Sequence[str], names: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], width: int
) -> Table:
    """`names`: job and data set of each row, which have the room that the figures leave."""
    taken = (
        sum(_GAP + max(len(head), *(cell_len(row[at]) for row in rows), 0) for at, head in enumerate(heads))
        if rows
        else 0
    )
    wide = (max((cell_len(plain(name[at])) for name in names), default=0) for at in (0, 1))
    job, dataset = _shared(width - taken - _GAP, *wide)
    made = table("job", "data set", *heads)
    for (its_job, its_dataset), row in zip(names, rows, strict=True):
        made.add_row(cut(its_job, job), cut_called(its_dataset, dataset), *row)
    return made


def _shared(room: int, one: int, other: int) -> tuple[int, int]:
    """What two names get that would like so much: neither less than half because of the other."""
    half = max(room // 2, _LEAST_NAME)
    if one <= half:
        return one, max(room - one, half)
    if other <= half:
        return max(room - other, half), other
    return half, max(room - half, half)
