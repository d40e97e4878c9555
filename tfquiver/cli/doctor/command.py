"""`tfquiver doctor`: the looks that were asked for, a line for each, the exit code by the worst."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.cli.doctor import as_status_says, cluster, disk, machine, shared_disk, store
from tfquiver.cli.doctor.doing import Doing
from tfquiver.cli.doctor.finding import Finding, Verdict, fail, skip, warn
from tfquiver.cli.status_asked_watched_explained import up_away
from tfquiver.cli.status_tables_and_warnings import fitting
from tfquiver.cluster_address import running, service_name
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.node_daemon_and_notes_in_directories import whose_files
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint
from tfquiver.plain_text import of_error, plain
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc

_ABOUT = """Looks at this machine (TensorFlow and the op, descriptors, memory), and at what is named: a cluster
(coordinator, nodes and the ways between them, clocks, versions, token), a cache directory (disk, room, speed, wear), an
object store. Where no cluster is named, at those of yours that run on this machine. Each line is ok, warn or fail, with
what to do, or skip: it was not tried, and why. Exit code 1 when anything fails."""
_STARTS = (
    "nothing: tfquiver.dataset(..., cache_dir=) starts one for as long as it is used, `tfquiver up` and tfquiver-node "
    "one that stays"
)
_NO_CLUSTER = (
    "to look at one: `tfquiver doctor WHERE`, a cache directory or a coordinator's host:port; to begin: "
    "tfquiver.dataset(..., cache_dir=), or `tfquiver up DIRECTORY`"
)
_STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red", Verdict.SKIP: "dim"}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("doctor", description=_ABOUT)
    calls.add_where(parser, positional=True)
    parser.add_argument(
        "--store", nargs="+", default=[], metavar="GLOB",
        help="list and read this, as 'gs://bucket/train-*'; or files, as the shell makes them of a pattern",
    )  # fmt: skip
    parser.add_argument("--no_op", action="store_true", help="do not load TensorFlow and the op, which takes seconds")
    parser.add_argument("--json", action="store_true", help="a JSON list instead of lines")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    objects = _of_store(arguments)
    where, token = _where(arguments), calls.token(arguments)
    with Doing() as doing:
        found = _findings(where, token, objects, not arguments.no_op, doing)
        if arguments.json:
            about = list(found)
            print(json.dumps([asdict(one) | ({"cluster": its} if where[1:] and its else {}) for its, one in about]))
            seen = [one for _, one in about]
        else:
            seen = _told(found, headings=len(where) > 1)
    return int(any(one.verdict is Verdict.FAIL for one in seen))


def _of_store(arguments: argparse.Namespace) -> list[str]:
    """What --store names. A cluster behind it is one nevertheless: `doctor --store GLOB WHERE`."""
    objects = list(arguments.store)
    last = objects[-1] if objects[1:] else ""
    if last and not calls.given(arguments) and (addresses.is_address(last) or Path(last).expanduser().is_dir()):
        arguments.where = objects.pop()
    return objects


def _where(arguments: argparse.Namespace) -> list[str]:
    """Which clusters are meant; a machine is looked at where none is named and none runs, too."""
    named = service_name.chosen(calls.given(arguments))
    return [named] if named else running.found()


def _told(found: Iterable[tuple[str, Finding]], headings: bool) -> list[Finding]:
    """Each as soon as it is known: some take their time. `headings`: of which cluster."""
    console, seen, last = calls.console(), list[Finding](), ""
    for where, one in found:
        seen.append(one)
        if headings and where != last:
            console.print(f"== {plain(where, 300) or 'seen from this machine'}", soft_wrap=True)
        last = where
        begins = f"{one.verdict.value:<5}"
        for line in fitting.wrapped(f"{one.what}: {one.why}", console.width, begins, " " * len(begins)):
            style = _STYLES[one.verdict] if line.startswith(begins) else ""
            console.print(Text(line[: len(begins)], style=style) + Text(line[len(begins) :]), soft_wrap=True)
        if one.do:
            for line in fitting.wrapped(one.do, console.width, "      -> ", " " * 9):
                console.print(Text(line), soft_wrap=True)
    counts = {verdict: sum(one.verdict is verdict for one in seen) for verdict in Verdict}
    skipped = f"{counts[Verdict.SKIP]} not looked at, " if counts[Verdict.SKIP] else ""
    said = f"{counts[Verdict.OK]} ok, {counts[Verdict.WARN]} to know of, {skipped}{counts[Verdict.FAIL]} wrong"
    console.print(Text(said))
    return seen


def _findings(
    named: list[str], token: str, objects: list[str], with_op: bool, doing: Doing
) -> Iterator[tuple[str, Finding]]:
    """With the cluster that each is of; "": of none. What takes longest comes last, and by itself: a disk's speed is
    not measured while something else reads from it."""
    doing.looks_at("this machine")
    for one in machine.findings():
        yield "", one
    if not named and not objects:
        yield "", skip("cluster", "none is named, and none runs here under your name", _NO_CLUSTER)
    for where in named:
        doing.looks_at(where)
        for one in _of_cluster(where, token):
            yield where, one
    if objects:
        doing.looks_at(f"the store of {objects[0]}")
        for one in store.findings(objects):
            yield "", one
    if with_op:
        doing.looks_at("TensorFlow and the op")
        yield "", machine.op()


def _of_cluster(where: str, token: str) -> Iterator[Finding]:
    directory = service_name.directory_of(where)
    if directory is None:
        yield from _of_servers(where, None, token)
        return
    if trouble := disk.missing(directory):  # all else that fails there fails for that
        yield trouble
        return
    with ThreadPoolExecutor(1) as pool:  # who does not answer is waited for at the same time as others
        servers = pool.submit(lambda: list(_of_servers(where, directory, token)))
        quota = _quota(directory, token)
        found = servers.result()  # a disk's speed is not measured meanwhile
    yield from disk.findings(directory, *quota)
    if shared := shared_disk.finding(directory, token):
        yield shared
    yield from found


def _of_servers(where: str, directory: Path | None, token: str) -> Iterator[Finding]:
    try:
        address = coordinator_address(where)
    except errors.TfquiverError as error:
        if directory is not None and isinstance(error, errors.NotFoundError):  # the directory is there
            shown, files = plain(directory, 300), whose_files.others(directory)
            if files:
                do = "where you meant a cache: name what cache_dir= or `tfquiver up` was given; else give one its own"
                yield warn("cluster", f"no node runs in {shown}: it is {files}", do)
            else:
                do = up_away.again(directory) or _STARTS
                yield skip("cluster", f"no node runs in {shown} now, so none is asked", do)
        else:
            is_anothers = isinstance(error, errors.PermissionError_)
            do = "run doctor as that user, or" if is_anothers else "start a node there, or"
            yield fail("cluster", of_error(error), f"{do} name a coordinator's host:port")
    else:
        answers = False
        again = up_away.again(directory, address) if directory is not None else ""
        for one in cluster.findings(address, token, up_away.collect(where), again):
            answers |= one.verdict is Verdict.OK and one.what == f"coordinator {address}"
            yield one
        if answers:  # else it would be waited for once more
            yield from as_status_says.findings(where, token)


def _quota(directory: Path, token: str) -> tuple[int, int]:
    """(quota, used) of the node that runs there, in bytes; zeros: none answers."""
    try:
        control = read_endpoint(directory).local_control
        with rpc.channel(control) as channel:
            stub: Any = node_pb2_grpc.NodeStub(channel)
            node = calls.ask(stub.Status, node_pb2.StatusRequest(), token, f"node at {control}").node
    except errors.TfquiverError:
        return 0, 0
    return node.quota_bytes, node.used_bytes
