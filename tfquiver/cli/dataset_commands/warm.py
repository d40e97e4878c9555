"""`tfquiver warm`: reads a data set into the cache before anybody trains on it."""

from __future__ import annotations

import argparse
import functools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import grpc
from rich.progress import Progress, TaskID

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import waiting
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.cluster_address import service_name
from tfquiver.cluster_address.service_name import directory_to_use
from tfquiver.data_sources_found_and_registered import store_access
from tfquiver.data_sources_found_and_registered.listed import default_name, listed
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests import formats
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.node_daemon_and_notes_in_directories import daemon, endpoints
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, node_pb2, node_pb2_grpc, types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes
from tfquiver.stores.credentials.resolved import Access, place_of

ALL_RESIDENT, NOT_ALL = 0, 3
_CONNECT_S = 30.0
_LOOK_AGAIN_S = 0.3
_ABOUT = """Reads a data set into the cache, so that the first epoch is a warm one. Files that nobody has used before
are scanned (and cached on the way), as tfquiver.dataset would; then each node reads what it is to keep and does not
have. Nothing is fetched that would not be kept. Which cache is meant is said as --service: with a cache directory in
which no node runs, one is started for as long as it takes. Exit code: 0 when all of it is resident, 3 when it is not
(no room, or shards that cannot be read), 1 after an error."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("warm", description=_ABOUT)
    parser.add_argument("pattern", nargs="+", metavar="URI", help="path, glob or URI, as for tfquiver.dataset: "
                        "'data/train-*', 'gs://bucket/train-*'")  # fmt: skip
    parser.add_argument("--name", default="", help="of a data set that nobody has used before, for people; default: "
                        "taken from the files")  # fmt: skip
    calls.add_format(parser)
    calls.add_where(parser)
    parser.set_defaults(run=_run)


class _NoLibrary:
    """There is no op in this process to be told where the node is."""

    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...


@dataclass(frozen=True, slots=True)
class Cluster:
    coordinator: str
    control: str | None  # of this machine's node
    client_id: str  # by which that node knows with what credentials to read
    reads: Callable[[bytes], None]  # told the data set that is read with them


def _run(arguments: argparse.Namespace) -> int:
    last = arguments.pattern[-1]
    if arguments.pattern[1:] and service_name.is_where(last):
        raise errors.InvalidArgumentError(
            f"{plain_text.plain(last)} names a cluster, and no files: give it as --service={plain_text.plain(last)}"
        )
    where, token = calls.where(arguments), calls.token(arguments)
    files, accesses = listed(arguments.pattern, of_records=arguments.format == formats.TFRECORD)
    with ExitStack() as stack:
        bar = stack.enter_context(waiting.bar())
        there = cluster(where, token, accesses, stack)
        registrar = stack.enter_context(Registrar(there.coordinator, there.control, token, _CONNECT_S))
        scan = bar.add_task("scanning", total=None, visible=False)
        dataset = registrar.files(
            files,
            ListingTerms(CutPolicy(format=arguments.format), place_of(accesses)),
            arguments.name or default_name(arguments.pattern),
            lambda done, total: bar.update(scan, completed=done, total=total, visible=True),
            there.client_id,
        )
        bar.update(scan, visible=False)
        there.reads(dataset.digest_id)
        told = _warm(there.coordinator, dataset, token, bar)
    if arguments.name and arguments.name != dataset.name:
        given, its = plain_text.plain(arguments.name), plain_text.plain(dataset.name)
        print(f"these files were registered before, as {its}; --name={given} names what nobody has used before")
    return _say(dataset, told)


def cluster(where: str, token: str, accesses: Sequence[Access], stack: ExitStack) -> Cluster:
    """With a cache directory in which no node runs one is started, until `stack` is left or it has nothing to do."""
    directory = directory_to_use(where)
    if directory is None:
        return Cluster(where, None, "", lambda digest_id: None)
    directory = directory.absolute()
    name = endpoints.name_of(directory)
    endpoint = endpoints.acquire(name, functools.partial(daemon.find_or_start, directory), _NoLibrary(), directory)
    stack.callback(endpoints.close_all)
    if not accesses:
        return Cluster(endpoint.coordinator, endpoint.control, "", lambda digest_id: None)
    reaching = store_access.of(name, token)
    reaching.use(accesses, endpoint)
    return Cluster(endpoint.coordinator, endpoint.control, reaching.client_id, reaching.reads)


def _warm(coordinator: str, dataset: types_pb2.Dataset, token: str, bar: Progress) -> dict[str, node_pb2.WarmProgress]:
    """How far each node got, by its name; all at the same time. Raises the first node's typed error."""
    keeping = _keeping(coordinator, token)
    reading = _Reading(bar, dataset.size_bytes)
    failed: list[errors.TfquiverError] = []

    def one(node: types_pb2.NodeInfo, channel: grpc.Channel) -> None:
        whom = f"node {node.node_id} at {node.control_address}"
        try:
            request = node_pb2.WarmRequest(digest_id=dataset.digest_id)
            for progress in node_pb2_grpc.NodeStub(channel).Warm(request, metadata=tuple(rpc.metadata(token))):
                reading.told(whom, progress)
        except grpc.RpcError as error:
            failed.append(calls.typed(error, whom))

    with ExitStack() as stack:
        channels = [stack.enter_context(rpc.channel(node.control_address)) for node in keeping]
        asking = [threading.Thread(target=one, args=pair, daemon=True) for pair in zip(keeping, channels, strict=True)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    if failed:
        raise failed[0]
    return reading.last


def _keeping(coordinator: str, token: str) -> list[types_pb2.NodeInfo]:
    """The nodes with a quota. A coordinator that has just started is given time for them to come back."""
    with rpc.channel(coordinator) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        while True:
            told = calls.ask(stub.ListNodes, coordinator_pb2.ListNodesRequest(), token, f"coordinator {coordinator}")
            if keeping := [node for node in told.nodes if node.quota_bytes]:
                return keeping
            if not words.just_started(told.up_ms):
                raise errors.UnavailableError(f"coordinator {coordinator}: no node there keeps anything (--quota)")
            time.sleep(_LOOK_AGAIN_S)


class _Reading:
    """What nodes have said, as one bar. Thread-safe."""

    def __init__(self, bar: Progress, least_bytes: int) -> None:
        """`least_bytes`: of the whole data set; where nodes are missing, the others keep less."""
        self.last: dict[str, node_pb2.WarmProgress] = {}
        self._bar, self._least_bytes, self._lock = bar, least_bytes, threading.Lock()
        self._task: TaskID | None = None

    def told(self, whom: str, progress: node_pb2.WarmProgress) -> None:
        with self._lock:
            self.last[whom] = progress
            total = max(sum(its.total_bytes for its in self.last.values()), self._least_bytes)
            resident = sum(its.resident_bytes for its in self.last.values())
            if self._task is None:  # what is there already counts for no speed
                self._task = self._bar.add_task("reading", total=total, completed=resident)
            self._bar.update(self._task, completed=resident, total=total)


def resident_text(resident: int, total: int) -> str:
    """Of bytes, and what it means where that is not all of them."""
    said = f"{of_bytes(resident)} of {of_bytes(total)} are resident"
    missing = f"; {of_bytes(total - resident)} are not: whoever reads them reads the object store"
    return said + missing * (resident < total)


def _say(dataset: types_pb2.Dataset, told: dict[str, node_pb2.WarmProgress]) -> int:
    asked = sum(its.total_bytes for its in told.values())
    total = max(asked, dataset.size_bytes)
    resident = sum(its.resident_bytes for its in told.values())
    print(f"{plain_text.plain(dataset.name)}: {resident_text(resident, total)}")
    if not dataset.size_bytes:
        print(f"  {formats.NOTHING}")
    for whom, its in told.items():
        if lacking := its.shards - its.resident_shards:
            why = plain_text.plain(its.trouble) or "it does not say why"
            print(f"  {plain_text.plain(whom)} lacks {lacking} of {many(its.shards, 'shard')}: {why}")
    if asked < total:
        print(f"  {of_bytes(total - asked)} are for nodes that are not there: see tfquiver status, and ask again")
    return ALL_RESIDENT if resident == total else NOT_ALL
