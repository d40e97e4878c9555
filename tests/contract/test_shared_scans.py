"""A node asks another one for a part of its scan: over a real connection, of a node that helps, and of what may answer
in its place. Whatever that does, the scan ends, and finds what one node finds."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import numbered
from tests.support.aio import on_loop
from tests.support.steps import steps
from tfquiver import errors, stores
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing import listing
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, node_pb2_grpc, types_pb2
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.roles_and_tokens.identity import Open
from tfquiver.roles_and_tokens.tokens import SharedToken
from tfquiver.scanning.file_scan import ScannedFile, scanned_of
from tfquiver.service.node.dataset_scans.asking import Asking
from tfquiver.service.node.dataset_scans.file_tables import FileTables
from tfquiver.service.node.dataset_scans.helping import Helping
from tfquiver.service.node.dataset_scans.scan import Scanner
from tfquiver.service.node.dataset_scans.shared_scans import SharedScans
from tfquiver.service.node.object_store.metered_store import Meter
from tfquiver.service.node.object_store.named_access import NamedAccess
from tfquiver.stores import ObjectStore

FILES = 12
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


@pytest.fixture
def files(tmp_path: Path) -> list[FileEntry]:
    numbered.write(tmp_path / "data", FILES, 60, 20_000)
    return listing.expand(str(tmp_path / "data" / "part-*"))


@pytest.fixture
def expected(files: list[FileEntry], tmp_path: Path) -> Iterator[Digest]:
    yield asyncio.run(Node(tmp_path, "alone").scan(files))


@pytest.mark.parametrize("before", [[], ["another"]], ids=["no task", "the task of one that is lost"])
@on_loop
async def test_what_a_node_that_helps_has_found_is_not_read_here_and_is_remembered(
    before: list[str], files: list[FileEntry], expected: Digest, tmp_path: Path
) -> None:
    other = Node(tmp_path, "peer")
    helping = Helping(other.scanner, NamedAccess())
    helping.ordered([task(files, node_id=node_id) for node_id in before])
    peer = Peer(helping.scan)
    host = Node(tmp_path, "host", peer.asked, token="secret")
    asyncio.get_running_loop().call_later(0.3, helping.ordered, [task(files)])  # its orders come later
    async with peer.served("secret") as info:
        digest = await host.scan(files, info)
    assert digest.digest_id == expected.digest_id
    assert other.placed and host.placed
    assert sorted(other.placed + host.placed) == sorted(bytes(one) for one in expected.hashes), "each shard once"
    assert not helping.busy
    await other.scanner.close()
    again = Node(tmp_path, "host")
    assert (await again.scan(files)).digest_id == expected.digest_id
    assert again.meter.store_bytes == 0, "also what the other has found is on this node's disk"


@on_loop
async def test_who_has_nothing_to_do_does_not_look_after_every_file(
    files: list[FileEntry], expected: Digest, tmp_path: Path
) -> None:
    """Each look goes through all members."""
    other, looks = Node(tmp_path, "peer"), 0
    helping = Helping(other.scanner, NamedAccess())
    helping.ordered([task(files)])
    async with Peer(helping.scan).served() as info:
        members = [types_pb2.NodeInfo() for _ in range(FILES)]
        for at, member in enumerate(members):
            member.CopyFrom(info)
            member.node_id = f"peer-{at}"

        def looked() -> list[types_pb2.NodeInfo]:
            nonlocal looks
            looks += 1
            return members

        host = Node(tmp_path, "host")
        shared = SharedScans("host", host.scanner, Asking("host", ""), looked, 1 << 20)
        digest = await shared.scan("t/1", "data", files, TERMS, lambda *_: None, host.store_for)
    assert digest.digest_id == expected.digest_id
    assert looks < 5 * FILES, "one for each call and for each who waits, and some as time passes"
    await host.scanner.close()
    await other.scanner.close()


async def nothing(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
    for reply in ():
        yield reply


async def unheard_of(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
    yield pb.ScanFilesReply(tables=[pb.FileTable(file=999, compression=types_pb2.COMPRESSION_NONE)])


async def too_short(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
    table = pb.FileTable(compression=types_pb2.COMPRESSION_NONE, hashes=bytes(32), lengths=[100], records=[1])
    yield pb.ScanFilesReply(tables=[table])


async def without_hashes(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
    size_bytes = request.files[0].size_bytes
    table = pb.FileTable(compression=types_pb2.COMPRESSION_NONE, lengths=[size_bytes], records=[60])
    yield pb.ScanFilesReply(tables=[table])


async def without_end(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
    while True:
        table = pb.FileTable(
            compression=types_pb2.COMPRESSION_NONE, hashes=bytes(32), lengths=[1], records=[1], more=True
        )
        yield pb.ScanFilesReply(tables=[table], done_bytes=1 << 62)


async def of_nothing(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
    table = pb.FileTable(compression=types_pb2.COMPRESSION_NONE, more=True)
    yield pb.ScanFilesReply(tables=[table] * 1_000_000)


async def in_no_form(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
    yield pb.ScanFilesReply(tables=[pb.FileTable()])


async def damaged(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
    raise errors.DataLossError("a record")
    yield


@pytest.mark.parametrize(
    "replies",
    [
        nothing,
        unheard_of,
        too_short,
        without_hashes,
        without_end,
        in_no_form,
        damaged,
        pytest.param(of_nothing, marks=pytest.mark.slow),  # a million of them
    ],
    ids=lambda replies: replies.__name__,
)
@on_loop
async def test_what_cannot_be_is_not_believed_and_not_asked_for_again(
    replies: Replies, files: list[FileEntry], expected: Digest, tmp_path: Path
) -> None:
    peer = Peer(replies)
    host = Node(tmp_path, "host", peer.asked)
    async with peer.served() as info, asyncio.timeout(20):  # sooner than by its patience
        assert (await host.scan(files, info)).digest_id == expected.digest_id
    assert len(peer.requests) <= 2, "each call's files, once"


@on_loop
async def test_what_is_said_of_progress_is_bounded(files: list[FileEntry], expected: Digest, tmp_path: Path) -> None:
    """It is told to people, and in messages that have room for so much."""

    async def boasting(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
        most = (1 << 64) - 1
        yield pb.ScanFilesReply(done_bytes=most, records=most, trouble="so \x1b[31mmuch" * 100_000)

    told, all_bytes = list[tuple[int, int, str]](), sum(file.size_bytes for file in files)
    peer = Peer(boasting)
    host = Node(tmp_path, "host", peer.asked)
    async with peer.served() as info:
        shared = SharedScans("host", host.scanner, Asking("host", ""), lambda: [info], 1 << 20)
        digest = await shared.scan("t/1", "data", files, TERMS, lambda *said: told.append(said), host.store_for)
    assert digest.digest_id == expected.digest_id
    assert any(trouble.startswith("so ") for _, _, trouble in told)
    assert all(max(done, records) <= 2 * all_bytes for done, records, _ in told)
    assert all(len(trouble) < 5000 and "\x1b" not in trouble for _, _, trouble in told)
    await host.scanner.close()


@on_loop
async def test_a_node_of_an_older_version_is_given_nothing(
    files: list[FileEntry], expected: Digest, tmp_path: Path
) -> None:
    server = rpc.new_server(Open())
    port = rpc.listen(server, "127.0.0.1:0")
    await server.start()
    info = types_pb2.NodeInfo(node_id="peer", control_address=f"127.0.0.1:{port}", quota_bytes=1)
    assert (await Node(tmp_path, "host").scan(files, info)).digest_id == expected.digest_id
    await server.stop(None)


@on_loop
async def test_who_is_late_is_waited_for_no_longer_than_the_files_are_worth(
    files: list[FileEntry], expected: Digest, tmp_path: Path
) -> None:
    left = asyncio.Event()

    async def silent(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
        try:
            while True:
                await asyncio.sleep(0.2)
                yield pb.ScanFilesReply()
        finally:
            left.set()

    peer = Peer(silent)
    host = Node(tmp_path, "host", peer.asked)
    async with peer.served() as info, asyncio.timeout(20):
        assert (await host.scan(files, info, patience_s=0.1)).digest_id == expected.digest_id
        await left.wait()


@on_loop
async def test_a_node_that_is_gone_is_asked_again_when_it_is_back(
    files: list[FileEntry], expected: Digest, tmp_path: Path
) -> None:
    async def gone(request: pb.ScanFilesRequest) -> AsyncIterator[pb.ScanFilesReply]:
        raise errors.UnavailableError("it is stopping")
        yield

    peer = Peer(gone)
    host = Node(tmp_path, "host", peer.asked)
    async with peer.served() as info, asyncio.timeout(20):
        assert (await host.scan(files, info)).digest_id == expected.digest_id


@pytest.mark.parametrize(
    ("when", "error"),
    [("before", errors.DataLossError), ("after", errors.StaleDigestError)],
    ids=["damaged", "changed"],
)
@on_loop
async def test_what_is_wrong_with_a_file_is_the_scans_error_and_named(
    when: str, error: type[errors.TfquiverError], files: list[FileEntry], tmp_path: Path
) -> None:
    """Damaged before it was listed; another one since."""
    bad = Path(files[5].uri[7:])
    data = bytearray(bad.read_bytes())
    data[30_000] ^= 1
    bad.write_bytes(data)
    if when == "before":
        files = listing.expand(str(tmp_path / "data" / "part-*"))
    other = Node(tmp_path, "peer")
    helping = Helping(other.scanner, NamedAccess())
    helping.ordered([task(files)])
    peer = Peer(helping.scan)
    async with peer.served() as info:
        with pytest.raises(error, match=bad.name):
            await Node(tmp_path, "host", peer.asked).scan(files, info)
    await other.scanner.close()


@pytest.mark.parametrize(
    ("ordered", "asked", "error", "says"),
    [
        ({}, {"task_id": "t/2"}, errors.UnavailableError, "task_id"),
        ({"node_id": "another"}, {}, errors.UnavailableError, "'t/1' of node 'host'"),
        ({"sources": ["/elsewhere/part-*"]}, {}, errors.InvalidArgumentError, r"files\[0\].uri"),
        *(
            (
                {"sources": [source]},
                {"files": [types_pb2.FileInfo(uri=uri, generation="1")]},
                errors.InvalidArgumentError,
                r"files\[0\].uri",
            )
            for source, uri in [("SAME/*", "SAME-2/part-1"), ("SAME", "SAME-2/part-1"), ("SAME/part-1", "SAME/part-10")]
        ),
        ({"format": types_pb2.DATASET_FORMAT_BYTES}, {}, errors.StaleDigestError, "terms"),
        ({}, {"files": []}, errors.InvalidArgumentError, "files"),
        (
            {},
            {"files": [types_pb2.FileInfo(uri="SAME/part-1", size_bytes=1 << 63, generation="1")] * 2},
            errors.InvalidArgumentError,
            "18446744073709551616 bytes",
        ),
        (
            {},
            {"files": [types_pb2.FileInfo(uri="gs://b/x", generation="1")] * 1025},
            errors.InvalidArgumentError,
            "files",
        ),
        ({}, {"files": [types_pb2.FileInfo(uri="SAME/../part-1", generation="1")]}, errors.InvalidArgumentError, "uri"),
        ({}, {"files": [types_pb2.FileInfo(uri="SAME/part-1")]}, errors.InvalidArgumentError, "generation"),
    ],
)
@on_loop
async def test_a_node_helps_with_what_its_own_orders_say(
    ordered: dict[str, Any],
    asked: dict[str, Any],
    error: type[errors.TfquiverError],
    says: str,
    files: list[FileEntry],
    tmp_path: Path,
) -> None:
    other = Node(tmp_path, "peer")
    helping = Helping(other.scanner, NamedAccess(), orders_s=0.2)
    here = str(Path(files[0].uri.removeprefix("file://")).parent)
    if "sources" in ordered:
        ordered = ordered | {"sources": [source.replace("SAME", here) for source in ordered["sources"]]}
    helping.ordered([task(files, **ordered)])
    one = types_pb2.FileInfo(uri=files[0].uri, size_bytes=files[0].size_bytes, generation=files[0].generation)
    request = pb.ScanFilesRequest(task_id="t/1", node_id="host", terms=TERMS.message(), files=[one])
    for field, value in asked.items():
        request.ClearField(field)  # type: ignore[arg-type]
        request.MergeFrom(pb.ScanFilesRequest(**{field: value}))
    for file in request.files:
        file.uri = file.uri.replace("SAME", f"file://{here}")
    with pytest.raises(errors.TfquiverError, match=says) as raised:
        async for _ in helping.scan(request):
            pass
    assert raised.value.code == error.code
    assert not helping.busy
    await other.scanner.close()


@on_loop
async def test_a_source_behind_a_symbolic_link_is_what_the_disk_says(files: list[FileEntry], tmp_path: Path) -> None:
    """`..` behind it is above where it leads, as for who has listed the files."""
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "link").symlink_to(tmp_path / "data")
    source = str(tmp_path / "away" / "link" / ".." / "data" / "part-*")
    listed = listing.expand(source)
    assert [one.uri for one in listed] == [one.uri for one in files]
    other = Node(tmp_path, "peer")
    helping = Helping(other.scanner, NamedAccess())
    helping.ordered([task(files, sources=[source])])
    asked = [types_pb2.FileInfo(uri=one.uri, size_bytes=one.size_bytes, generation=one.generation) for one in listed]
    request = pb.ScanFilesRequest(task_id="t/1", node_id="host", terms=TERMS.message(), files=asked)
    found = {table.file async for reply in helping.scan(request) for table in reply.tables}
    assert found == set(range(FILES))
    await other.scanner.close()


def test_known_files_are_not_gone_through_on_the_loop(files: list[FileEntry], expected: Digest, tmp_path: Path) -> None:
    """Of a million that took seconds, in which the node served nobody. Only this thread's steps are counted."""
    found = []
    rows = scanned_of(expected, 0).rows
    for count in (2, 2000):
        many = [dataclasses.replace(files[0], uri=f"{files[0].uri}-{number}") for number in range(count)]
        node = Node(tmp_path, f"known {count}")
        for one in many:
            node.scanner.learn(one, TERMS, ScannedFile(dataclasses.replace(one, compression="none"), rows))
        found.append(steps(lambda node=node, many=many: asyncio.run(node.scan(many))))  # type: ignore[misc]
    assert found[1] - found[0] < 2000, "not a step for each"
