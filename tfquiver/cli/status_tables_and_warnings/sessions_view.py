"""The table of sessions in `tfquiver status` (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from tfquiver.cli.calls import cut
from tfquiver.cli.status_tables_and_warnings import names, words
from tfquiver.plain_text import plain
from tfquiver.sizes_durations_amounts.amounts import many

LEGEND = (
    "A session is one epoch of one job; epochs count from 0. idle: it has not ended, and for so long nobody "
    "has read it: its trainer is at something else, or is no more. read: of its shards, given to the job's pipeline. "
    "sure: known to have come through it; the rest would be read again if a reader were lost. disk: of its shards, "
    "those that a node's disk had when they were handed out; what memory had, or was loaded before it was needed, is "
    "none, but a hit of its job. unread: shards whose reader was lost after the end, perhaps not delivered. again: "
    "shards handed out more than once."
)


def worth_a_row(told: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Without epochs that have ended well, but the newest such of each job and data set: of a job that has run for a
    day there are dozens, which hid those that are read. `told`: the newest first."""
    seen, found = set[tuple[str, str]](), []
    for info in told:
        whose = words.job(info), str(info["digest_id"])
        if info["state"] != "ended" or info["shortfall"] or info["reread"]:
            found.append(info)
        elif whose not in seen:
            seen.add(whose)
            found.append(info)
    return found


def left_out(told: Sequence[Mapping[str, Any]]) -> str:
    """What a line below the table says of those that have no row; "": all have one."""
    count = len(told) - len(worth_a_row(told))
    return f"and {many(count, 'epoch', 'epochs')} before that ended well: `tfquiver status --json` has them" * bool(
        count
    )


def sessions(told: Sequence[Mapping[str, Any]], width: int, called: Mapping[str, str]) -> Table:
    """Those of one job stand together, in the order in which they come here. Names have the room that the figures
    leave; columns of failures are there where something failed. `called`: data sets, by digest id."""
    jobs = {words.job(info): at for at, info in reversed(list(enumerate(told)))}
    told = sorted(worth_a_row(told), key=lambda info: jobs[words.job(info)])
    failures = {"unread": "shortfall", "again": "reread"}
    shown = [head for head, key in failures.items() if any(info[key] for info in told)]
    heads = ("epoch", "state", "read", "sure", "readers", "disk", *shown)
    rows, whose = [], []
    for info in told:
        leases = info["resident_leases"] + info["missing_leases"]
        hits = f"{info['resident_leases'] / leases:.0%}" if leases else "-"
        done = (words.share(shards, info["shards"]) for shards in (info.get("read", info["acked"]), info["acked"]))
        counts = (str(info[failures[head]]) for head in shown)
        rows.append((str(info["epoch"]), words.standing(info), *done, str(info["readers"]), hits, *counts))
        whose.append((cut(words.job(info), width), plain(names.of_session(info, called))))
    return names.named_rows(heads, whose, rows, width)
