"""A node asks another one for a part of its scan: over a real connection, of a node that helps, and of one that is
late, gone or of an older version. Whatever that does, the scan ends, and finds what one node finds."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import scanning_nodes
from tests.support.aio import on_loop
from tests.support.scanning_nodes import TERMS, Node, Peer, task
from tests.support.steps import steps
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing import listing
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import Open
from tfquiver.scanning.file_scan import ScannedFile, scanned_of
from tfquiver.service.node.dataset_scans.asking import Asking
from tfquiver.service.node.dataset_scans.helping import Helping
from tfquiver.service.node.dataset_scans.shared_scans import SharedScans
from tfquiver.service.node.reading_the_object_store.named_access import NamedAccess

FILES = 12
files, expected = scanning_nodes.fixtures(FILES)


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


@pytest.mark.slow
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
