"""What `tfquiver status` says of nodes that are lost, or that others cannot reach; where each has its cache (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from tfquiver.cli.calls import cut, table
from tfquiver.cli.status_tables_and_warnings import alike, names
from tfquiver.cli.status_tables_and_warnings.words import short
from tfquiver.grpc_plumbing import addresses
from tfquiver.plain_text import plain
from tfquiver.shard_owners_chunks_hash_prefixes.labels import is_spot
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

PLACES_LEGEND = (
    "directory: on that node's machine; there every command takes it for WHERE, and its node's log is in its log/. "
    "labels: as it was started with (tfquiver-node --labels): placements choose nodes by them."
)
_MOST_LOST = 5  # each with a sentence: where a rack is without power the other problems are to be seen, too
_MOST_LABELS = 200  # characters
_MOST_OTHERS = 3  # caches on a disk
_PARTS, _LEAST_BYTES, _MOST_BYTES = 100, 16 << 20, 1 << 30  # hardly anything: one of so many of its quota, within these


def problems(nodes: Sequence[Mapping[str, Any]], lost: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence each. `lost`: as `nodes`, with `silent_ms`; those that the coordinator has given up. Of spot nodes
    among them `gone_spot` tells."""
    of_several_machines = any(_leads_elsewhere(node) for node in nodes)
    # Whether one of the former answers depends on where this runs.
    local = [node for node in nodes if of_several_machines and not _leads_elsewhere(node)]
    others = [node for node in nodes if not of_several_machines or _leads_elsewhere(node)]
    # Nobody but `status` and `clear` has to reach a gateway.
    yield from alike.some((_reaches_itself(node) for node in local if node["quota_bytes"]), "node")
    yield from alike.some((node["error"] for node in others if "error" in node), "node")
    missed = [node for node in lost if not is_spot(node.get("labels", {}))]
    for node in missed[:_MOST_LOST]:
        yield (
            f"node {short(node['node_id'])} at {node['control_address']} is lost: not heard of for "
            f"{node['silent_ms'] // 1000} s; jobs read from the store what it kept alone; start it again, with the "
            f"flags that it had; where it is gone for good, `tfquiver forget {short(node['node_id'])}`, else it is "
            "forgotten after an hour"
        )
    if (more := len(missed) - _MOST_LOST) > 0:
        yield (
            f"{many(more, 'more node is', 'more nodes are')} lost: `tfquiver status --json` has all; where all are "
            "gone for good, `tfquiver forget --all_lost`"
        )


def _reaches_itself(node: Mapping[str, Any]) -> str:
    return (
        f"node {short(node['node_id'])} has told its peers that it is at {node['control_address']}, where each of them "
        "reaches itself: they neither get shards from it nor have it keep any, and read the store instead; start it "
        "with the coordinator's address as other machines write it in --coordinator, or with --advertise_host and "
        "--bind_host"
    )


def gone_spot(lost: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line, where nodes are gone whose machines may be taken away at any time."""
    gone = [node for node in lost if is_spot(node.get("labels", {}))]
    if gone:
        names = ", ".join(f"{short(node['node_id'])} {node['silent_ms'] // 1000} s ago" for node in gone[:_MOST_LOST])
        more = ", ..." if gone[_MOST_LOST:] else ""
        said = f"{many(len(gone), 'spot node is', 'spot nodes are')} gone, as they may be, in the last hour"
        yield f"{said}: {names}{more}"


def hanging_disks(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each node whose disk does not answer."""
    for node in nodes:
        if hangs_ms := node.get("disk_hangs_ms", 0):
            yield (
                f"node {short(node['node_id'])}: its disk has not answered for {hangs_ms // 1000} s: it keeps nothing "
                "more, and readers of what is there, and data sets that are evicted or deleted wait for it: look at "
                "that disk, or stop the node"
            )


def full_disks(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each node whose disk takes hardly anything more, where its quota would."""
    for node in filter(is_full, nodes):
        yield (
            f"node {short(node['node_id'])}: its disk is full: {of_bytes(node['disk_room_bytes'])} are left there for "
            f"shards of the {of_bytes(_left_bytes(node))} that its quota still has; what does not fit is read from the "
            f"store each time: make room on that disk, or start the node with a smaller --quota{_others(node)}"
        )


def _others(node: Mapping[str, Any]) -> str:
    others = node.get("disk_shared_with", ())
    more = f" and {len(others) - _MOST_OTHERS} more" if others[_MOST_OTHERS:] else ""
    return f"; caches of yours are on it in {', '.join(map(plain, others[:_MOST_OTHERS]))}{more}, too" if others else ""


def is_full(node: Mapping[str, Any]) -> bool:
    """Whether its disk takes hardly anything more, where its quota would."""
    room, little = node.get("disk_room_bytes"), max(_LEAST_BYTES, min(node["quota_bytes"] // _PARTS, _MOST_BYTES))
    return room is not None and room < min(_left_bytes(node), little)


def _left_bytes(node: Mapping[str, Any]) -> int:
    return int(node["quota_bytes"] - node.get("used_bytes", 0))


def most_bytes(node: Mapping[str, Any]) -> int:
    """That it can keep: its quota, or what it has and what its disk still takes, where that is less."""
    quota_bytes, room_bytes = int(node["quota_bytes"]), node.get("disk_room_bytes")
    return quota_bytes if room_bytes is None else min(quota_bytes, node.get("used_bytes", 0) + room_bytes)


def host(node: Mapping[str, Any]) -> str:
    """As its label says that people call it, else where it is reached."""
    return str(node.get("labels", {}).get("host") or node.get("host", ""))


def labels(node: Mapping[str, Any]) -> str:
    """As --labels takes them."""
    return ",".join(f"{key}={value}" for key, value in sorted(node.get("labels", {}).items()))


def placed(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of which `places` has a row."""
    return [node for node in nodes if node.get("cache_dir") or node.get("labels")]


def places(nodes: Sequence[Mapping[str, Any]]) -> Table:
    """Beside the figures there is no room for it in 80 columns. A directory is never cut: it is there to be copied."""
    shown = placed(nodes)
    said = {"directory": [plain(node.get("cache_dir", "")) or "-" for node in shown]}
    said["labels"] = [cut(labels(node), _MOST_LABELS) for node in shown]
    known = {"directory": any(node.get("cache_dir") for node in shown), "labels": any(said["labels"])}
    made = table("node", *(head for head, is_known in known.items() if is_known))
    for column in made.columns[1:]:
        column.justify, column.no_wrap, column.overflow = "left", False, "fold"
    for node, *row in zip(shown, *(said[head] for head, is_known in known.items() if is_known), strict=True):
        made.add_row(short(node["node_id"]), *row)
    return made


def moves(datasets: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each data set of which something is on its way to where its placement has it."""
    called = names.called(datasets)
    for one in datasets:
        shards, unmoved = one.get("moving_shards", 0), one.get("unmoved_shards", 0)
        shown = plain(called[one["digest_id"]])
        meant = shown if shown == plain(one["name"]) else one["digest_id"][: names.DIGITS]
        more = f"(`tfquiver dataset place {meant}`)"
        if shards and shards == unmoved:
            size, where = of_bytes(one["moving_bytes"]), "room on the nodes that its placement gives"
            what = many(
                shards, f"shard ({size}) finds no {where} it, and stays where it is",
                f"shards ({size}) find no {where} them, and stay where they are",
            )  # fmt: skip
            yield f"data set {shown}: {what} {more}"
        elif shards:
            size, where = of_bytes(one["moving_bytes"]), "still to come to the nodes that its placement gives"
            what = many(shards, f"shard ({size}) is {where} it", f"shards ({size}) are {where} them")
            stays = f"; {many(unmoved, 'finds', 'find')} no room there" if unmoved else ""
            yield f"data set {shown} moves: {what}{stays} {more}"


def _leads_elsewhere(node: Mapping[str, Any]) -> bool:
    return addresses.leads_elsewhere(node.get("control_address", ""))
