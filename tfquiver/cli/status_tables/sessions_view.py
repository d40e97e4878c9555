"""The table of sessions in `tfquiver status` (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from tfquiver.cli.calls import cut, table
from tfquiver.cli.status_tables import words

LEGEND = (
    "A session is one epoch of one job. idle: it has not ended, and for so long nobody has read it: its trainer is at "
    "something else, or is no more. read: of its shards, given to the job's pipeline. sure: known to have come "
    "through it; the rest would be read again if a reader were lost. hits: of its shards, those that a node had when "
    "they were handed out (those of a job are of bytes, and what was loaded in time counts). unread: shards whose "
    "reader was lost after the end, perhaps not delivered. again: shards handed out more than once."
)
_LEAST_NAME = 8
_GAP = 2  # between columns


def sessions(told: Sequence[Mapping[str, Any]], width: int) -> Table:
    """Those of one job stand together, in the order in which they come here. Names have the room that the figures
    leave; columns of failures are there where something failed."""
    jobs = {words.job(info): at for at, info in reversed(list(enumerate(told)))}
    told = sorted(told, key=lambda info: jobs[words.job(info)])
    failures = {"unread": "shortfall", "again": "reread"}
    shown = [head for head, key in failures.items() if any(info[key] for info in told)]
    heads = ("epoch", "state", "read", "sure", "readers", "hits", *shown)
    rows, names = [], []
    for info in told:
        leases = info["resident_leases"] + info["missing_leases"]
        hits = f"{info['resident_leases'] / leases:.0%}" if leases else "-"
        done = (words.share(shards, info["shards"]) for shards in (info.get("read", info["acked"]), info["acked"]))
        counts = (str(info[failures[head]]) for head in shown)
        rows.append((str(info["epoch"]), words.standing(info), *done, str(info["readers"]), hits, *counts))
        names.append((cut(words.job(info), width), cut(info["dataset"], width) or info["digest_id"][:_LEAST_NAME]))
    taken = (
        sum(_GAP + max(len(head), *(len(row[at]) for row in rows), 0) for at, head in enumerate(heads)) if rows else 0
    )
    job, dataset = _shared(width - taken - _GAP, *(max((len(name[at]) for name in names), default=0) for at in (0, 1)))
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
