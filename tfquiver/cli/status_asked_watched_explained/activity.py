"""What a cluster is at just now: scans, warm-ups, moves, probes (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfquiver.cli.status_tables_and_warnings import names, nodes_view, words
from tfquiver.plain_text import plain
from tfquiver.sizes_durations_amounts.amounts import of_bytes

_KINDS = {"WORK_KIND_SCAN": "scan", "WORK_KIND_WARM": "warm"}


def going_on(
    nodes: Sequence[Mapping[str, Any]], datasets: Sequence[Mapping[str, Any]], sessions: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """By kind (scan, warm, move, probe), each with the data set's name; of a scan or a warm-up the node and how far."""
    known = {one["digest_id"]: one["name"] for one in datasets}
    found: list[dict[str, Any]] = []
    for node in nodes:
        for work in node.get("works", ()):
            if kind := _KINDS.get(work["kind"]):
                name = work["name"] or known.get(work["digest_id"], work["digest_id"][:8])
                done = {key: work[key] for key in ("done_bytes", "total_bytes", "trouble")}
                found.append(
                    {"kind": kind, "dataset": name, "digest_id": work["digest_id"], "node_id": node["node_id"], **done}
                )
    for one in datasets:
        if one.get("moving_shards"):
            moving = {key: one[key] for key in ("moving_shards", "moving_bytes", "unmoved_shards")}
            found.append({"kind": "move", "dataset": one["name"], "digest_id": one["digest_id"], **moving})
    probed = {(info["job"], info["digest_id"]): info for info in sessions if info.get("probed")}
    for info in probed.values():
        its = {"dataset": info["dataset"] or info["digest_id"][:8], "digest_id": info["digest_id"]}
        found.append({"kind": "probe", **its, "job": words.job(info)})
    return found


def lines(found: Sequence[Mapping[str, Any]], datasets: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence each."""
    called = names.called(datasets)
    for one in found:
        dataset = plain(called.get(one.get("digest_id", ""), one["dataset"]))
        if one["kind"] in ("scan", "warm"):
            far = f"{words.share(one['done_bytes'], one['total_bytes'])} of {of_bytes(one['total_bytes'])}"
            what = "reads for the first time" if one["kind"] == "scan" else "warms"
            trouble = f"; {plain(one['trouble'])}" if one["trouble"] else ""
            yield f"node {words.short(one['node_id'])} {what} {dataset}: {far}{trouble}"
        elif one["kind"] == "probe":
            yield (
                f"job {plain(one['job'])} is being measured without the cache, over {dataset}, for about 100 "
                "mini-batches: so it is known what caching gains it"
            )
    yield from nodes_view.moves(datasets)
