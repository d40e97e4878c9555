"""What a running cluster tells of the jobs that read, of their data sets, and of the room that there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.disk_space_of_shards.node_room import most_bytes
from tfquiver.grpc_plumbing import pages, rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2, node_pb2_grpc, types_pb2
from tfquiver.service.sim.workloads_and_recordings.recording import WAITS
from tfquiver.service.sim.workloads_and_recordings.seen import Dataset, Seen

_NODES_AT_ONCE = 256  # each takes a descriptor
_MOST_SESSIONS = 20_000  # as many as a coordinator keeps


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: tuple[types_pb2.NodeInfo, ...]
    seen: tuple[Seen, ...]

    @property
    def cache_bytes(self) -> int:
        return sum(map(most_bytes, self.nodes))

    @property
    def waits(self) -> bool:
        """Whether a job waits for data half of its time, or more."""
        return any(one.reads and one.stall_share >= WAITS for one in self.seen)

    @property
    def most_waiting(self) -> float:
        """Of its time: the job that waits for data the longest."""
        return max((one.stall_share for one in self.seen if one.reads), default=0.0)


class Asking:
    """Ask it again and again: of data sets that it knows it does not ask twice."""

    def __init__(self, stub: Any, token: str, whom: str) -> None:
        self._stub, self._token, self._whom = stub, token, whom
        self._datasets: dict[bytes, types_pb2.Dataset] = {}
        self._seen: set[bytes] = set()  # digest ids, also of those that are not the caller's to see

    def ask(self, within_s: float) -> Cluster:
        """Those jobs that read, or did within so long, of which the caller may know. Raises TfquiverError naming whom
        it asked."""
        request = coordinator_pb2.ListSessionsRequest(within_ms=int(within_s * 1000), limit=_MOST_SESSIONS)
        sessions = pages.sessions(lambda page: self._call(self._stub.ListSessions, page), request)
        if not {info.digest_id for info in sessions} <= self._seen:
            listed = self._call(self._stub.ListDatasets, coordinator_pb2.ListDatasetsRequest()).datasets
            self._datasets = {one.digest_id: one for one in listed}
            self._seen = {info.digest_id for info in sessions} | self._datasets.keys()
        nodes = self._call(self._stub.ListNodes, coordinator_pb2.ListNodesRequest()).nodes
        return Cluster(tuple(nodes), tuple(merged(sessions, self._datasets)))

    def _call(self, method: Any, request: Any) -> Any:
        return calls.ask(method, request, self._token, self._whom)


def store_bytes(nodes: Sequence[types_pb2.NodeInfo], token: str) -> dict[str, int] | None:
    """What each has read from the store since it began, by its id; None: not all have answered."""
    told = dict[str, int]()
    for at in range(0, len(nodes), _NODES_AT_ONCE):
        some = nodes[at : at + _NODES_AT_ONCE]
        with ExitStack() as stack:
            questions: list[calls.Asked] = []
            for node in some:
                stub: Any = node_pb2_grpc.NodeStub(stack.enter_context(rpc.channel(node.control_address)))
                questions.append((stub.Status, node_pb2.StatusRequest(), f"node {node.node_id}"))
            for node, reply in zip(some, calls.ask_all(questions, token), strict=True):
                if isinstance(calls.from_node(node.node_id, reply, ""), errors.TfquiverError):
                    return None
                told[node.node_id] = reply.store_bytes
    return told


def merged(sessions: Iterable[Any], datasets: Mapping[bytes, types_pb2.Dataset]) -> list[Seen]:
    """One of each job and data set. Data sets that are gone, or not the caller's to see, are left out."""
    by_job: dict[tuple[str, bytes], list[Any]] = {}
    for info in sessions:
        if info.digest_id in datasets:
            by_job.setdefault((info.job or info.session_key, info.digest_id), []).append(info)
    return [_seen(job, datasets[digest_id], infos) for (job, digest_id), infos in by_job.items()]


def _seen(job: str, dataset: types_pb2.Dataset, infos: list[Any]) -> Seen:
    ideals = [info.ideal_bytes_per_s for info in infos if info.HasField("ideal_bytes_per_s")]
    return Seen(
        job,
        Dataset(
            dataset.digest_id.hex(), dataset.name, dataset.size_bytes, max(info.disk_bytes for info in infos),
            dataset.shards, dataset.records,
        ),
        any(info.readers for info in infos),
        min(info.idle_ms for info in infos) / 1000,
        max(info.read_bytes for info in infos),
        max(info.missed_bytes for info in infos),
        float(ideals[0]) if ideals else None,
        max(info.stall_share for info in infos),
        max(info.accelerators for info in infos),
        sum(info.window_bytes for info in infos),
    )  # fmt: skip
