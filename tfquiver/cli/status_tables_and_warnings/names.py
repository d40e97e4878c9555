"""Tables that begin with a job's and a data set's name (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.table import Table

from tfquiver.cli.calls import cut, table
from tfquiver.plain_text import plain

_LEAST_NAME = 8
_GAP = 2  # between columns


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
        made.add_row(cut(its_job, job), cut(its_dataset, dataset), *row)
    return made


def _shared(room: int, one: int, other: int) -> tuple[int, int]:
    """What two names get that would like so much: neither less than half because of the other."""
    half = max(room // 2, _LEAST_NAME)
    if one <= half:
        return one, max(room - one, half)
    if other <= half:
        return max(room - other, half), other
    return half, max(room - half, half)
