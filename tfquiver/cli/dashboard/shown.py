"""What the page is told of a status: less than `--json` has, so that a thousand nodes are no burden (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfquiver.cli.dataset_commands import cache_setting
from tfquiver.cli.status_asked_watched_explained import activity
from tfquiver.cli.status_tables_and_warnings import nodes_view, words
from tfquiver.shard_owners_chunks_hash_prefixes.labels import is_spot

MOST_NODES, MOST_DATASETS, MOST_JOBS, MOST_PROBLEMS = 10_000, 2000, 2000, 200
_PAST_S = 24 * 3600  # as the page shows it
_NODE = ("used_bytes", "quota_bytes", "readers", "hits", "peer_hits", "misses", "store_bytes", "served_bytes")
_DATASET = (
    "name", "digest_id", "shards", "records", "size_bytes", "resident_bytes", "chunks", "resident_chunks",
    "moving_bytes",
)  # fmt: skip
_JOB = (
    "digest_id", "dataset", "epoch", "readers", "bytes_per_s", "stall_share", "hit_share", "step_ms", "accelerators",
    "read_bytes", "hit_bytes", "missed_bytes", "state", "idle_ms",
)  # fmt: skip


def shown(status: Mapping[str, Any]) -> dict[str, Any]:
    nodes = [_node(one) for one in status["nodes"][:MOST_NODES]]
    nodes += [_node(one) | _gone(one) for one in status["lost_nodes"]]
    return {
        "coordinator": status["coordinator"],
        "problems": status["problems"][:MOST_PROBLEMS],
        "going_on": [*_known_since(status), *activity.lines(status["going_on"], status["datasets"])][:MOST_PROBLEMS],
        "hit_ratio": status["hit_ratio"],
        "saved": status["saved"],
        "store": status["store"],
        "nodes": nodes,
        "datasets": [_dataset(one) for one in status["datasets"][:MOST_DATASETS]],
        "jobs": list(_jobs(status["sessions"]))[:MOST_JOBS],
        "dispatchers": [
            {"address": one["address"], "workers": len(one["workers"])} for one in status["dispatchers"]
        ],
    }  # fmt: skip


def _known_since(status: Mapping[str, Any]) -> Iterator[str]:
    """A line, for as long as the page could show what was before. The coordinator of one node is as old as what it
    knows; of older ones it is not known."""
    up_ms = status.get("coordinator_up_ms", 0)
    up_s = up_ms // 1000
    if up_ms and up_s < _PAST_S and not status["coordinator"].startswith("unix:"):
        ago = f"{up_s // 3600} h" if up_s >= 3600 else f"{up_s // 60} min"
        yield f"the coordinator was started {ago} ago: of jobs, epochs and chunks nothing is shown from before"


def _some(told: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: told[key] for key in keys if told.get(key) is not None}


def _node(told: Mapping[str, Any]) -> dict[str, Any]:
    labels = told.get("labels", {})
    return {
        "id": words.short(told["node_id"]), "host": nodes_view.host(told), "rack": labels.get("rack", ""),
        **_some(told, _NODE), **_takes(told), **_some(told, ("error",)),
    }  # fmt: skip


def _gone(told: Mapping[str, Any]) -> dict[str, int]:
    """A spot node that is gone is no failure, as for `tfquiver status`."""
    return {"gone_s" if is_spot(told.get("labels", {})) else "lost_s": told["silent_ms"] // 1000}


def _takes(told: Mapping[str, Any]) -> dict[str, int]:
    """Of a quota that the disk has no room for what it has: a node whose disk is full is full, not nearly empty."""
    return {"quota_bytes": nodes_view.most_bytes(told)} if "quota_bytes" in told else {}


def _dataset(told: Mapping[str, Any]) -> dict[str, Any]:
    return _some(told, _DATASET) | {"cache": cache_setting.text(told["cache"], told["size_bytes"])}


def _jobs(sessions: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """Of each job and data set its newest session."""
    seen = set[tuple[str, str]]()
    for info in sessions:
        key = info["job"], info["digest_id"]
        if key in seen:
            continue
        seen.add(key)
        read = info.get("read", info["acked"])
        done = read / info["shards"] if info["shards"] else 1.0
        yield {"job": info["job"], "name": words.job(info), "done": round(done, 4), **_some(info, _JOB)}
