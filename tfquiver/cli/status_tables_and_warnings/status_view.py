"""What `tfquiver status` prints: problems first, then what was saved, then tables, and what their words mean."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfquiver import plain_text
from tfquiver.cli import calls
from tfquiver.cli.calls import cut, table
from tfquiver.cli.dataset_commands.states import OLD_LEGEND
from tfquiver.cli.status_asked_watched_explained import activity, up_away
from tfquiver.cli.status_tables_and_warnings import (  # fmt: skip
    alike,
    fitting,
    mounts_view,
    names,
    nodes_view,
    sessions_view,
    store_view,
    words,
    workers_view,
)
from tfquiver.cli.status_tables_and_warnings.words import count, job, short, size
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes, of_rate

_MORE = (
    "used: on the disk, compressed where that pays; size: of all records, not compressed. Epochs count from 0. "
    "`tfquiver status --explain` says what all columns are"
)
_NODES_LEGEND = (
    "used: what shards take on its disk, in whole pages of 4 KiB and one more for each, compressed where that pays; "
    "sizes of data sets are of their records, raw. hits: shards from this node's disk or memory. peers: from another "
    "node's. misses: from the object store. hit ratio: hits and peers, of all three: of what readers took. store: all "
    "bytes read there, those of a first use's scan, too. A shard is a run of records, about 2 MB."
)
_NO_QUOTA_LEGEND = " quota none: it keeps nothing, such as a dispatcher's own node, and only fetches for who is there."
_DATASETS_LEGEND = (
    "cached: so much of it is on the nodes' disks, and of how many of its chunks all is there; ~: as it was when it "
    "was last read, or looked at; -: not known, for nobody has read it since the coordinator was started. how: "
    "uniform: what comes first is kept until that many bytes, or the quotas, are used. coop (cooperative): chunks "
    "rotate through the cache, and all jobs share them. none, lru: as they say. auto: nobody has set it, and the "
    "policy decides (tfquiver explain says why); auto alone: it has not yet, and does when somebody reads it; as "
    "uniform until then. tfquiver dataset set-cache changes it."
)
_JOBS_LEGEND = (
    "reads: what all readers of a job hand to its pipeline, over the last ten seconds or so. waits: for so much of "
    "that time the pipeline waited for records; where it hardly does, more cache would not make the job faster. "
    "hits: so much of what it was handed came from the cache."
)
_STEPS_LEGEND = (
    " step, between: of the average training step, and until the next, as the job itself says. acc.: its accelerators."
)
_REMOTE_IO_LEGEND = (
    "What jobs may read from the object store, a second. now: with what others lend it, or without what it lends. "
    "used: in the last second or so; above now for a while where that has just fallen, and as long as a job without a "
    "rate reads the same data set in chunks (coop): what is loaded for that one all are given. set by: a person "
    "(tfquiver limit), or a policy."
)
_FULL = 0.9
_MOST_UNREACHED = 5  # data sets that are named
_REFUSED_LATELY_MS = 5 * 60 * 1000  # what was refused before says nothing of now: a disk may have been given room


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


def _lately(node: Mapping[str, Any], field: str) -> bool:
    """Of older nodes it is not known: so it is."""
    return bool(node.get(field, 0) <= _REFUSED_LATELY_MS)


def problems(status: Mapping[str, Any]) -> list[str]:
    """What a person should look at, a sentence each, the worst first."""
    found = []
    if trouble := status.get("coordinator_trouble"):
        found.append(
            f"the coordinator decides nothing, and who reads will wait, until its log can be written: {trouble}"
        )
    if trouble := status.get("policy_trouble"):
        found.append(f"planning: {trouble}")
    up = status.get("up")
    found += up_away.problems(up)
    away = up_away.known_as(up)  # of which that is said by now
    found += nodes_view.problems(
        [node for node in status["nodes"] if "error" not in node or node["node_id"] not in away],
        [node for node in status["lost_nodes"] if node["node_id"] not in away],
    )
    for lines in (nodes_view.hanging_disks(status["nodes"]), nodes_view.full_disks(status["nodes"])):
        found += alike.some(lines, "node")
    answering = [node for node in status["nodes"] if "error" not in node]
    quota = sum(node["quota_bytes"] for node in status["nodes"])
    most = sum(map(nodes_view.most_bytes, status["nodes"]))
    is_limited = _is_limited(status["datasets"], most)
    if not quota and (started := words.just_started(status.get("coordinator_up_ms", 0))):
        found.append(f"no node has come back yet: the coordinator {started}; ask again in some seconds")
    elif not quota and not up_away.said(up, "node"):
        found.append("no node keeps anything: start tfquiver-node with a --quota, or tfquiver up")
    for alike_ones in _counted(answering, is_limited).values():
        found += alike.some(alike_ones, "node")
    found += store_view.problems(status.get("store") or {}, status["sessions"])
    missed = [one for one in status["lost_dispatchers"] if one["address"] not in away]
    found += alike.some(workers_view.lost(missed), "dispatcher")
    found += alike.some(workers_view.problems(status["dispatchers"], away), "worker")
    found += mounts_view.problems(status.get("mounts", ()), status["datasets"])
    found += alike.some(_too_large(status["datasets"], _left_unset(status["sessions"]), quota, most), "data set")
    called = names.called(status["datasets"])
    found += alike.some((_shortfall(info, called) for info in status["sessions"] if info["shortfall"]), "epoch")
    return found


def _counted(nodes: Iterable[Mapping[str, Any]], is_limited: bool) -> dict[str, list[str]]:
    """What nodes count that should not be, a sentence each, by what it is, the worst first. `is_limited`: that there is
    no room in a quota is as it was told."""
    found: dict[str, list[str]] = {kind: [] for kind in ("corrupt", "mismatches", "disk", "damaged", "room")}
    for node in nodes:
        name = f"node {short(node['node_id'])}"
        if count := node.get("corrupt_entries"):
            found["corrupt"].append(
                f"{name}: {many(count, 'entry was damaged and has', 'entries were damaged and have')} been fetched "
                "again: look after its disk"
            )
        if count := node.get("peer_mismatches"):
            found["mismatches"].append(
                f"{name}: peers sent it {many(count, 'shard that was', 'shards that were')} not what it asked for; "
                "its log names them"
            )
        by_disk, damaged = node.get("refused_by_disk", 0), node.get("refused_damaged", 0)
        if by_disk and _lately(node, "refused_by_disk_ms"):
            found["disk"].append(
                f"{name}: {many(by_disk, 'time')} its disk was full, or refused to keep a shard; its log says why"
            )
        if damaged:
            found["damaged"].append(
                f"{name}: {many(damaged, 'shard')} from others did not have the right hash, and what came was not kept"
            )
        without_room = node.get("refused_inserts", 0) - by_disk - damaged
        was_lately = _lately(node, "refused_ms")
        if without_room and was_lately and not is_limited and node["used_bytes"] <= _FULL * node["quota_bytes"]:
            times = many(without_room, "time")
            found["room"].append(f"{name}: {times} a shard could not be kept: no room in its quota")
    return found


def _left_unset(sessions: Sequence[Mapping[str, Any]]) -> Set[str]:
    """Digest ids of what is read and has been read through: a policy, where one decides, has decided by now."""
    read = {info["digest_id"] for info in sessions if info["readers"]}
    return read & {info["digest_id"] for info in sessions if info["ended"]}


def _too_large(
    datasets: Sequence[Mapping[str, Any]], left_unset: Set[str], quota_bytes: int, most_bytes: int
) -> Iterator[str]:
    """A sentence for each that a person has said, or nobody, is to be kept whole, and that does not fit. `left_unset`:
    the digest ids of those of which nobody will say it; `most_bytes`: that all nodes have room for."""
    called = names.called(datasets)
    for one in datasets:
        cache = one["cache"]
        is_set = cache["mode"] == "uniform" and "decided_by" not in cache
        kept = is_set or (cache["mode"] == "unset" and one["digest_id"] in left_unset)
        if quota_bytes and one["size_bytes"] > most_bytes and kept:
            shown = called[one["digest_id"]]
            # Of several of one name the command takes the digits.
            meant = one["name"] if shown == one["name"] else one["digest_id"][: names.DIGITS]
            first = f" (first `tfquiver dataset unpin {meant}`, where it is pinned)" if is_set else ""
            there = "all quotas" if most_bytes == quota_bytes else "what the nodes' quotas and disks have room for"
            yield (
                f"data set {shown} ({of_bytes(one['size_bytes'])}) is larger than {there} ({of_bytes(most_bytes)}): "
                "what does not fit is read from the store by every job, every epoch; `tfquiver dataset set-cache "
                f"{meant} cooperative` lets them share it{first}"
            )


def _shortfall(info: Mapping[str, Any], called: Mapping[str, str]) -> str:
    what = names.of_session(info, called)
    return (
        f"job {job(info)}, data set {what}, epoch {info['epoch']}: "
        f"{many(info['shortfall'], 'shard is', 'shards are')} perhaps not delivered: the reader was lost after the end"
    )


def _is_limited(datasets: Sequence[Mapping[str, Any]], most_bytes: int) -> bool:
    """A data set's allocation may be used up, or may have been while jobs read: so it is where caches (`most_bytes`, of
    all nodes) are smaller than the data."""
    if any(one["cache"].get("allocation_bytes") for one in datasets):
        return True
    size_bytes: int = sum(one["size_bytes"] for one in datasets)
    return size_bytes > most_bytes


def show_all(found: Sequence[str], told: Sequence[Mapping[str, Any]], console: Console, legends: bool) -> None:
    """What is `told` of each that was `found`; what a table's words mean is said once, with `legends`, else where it is
    said."""
    explained: set[str] = set()
    for where, one in zip(found, told, strict=True):
        if told[1:]:
            console.print(f"== {plain_text.plain(where)}", soft_wrap=True)
        if one.get("running", True):
            show(one, console, legends, explained)
        else:
            for line in cold(one).splitlines():
                _say(console, line)
    if not legends and any(one.get("nodes") for one in told):
        console.print()
        console.print(fitting.prose(_MORE, console.width), soft_wrap=True)


def show(
    status: Mapping[str, Any], console: Console, legends: bool = False, explained: set[str] | None = None,
    most_problem_lines: int | None = None, jobs_first: bool = False,
) -> None:  # fmt: skip
    """As tables. Every name in them was chosen by somebody else.

    Args:
      explained: legends that are not to be repeated; those that are shown are added.
      most_problem_lines, jobs_first: where there is no room for everything, and what comes last is not seen.
    """
    known = set() if explained is None else explained
    problems = [plain_text.plain(problem) for problem in status["problems"]]
    for line in fitting.of_problems(problems, console.width, most_problem_lines):
        console.print(Text(line, style="red"), soft_wrap=True)
    _summary(status, console)
    of_nodes, of_datasets, of_jobs = _of_nodes(status), _of_datasets(status), _of_jobs(status, console.width)
    tables = [*of_jobs, *of_nodes, *of_datasets] if jobs_first else [*of_nodes, *of_datasets, *of_jobs]
    for one in [*tables, _remote_io(status)]:
        if not one.rows:  # an empty table only raises questions
            continue
        console.print()
        console.print(one.shown)
        if legends and one.legend not in known:
            console.print(fitting.prose(one.legend, console.width), soft_wrap=True)
        known.add(one.legend)
        if one.below:
            _say(console, one.below)


@dataclass(frozen=True, slots=True)
class _Table:
    shown: Table
    legend: str
    rows: Sized  # what it has rows of
    below: str = ""


def _say(console: Console, text: str) -> None:
    for line in fitting.wrapped(plain_text.plain(text), console.width):
        console.print(line, soft_wrap=True)


def _summary(status: Mapping[str, Any], console: Console) -> None:
    ratio = "-" if status["hit_ratio"] is None else f"{status['hit_ratio']:.1%}"
    started = words.just_started(status.get("coordinator_up_ms", 0))
    is_its_own = status["coordinator"].startswith("unix:")  # the coordinator of one node, in that node's process
    awaited = 0 if is_its_own else status.get("awaited_nodes", 0)
    coming = f"   {started}: {many(awaited, 'node is', 'nodes are')} not back yet" if started and awaited else ""
    console.print(f"coordinator {plain_text.plain(status['coordinator'])}   hit ratio {ratio}{coming}", soft_wrap=True)
    for dispatcher in status["dispatchers"]:
        _say(console, workers_view.line(dispatcher))
    for line in nodes_view.gone_spot(status["lost_nodes"]):
        _say(console, line)
    for line in mounts_view.lines(status.get("mounts", ()), status["datasets"]):
        _say(console, line)
    _say(console, _saved_of(status))
    if store := words.store(status.get("store") or {}):
        _say(console, store)
    for line in activity.lines(status.get("going_on", ()), status["datasets"]):
        _say(console, line)


def _of_nodes(status: Mapping[str, Any]) -> Iterator[_Table]:
    nodes = table("node", "host", "used", "quota", "readers", "hits", "peers", "misses", "store")
    nodes.columns[1].no_wrap = False  # the others are never narrower than what is in them
    nodes.columns[1].overflow, nodes.columns[1].justify = "fold", "left"
    answering = [node for node in status["nodes"] if "error" not in node]
    for node in answering:
        counts = (count(node[key]) for key in ("readers", "hits", "peer_hits", "misses"))
        quota = size(node["quota_bytes"]) if node["quota_bytes"] else "none"
        read = size(node["store_bytes"])
        figures = (short(node["node_id"]), cut(nodes_view.host(node), 40), size(node["used_bytes"]))
        nodes.add_row(*figures, quota, *counts, read)
    keeps_none = any(not node["quota_bytes"] for node in answering)
    yield _Table(nodes, _NODES_LEGEND + (_NO_QUOTA_LEGEND if keeps_none else ""), answering)
    yield _Table(nodes_view.places(status["nodes"]), nodes_view.PLACES_LEGEND, nodes_view.placed(status["nodes"]))


def _of_datasets(status: Mapping[str, Any]) -> Iterator[_Table]:
    old = f" {OLD_LEGEND}" if any(one.get("old") for one in status["datasets"]) else ""
    below = _unreached(status["datasets"])
    yield _Table(calls.datasets_table(status["datasets"]), _DATASETS_LEGEND + old, status["datasets"], below)


def _unreached(datasets: Sequence[Mapping[str, Any]]) -> str:
    """What the column `cached` leaves out, in a line; empty: nothing."""
    called = names.called(datasets)
    some = [one for one in datasets if one.get("unreached_bytes")]
    parts = (f"{of_bytes(one['unreached_bytes'])} of {called[one['digest_id']]}" for one in some[:_MOST_UNREACHED])
    more = f", and of {many(len(some) - _MOST_UNREACHED, 'more data set')}" if some[_MOST_UNREACHED:] else ""
    said = f"not in cached, for only nodes that do not answer have it: {', '.join(parts)}{more}"
    return plain_text.plain(said) if some else ""


def _of_jobs(status: Mapping[str, Any], width: int) -> Iterator[_Table]:
    called = names.called(status["datasets"])
    measured = [info for info in status["sessions"] if "bytes_per_s" in info]
    jobs = {(info["job"], info["session_key"], info["digest_id"]): info for info in measured}
    steps = any("step_ms" in info for info in jobs.values())
    heads = ("reads", "waits", "hits", *(("step", "between", "acc.") if steps else ()))
    rows, whose = [], []
    for info in jobs.values():
        speed, waits = of_rate(info["bytes_per_s"]), f"{info['stall_share']:.0%}"
        hits = f"{info['hit_share']:.0%}" if "hit_share" in info else "-"
        rows.append((speed, waits, hits, *(_steps(info) if steps else ())))
        whose.append((cut(job(info), 28), names.cut_called(names.of_session(info, called), 28)))
    reading = names.named_rows(heads, whose, rows, width)
    yield _Table(reading, _JOBS_LEGEND + (_STEPS_LEGEND if steps else ""), jobs)
    sessions = sessions_view.sessions(status["sessions"], width, called)
    below = sessions_view.left_out(status["sessions"])
    yield _Table(sessions, sessions_view.LEGEND, status["sessions"], below)


def _remote_io(status: Mapping[str, Any]) -> _Table:
    remote_io = table("job", "from store", "now", "used", "set by")
    for one in status["remote_io"]:
        rates = (f"{size(round(one[f'{name}_bytes_per_s']))}/s" for name in ("allocated", "effective", "used"))
        remote_io.add_row(cut(one["job"], 28), *rates, "a person" if one["pinned"] else "a policy")
    return _Table(remote_io, _REMOTE_IO_LEGEND, status["remote_io"])


def _steps(info: Mapping[str, Any]) -> tuple[str, ...]:
    times = (f"{info[key]:.1f} ms" if key in info else "-" for key in ("step_ms", "between_ms"))
    return (*times, str(info.get("accelerators") or "-"))


def _saved_of(status: Mapping[str, Any]) -> str:
    silent = sum("error" in node for node in status["nodes"]) + len(status["lost_nodes"])
    answering = sum("error" not in node for node in status["nodes"])
    was_read = any(info.get("read", info["acked"]) for info in status["sessions"])
    return _saved(status["saved"], silent, answering, was_read)


def _saved(its: Mapping[str, Any], silent: int = 0, answering: int = 0, was_read: bool = False) -> str:
    """`silent`: nodes whose part nobody can tell. `was_read`: whatever nodes have counted."""
    since = ""
    with contextlib.suppress(ValueError, OverflowError, OSError):  # no date: of a clock that was wrong, or of a liar
        since = f" since {datetime.date.fromtimestamp(its['since_s'])}" if its["since_s"] else ""
    money = f"{its['money']:,.2f}: " if its.get("money") is not None else ""
    without = f" (not counted: {many(silent, 'node')} that cannot be asked)" if silent else ""
    if not _is_counted(its):
        if silent and not answering:
            return f"what has been read and saved is not known: {many(silent, 'node')} that would tell cannot be asked"
        if silent:
            return f"nothing has been read yet from the nodes that answer{without}"
        return "the nodes that are here have given out nothing yet" if was_read else "nothing has been read yet"
    requests = f"{its['requests']:,} request{'s' * (its['requests'] != 1)}" if its["requests"] else ""
    spared = " and ".join(part for part in (of_bytes(its["bytes"]) if its["bytes"] else "", requests) if part)
    said = f"saved {money}{spared}" if spared else "nothing saved yet"
    return (
        f"{said}{since}: {of_bytes(its['served_bytes'])} given to readers, {of_bytes(its['store_bytes'])} read from "
        f"the store{without}"
    )


def _is_counted(its: Mapping[str, Any]) -> bool:
    return any(its[key] for key in ("served_bytes", "store_bytes", "bytes", "requests"))


def cold(told: Mapping[str, Any]) -> str:
    """No node, no counters but those that stay: what is on the disk."""
    said = _saved(told["saved"])
    if told["entries"] and not _is_counted(told["saved"]):
        said = "what was read is not known: its node ended, or was killed, before it had written that down"
    holds = f"{many(told['entries'], 'shard')}, {of_bytes(told['used_bytes'])} on the disk; digests: {told['digests']}"
    at = plain_text.plain(told["cache_dir"])
    again = (
        f"\n`tfquiver up {plain_text.for_shell(told['cache_dir'])}` goes on with the cluster that ran there"
        if told.get("up_ran")
        else ""
    )
    return f"no node runs in {at}; it holds {holds}\n{said}{again}"
