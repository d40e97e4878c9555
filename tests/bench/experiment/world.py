"""A cluster before the slow store: coordinator and nodes as processes, one data set's caching as an experiment says."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tests.bench.experiment.jobs import JobSpec, options
from tests.bench.experiment.remote import Data, Remote
from tests.support import node_calls
from tests.support.cluster import Cluster, Server, wait_until
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, types_pb2

if TYPE_CHECKING:
    import tensorflow as tf

CALL_S = 30.0
# Data sets and chunks are small here: a node that held whole data sets in memory, or leased several chunks ahead, would
# not need its disk.
LEASE_AHEAD = "128KiB"
NODE_FLAGS = (f"--lease_ahead={LEASE_AHEAD}", "--hot=256KiB")
MODES = {
    "none": types_pb2.CACHE_MODE_NONE,
    "cooperative": types_pb2.CACHE_MODE_COOPERATIVE,
    "uniform": types_pb2.CACHE_MODE_UNIFORM,
    "lru": types_pb2.CACHE_MODE_LRU,
}


class Calls(ABC):
    """What an experiment asks of a cluster, or of one machine's node: subclasses say where."""

    service: str | None = None  # as in `tfquiver.dataset`

    @property
    @abstractmethod
    def coordinator(self) -> str:
        """Its address."""

    @abstractmethod
    def cache_dir(self, node: int = 0) -> Path: ...

    def explain(self, name: str) -> dict[str, Any]:
        """Raises RpcError while no job and no data set has that name."""
        with rpc.channel(self.coordinator) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            request = coordinator_pb2.ExplainRequest(name=name)
            told: dict[str, Any] = json.loads(stub.Explain(request, timeout=CALL_S, wait_for_ready=True).json)
        return told

    def register(self, data: Data) -> None:
        """Nobody says how it is cached."""
        with Registrar(self.coordinator, None, "", CALL_S) as registrar:
            registrar.digest(data.path)

    def set_cache(
        self,
        data: Data,
        mode: str,
        share: float = 0.0,
        rotation: str = "",
        chunks: int = 0,
        partitions: int = 0,
    ) -> types_pb2.CacheSetting:
        """Registers the data set and says how it is cached; what was fixed. `share` is of its disk bytes; 0: all the
        quotas."""
        self.register(data)
        setting = types_pb2.CacheSetting(
            mode=MODES[mode],
            allocation_bytes=round(share * data.disk_bytes),
            rotation=rotation,
            chunks=chunks,
            partitions=partitions,
        )
        request = coordinator_pb2.SetCacheRequest(digest_id=data.digest.digest_id, setting=setting)
        with rpc.channel(self.coordinator) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            fixed: types_pb2.CacheSetting = stub.SetCache(request, timeout=CALL_S, wait_for_ready=True)
        return fixed

    def cached(self, data: Data) -> types_pb2.CacheSetting:
        """How it is, now."""
        request = coordinator_pb2.GetCacheRequest(digest_id=data.digest.digest_id)
        with rpc.channel(self.coordinator) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            setting: types_pb2.CacheSetting = stub.GetCache(request, timeout=CALL_S, wait_for_ready=True)
        return setting

    def dataset(self, data: Data, spec: JobSpec, node: int = 0, homogeneous: bool = False) -> tf.data.Dataset:
        """What a job reads, in batches, through the node of its machine."""
        import tfquiver

        source = tfquiver.dataset(
            str(data.path),
            service=self.service,
            cache_dir=self.cache_dir(node),
            batch_size=spec.batch,
            order=tfquiver.Shuffled(shuffle_bytes=spec.shuffle_bytes, homogeneous=homogeneous),
            reading=tfquiver.Reading(
                readahead_bytes=spec.readahead_bytes,
                hold_back=spec.prefetch if spec.hold_back is None else spec.hold_back,
            ),
            job=spec.name,
        )
        return options(source, spec.prefetch)


class World(Calls):
    """Use as a context manager. `base` is an empty directory for all that the servers write."""

    def __init__(
        self,
        base: Path,
        remote: Remote,
        quota_bytes: int,
        nodes: int = 1,
        flags: Mapping[str, Sequence[str]] | None = None,
        workers: int = 0,
    ) -> None:
        """`quota_bytes` is each node's; `flags`: server name ("coordinator", "node") -> further flags; `workers`: of
        tf.data service, beside the first node."""
        self._base, self._remote, self._nodes = base, remote, nodes
        self._quota = str(quota_bytes)
        more = {"node": [*NODE_FLAGS, *(flags or {}).get("node", ())]}
        more["coordinator"] = list((flags or {}).get("coordinator", ()))
        self.cluster = Cluster(base, workers=workers, quota=self._quota, flags=more)
        self.nodes: list[Server] = []

    def __enter__(self) -> World:
        with ExitStack() as stack:
            stack.enter_context(self._remote.used())
            stack.enter_context(self.cluster)
            assert self.cluster.node is not None
            self.nodes = [self.cluster.node]
            for number in range(1, self._nodes):
                self.nodes.append(self._another(number))
            wait_until(lambda: len(node_calls.nodes(self.coordinator)) >= self._nodes, "all nodes are members")
            # Else the first shards are fetched by whoever is asked for them, not by their owners.
            wait_until(lambda: all(map(self._reaches_all, self.nodes)), "every node reaches all others")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def coordinator(self) -> str:
        return self.cluster.coordinator.address

    @property
    def service(self) -> str:  # type: ignore[override]
        return self.coordinator

    def cache_dir(self, node: int = 0) -> Path:
        return self.cluster.cache_dir if node == 0 else self._base / f"cache-{node}"

    def _reaches_all(self, node: Server) -> bool:
        reached = [peer for peer in node_calls.peers(node.ready["control"]) if not peer.error]
        return len(reached) >= self._nodes - 1

    def _another(self, number: int) -> Server:
        where = f"--coordinator={self.coordinator}"
        flags = [f"--cache_dir={self.cache_dir(number)}", f"--quota={self._quota}", where]
        return self.cluster.add("node", *flags, name=f"node-{number}").start()


class Served(World):
    """A cluster with tf.data service: what a job reads comes through a worker. Use as a context manager."""

    def __init__(self, base: Path, remote: Remote, quota_bytes: int) -> None:
        super().__init__(base, remote, quota_bytes, workers=1)

    def dataset(self, data: Data, spec: JobSpec, node: int = 0, homogeneous: bool = False) -> tf.data.Dataset:
        import tfquiver

        assert self.cluster.dispatcher is not None
        hold_back = spec.prefetch if spec.hold_back is None else spec.hold_back
        read = super().dataset(data, replace(spec, prefetch=0, hold_back=hold_back), node, homogeneous)
        return options(read.apply(tfquiver.distribute(self.cluster.dispatcher.address)), spec.prefetch)


class Embedded(Calls):
    """One machine: a node that is its own coordinator. Use as a context manager."""

    def __init__(self, base: Path, remote: Remote, quota_bytes: int, flags: Sequence[str] = ()) -> None:
        self._cache_dir, self._remote = base / "cache", remote
        arguments = [f"--cache_dir={self._cache_dir}", f"--quota={quota_bytes}", *NODE_FLAGS, *flags]
        self.node = Server("tfquiver.service.node.main", arguments, base / "node.log")

    def __enter__(self) -> Embedded:
        with self._remote.used():
            self.node.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.node.stop()

    @property
    def coordinator(self) -> str:
        return str(self.node.ready["coordinator"])

    def cache_dir(self, node: int = 0) -> Path:
        return self._cache_dir
