"""The storing half of a node, in this process: disk, hot set, fetcher, source, data port, peers. Real files and TCP."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support import records
from tfquiver import stores
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing import listing
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import Open
from tfquiver.roles_and_tokens.tokens import SharedToken
from tfquiver.scanning import digest_build
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.connections_between_nodes.data_port import DataPort
from tfquiver.service.node.connections_between_nodes.peers import PeerClient
from tfquiver.service.node.dataset_scans.file_tables import FileTables
from tfquiver.service.node.dataset_scans.scan import Scanner, ScanReport
from tfquiver.service.node.disk import codec
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KnownPlaces
from tfquiver.service.node.placing_at_owners_and_writing.placer import Placer
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Compute, Fetcher
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.stores import ObjectStore

Members = list[types_pb2.NodeInfo]


class StoreNode:
    """`members` is shared by the nodes of a test: each adds itself when its data port listens."""

    def __init__(
        self,
        root: Path,
        digests: Sequence[Digest] = (),
        *,
        node_id: str = "node-a",
        members: Members | None = None,
        quota_bytes: int = 1 << 30,
        hot_bytes: int = 64 << 20,
        mode: codec.Mode = "auto",
        token: str = "",
        deadline_s: float = 10.0,
        limit_bytes_per_s: float = 0,
        store_for: Callable[[str], ObjectStore] = stores.for_uri,
        labels: Mapping[str, str] | None = None,
        compute: Compute | None = None,
        stays: Callable[[bytes], Awaitable[bool]] | None = None,
    ) -> None:
        self.node_id, self.token, self.labels = node_id, token, dict(labels or {})
        self.members = members if members is not None else []
        self.digests = {digest.digest_id: digest for digest in digests}
        self.disk = DiskCache(root, quota_bytes, mode=mode)
        self.peers = PeerClient(node_id, lambda: tuple(self.members), token, accounts=self.disk.accounts)
        self.meter = Meter(limit_bytes_per_s)
        self.known = KnownPlaces(node_id, lambda: tuple(self.members))
        self.placer = placer = Placer(node_id, self.disk, lambda: tuple(self.members), self.peers.put, self.known)
        computes: dict[str, Any] = {"compute": compute} if compute else {}
        self.fetcher = Fetcher(
            self.meter, placer.place, deadline_s=deadline_s, store_for=lambda uri, _: store_for(uri), **computes
        )
        self.store_for = store_for
        self.tables = FileTables(root / "files.db")
        self.scanner = Scanner(self.meter, placer.place, self.tables, read_deadline_s=deadline_s)
        self.source = ShardSource(node_id, self.disk, HotSet(hot_bytes), self.fetcher, self.peers, placer, self.known)
        self.port = DataPort(
            node_id,
            self.source,
            self.disk,
            self._digest,
            SharedToken(token) if token else Open(),
            own_token=token,
            stays=stays,
            stall_s=2.0,
        )
        self.address = ""

    async def scan(
        self, files: Sequence[FileEntry], policy: CutPolicy, progress: ScanReport = lambda *_: None
    ) -> Digest:
        return await self.scanner.scan("data", files, ListingTerms(policy), progress, self.store_for)

    async def __aenter__(self) -> StoreNode:
        self.address = f"127.0.0.1:{await self.port.start('127.0.0.1', 0)}"
        self.members.append(
            types_pb2.NodeInfo(
                node_id=self.node_id,
                data_address=self.address,
                quota_bytes=self.disk.quota_bytes,
                labels=self.labels,
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.port.stop()
        await self.peers.close()
        await self.scanner.close()
        await self.source.close()
        self.placer.here.close()

    async def _digest(self, digest_id: bytes) -> Digest:
        return self.digests[digest_id]


@asynccontextmanager
async def two_nodes(
    root: Path, *digests: Digest, of_a: dict[str, Any] | None = None, of_b: dict[str, Any] | None = None
) -> AsyncIterator[tuple[StoreNode, StoreNode]]:
    """`a` and `b`, which are all the members there are; `of_a`, `of_b`: what else is said of one of them."""
    members: Members = []
    async with (
        StoreNode(root / "a", digests, node_id="a", members=members, **(of_a or {})) as a,
        StoreNode(root / "b", digests, node_id="b", members=members, **(of_b or {})) as b,
    ):
        yield a, b


def raw_of(ready: ReadyShard) -> bytes:
    """The shard's bytes; closes it."""
    try:
        return os.pread(ready.fd, ready.length_bytes, ready.offset)
    finally:
        ready.close()


def is_shard(ready: ReadyShard, digest: Digest, index: int) -> bool:
    """Whether these are that shard's bytes; closes it."""
    wanted: bytes = digest.hashes[index].tobytes()
    return hashlib.sha256(raw_of(ready)).digest() == wanted


def write_files(directory: Path, files: int = 3, records_each: int = 300) -> Path:
    """Files of which half does not compress; returns the pattern that matches them."""
    rng = random.Random(7)
    directory.mkdir(exist_ok=True)
    for number in range(files):
        noise = [rng.randbytes(rng.randrange(1500)) for _ in range(records_each // 2)]
        text = [f"record {i} of file {number} ".encode() * 30 for i in range(records_each // 2)]
        (directory / f"{number}.tfrecord").write_bytes(records.stream(noise + text))
    return directory / "*.tfrecord"


def build(pattern: Path, policy: CutPolicy = CutPolicy(4096, 16384, 65536), name: str = "data") -> Digest:  # noqa: B008
    return digest_build.build(listing.expand(str(pattern)), policy, name=name)
