"""What another node says of its part of a scan, and cannot be: the scan does not believe it, ends all the same, and
finds what one node finds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import scanning_nodes
from tests.support.aio import on_loop
from tests.support.scanning_nodes import TERMS, Node, Peer, Replies
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.dataset_scans.asking import Asking
from tfquiver.service.node.dataset_scans.shared_scans import SharedScans

FILES = 12
files, expected = scanning_nodes.fixtures(FILES)


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
