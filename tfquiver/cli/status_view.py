"""What `tfquiver status` prints: problems first, then what was saved, then tables, and what their words mean."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tfquiver.cli import calls
from tfquiver.cli.calls import cut, table
from tfquiver.trust import plain_text

_NODES_LEGEND = (
    "hits: shards from this node's disk or memory. peer hits: from another node's. misses: from the object store. from "
    "store: all bytes read there, those of a first use's scan, too. A shard is a run of records, about 2 MB."
)
_DATASETS_LEGEND = (
    "cache: full: what comes first is kept until the quota is used. coop: chunks rotate through the cache, and all "
    "jobs share them. none, lru: as they say. tfquiver dataset set-cache changes it."
)
_SESSIONS_LEGEND = (
    "A session is one epoch of one job. done: shards read. unread: shards whose reader was lost after the end, perhaps "
    "not delivered. again: shards handed out more than once."
)
_REMOTE_IO_LEGEND = (
    "What jobs may read from the object store, a second. now: with what others lend it, or without what it lends. set "
    "by: a person (tfquiver limit), or a policy."
)
_FULL = 0.9
_UNNAMED = re.compile(r"job-([0-9a-f]{12}) \1[0-9a-f]{20}-([^:]+)(?::.*)?")


def saved(totals: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Of several nodes' Totals: what did not have to come from the object store, since `since_s` (Unix time, or 0).

    A request is what a shard takes; what nodes hand to each other is counted by the one that has it.
    """
    every = list(totals)
    served, read, shards, requests = (
        sum(sum(its[name] for name in names) for its in every)
        for names in (("served_bytes",), ("store_bytes",), ("hits", "misses"), ("store_requests",))
    )
    return {
        "bytes": max(served - read, 0), "requests": max(shards - requests, 0),
        "served_bytes": served, "store_bytes": read, "store_requests": requests,
        "since_s": min((its["since_s"] for its in every if its["since_s"]), default=0),
    }  # fmt: skip


def problems(status: Mapping[str, Any]) -> list[str]:
    """What a person should look at, a sentence each, the worst first."""
    found = [node["error"] for node in status["nodes"] if "error" in node]
    answering = [node for node in status["nodes"] if "error" not in node]
    quota = sum(node["quota_bytes"] for node in status["nodes"])
    if not quota:
        found.append("no node keeps anything: start tfquiver-node with a --quota, or tfquiver up")
    for node in answering:
        name = f"node {short(node['node_id'])}"
        if count := node.get("corrupt_entries"):
            found.append(f"{name}: {count} entries were damaged and have been fetched again: look after its disk")
        if count := node.get("peer_mismatches"):
            found.append(f"{name}: peers sent it {count} shards that were not what it asked for; its log names them")
        if count := node.get("refused_inserts"):
            is_full = node["used_bytes"] > _FULL * node["quota_bytes"]
            why = "its quota is used up" if is_full else "its disk or a setting has no room"
            found.append(f"{name}: {count} times a shard could not be kept: {why}")
    for one in status["datasets"]:
        if quota and one["size_bytes"] > quota and one["cache"]["mode"] in ("unset", "uniform"):
            found.append(
                f"data set {one['name']} ({decimal(one['size_bytes'])}) is larger than all quotas ({decimal(quota)}): "
                "what does not fit is read from the store by every job, every epoch; `tfquiver dataset set-cache "
                f"{one['name']} cooperative` lets them share it"
            )
    for info in status["sessions"]:
        if count := info["shortfall"]:
            what = info["dataset"] or info["digest_id"][:8]
            found.append(
                f"job {job(info)}, data set {what}, epoch {info['epoch']}: {count} shards are perhaps not delivered: "
                "their reader was lost after the end"
            )
    return found


def show(status: Mapping[str, Any], console: Console) -> None:
    """As tables. Every name in them was chosen by somebody else."""
    for line in status["problems"]:
        console.print(Text(f"! {plain_text.plain(line)}", style="red"), soft_wrap=True)
    ratio = "-" if status["hit_ratio"] is None else f"{status['hit_ratio']:.1%}"
    console.print(f"coordinator {plain_text.plain(status['coordinator'])}   hit ratio {ratio}")
    console.print(_saved(status["saved"]))
    nodes = table("node", "used", "quota", "readers", "hits", "peer hits", "misses", "from store")
    for node in status["nodes"]:
        if "error" in node:
            continue
        counts = (str(node[key]) for key in ("readers", "hits", "peer_hits", "misses"))
        quota = decimal(node["quota_bytes"]) if node["quota_bytes"] else "gateway"
        nodes.add_row(short(node["node_id"]), decimal(node["used_bytes"]), quota, *counts, decimal(node["store_bytes"]))
    _print(console, nodes, _NODES_LEGEND, status["nodes"])
    _print(console, calls.datasets_table(status["datasets"]), _DATASETS_LEGEND, status["datasets"])
    sessions = table("job", "data set", "epoch", "state", "done", "readers", "hits", "unread", "again")
    for info in status["sessions"]:
        leases = info["resident_leases"] + info["missing_leases"]
        hits = f"{info['resident_leases'] / leases:.0%}" if leases else "-"
        done = f"{info['acked'] / max(info['shards'], 1):.0%}"
        counts = (str(info[key]) for key in ("shortfall", "reread"))
        dataset = cut(info["dataset"], 16) or info["digest_id"][:8]
        # Keras counts its steps, and leaves without taking the end.
        state = "ended" if info["ended"] or (info["acked"] == info["shards"] and not info["readers"]) else "open"
        sessions.add_row(
            cut(job(info), 14), dataset, str(info["epoch"]), state, done, str(info["readers"]), hits, *counts
        )
    _print(console, sessions, _SESSIONS_LEGEND, status["sessions"])
    remote_io = table("job", "from store", "now", "used", "set by")
    for one in status["remote_io"]:
        rates = (f"{decimal(int(one[f'{name}_bytes_per_s']))}/s" for name in ("allocated", "effective", "used"))
        remote_io.add_row(cut(one["job"], 28), *rates, "a person" if one["pinned"] else "a policy")
    _print(console, remote_io, _REMOTE_IO_LEGEND, status["remote_io"])


def _print(console: Console, shown: Any, legend: str, rows: Sequence[Any]) -> None:
    """Nothing where there is nothing: an empty table only raises questions."""
    if rows:
        console.print(shown)
        console.print(legend)


def _saved(its: Mapping[str, int]) -> str:
    since = f" since {datetime.date.fromtimestamp(its['since_s'])}" if its["since_s"] else ""
    return (
        f"saved {decimal(its['bytes'])} and {its['requests']:,} requests{since}: {decimal(its['served_bytes'])} given "
        f"to readers, {decimal(its['store_bytes'])} read from the store"
    )


def cold(told: Mapping[str, Any]) -> str:
    """No node, no counters but those that stay: what is on the disk."""
    holds = f"{told['entries']} shards, {decimal(told['used_bytes'])}; digests: {told['digests']}"
    return f"no node runs in {plain_text.plain(told['cache_dir'])}; it holds {holds}\n{_saved(told['saved'])}"


def job(info: Mapping[str, Any]) -> str:
    """A session's job; of one without a name the program, and enough of its number to tell it from others."""
    unnamed = _UNNAMED.fullmatch(f"{info['job']} {info['session_key']}")
    return f"{unnamed[2]}-{unnamed[1][:4]}" if unnamed else str(info["job"])


def short(name: str) -> str:
    """Enough of an id to tell it from others; `--json` has the whole."""
    return plain_text.plain(name.rpartition("-")[2][:8])
