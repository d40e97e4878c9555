"""The table of sessions in `tfquiver status` (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from tfquiver.cli.calls import cut
from tfquiver.cli.status_tables import words
from tfquiver.cli.status_tables.names import named_rows

LEGEND = (
    "A session is one epoch of one job. idle: it has not ended, and for so long nobody has read it: its trainer is at "
    "something else, or is no more. read: of its shards, given to the job's pipeline. sure: known to have come "
    "through it; the rest would be read again if a reader were lost. disk: of its shards, those that a node's disk "
    "had when they were handed out; what memory had, or was loaded before it was needed, is none, but a hit of its "
    "job. unread: shards whose reader was lost after the end, perhaps not delivered. again: shards handed out more "
    "than once."
)


def sessions(told: Sequence[Mapping[str, Any]], width: int) -> Table:
    """Those of one job stand together, in the order in which they come here. Names have the room that the figures
    leave; columns of failures are there where something failed."""
    jobs = {words.job(info): at for at, info in reversed(list(enumerate(told)))}
    told = sorted(told, key=lambda info: jobs[words.job(info)])
    failures = {"unread": "shortfall", "again": "reread"}
    shown = [head for head, key in failures.items() if any(info[key] for info in told)]
    heads = ("epoch", "state", "read", "sure", "readers", "disk", *shown)
    rows, names = [], []
    for info in told:
        leases = info["resident_leases"] + info["missing_leases"]
        hits = f"{info['resident_leases'] / leases:.0%}" if leases else "-"
        done = (words.share(shards, info["shards"]) for shards in (info.get("read", info["acked"]), info["acked"]))
        counts = (str(info[failures[head]]) for head in shown)
        rows.append((str(info["epoch"]), words.standing(info), *done, str(info["readers"]), hits, *counts))
        names.append((cut(words.job(info), width), cut(info["dataset"], width) or info["digest_id"][:8]))
    return named_rows(heads, names, rows, width)
