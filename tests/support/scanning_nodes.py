"""Nodes that scan, and one that answers a request for a part of a scan as a test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import numbered
from tfquiver import stores
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing import listing
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, node_pb2_grpc, types_pb2
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.roles_and_tokens.identity import Open
from tfquiver.roles_and_tokens.tokens import SharedToken
from tfquiver.service.node.dataset_scans.asking import Asking
from tfquiver.service.node.dataset_scans.file_tables import FileTables
from tfquiver.service.node.dataset_scans.scan import Scanner
from tfquiver.service.node.dataset_scans.shared_scans import SharedScans
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.stores import ObjectStore

TERMS = ListingTerms()
Replies = Callable[[pb.ScanFilesRequest], AsyncIterator[pb.ScanFilesReply]]


class Peer(node_pb2_grpc.NodeServicer):
    """Answers with `replies`."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self.requests: list[pb.ScanFilesRequest] = []
        self.asked = threading.Event()

    @rpc.handled_stream
    async def ScanFiles(self, request: pb.ScanFilesRequest, context: Any) -> AsyncIterator[pb.ScanFilesReply]:
        self.requests.append(request)
        self.asked.set()
        async for reply in self._replies(request):
            yield reply

    @asynccontextmanager
    async def served(self, token: str = "") -> AsyncIterator[types_pb2.NodeInfo]:
        server = rpc.new_server(SharedToken(token) if token else Open())
        node_pb2_grpc.add_NodeServicer_to_server(self, server)
        port = rpc.listen(server, "127.0.0.1:0")
        await server.start()
        try:
            yield types_pb2.NodeInfo(node_id="peer", control_address=f"127.0.0.1:{port}", quota_bytes=1)
        finally:
            await server.stop(None)


class Node:
    """One that scans. Its store gives nothing until `first` has been asked."""

    def __init__(self, root: Path, name: str, first: threading.Event | None = None, token: str = "") -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.placed: list[bytes] = []
        self.meter = Meter()
        tables = FileTables(root / f"{name}.db")
        self.scanner = Scanner(self.meter, lambda shard: self.placed.append(shard.hash), tables)
        self._name, self._first, self._token = name, first, token

    def store_for(self, uri: str) -> ObjectStore:
        assert self._first is None or self._first.wait(20)
        return stores.for_uri(uri)

    async def scan(self, files: list[FileEntry], *peers: types_pb2.NodeInfo, patience_s: float = 30.0) -> Digest:
        shared = SharedScans(
            self._name, self.scanner, Asking(self._name, self._token), lambda: peers, 1 << 20, patience_s
        )
        try:
            return await shared.scan("t/1", "data", files, TERMS, lambda *_: None, self.store_for)
        finally:
            await self.scanner.close()


def task(files: list[FileEntry], **changed: Any) -> named_datasets_pb2.DatasetTask:
    scan: dict[str, Any] = {
        "node_id": "host",
        "name": "data",
        "sources": [str(Path(files[0].uri[7:]).parent / "part-*")],
    }
    return named_datasets_pb2.DatasetTask(task_id="t/1", scan=named_datasets_pb2.ScanTask(**{**scan, **changed}))


def fixtures(count: int) -> tuple[Any, Any]:
    """`files, expected = fixtures(...)`: so many files, and what one node that scans them alone finds."""

    @pytest.fixture(name="files")
    def files(tmp_path: Path) -> list[FileEntry]:
        numbered.write(tmp_path / "data", count, 60, 20_000)
        return listing.expand(str(tmp_path / "data" / "part-*"))

    @pytest.fixture(name="expected")
    def expected(files: list[FileEntry], tmp_path: Path) -> Digest:
        return asyncio.run(Node(tmp_path, "alone").scan(files))

    return files, expected
