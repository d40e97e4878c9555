"""Peers that do not keep to the protocol: the connection ends, the port lives."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import time
from pathlib import Path

import google_crc32c
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.aio import on_loop
from tests.support.store_node import StoreNode, build, write_files
from tests.unit.test_data_frames import FRAME
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.service.node.connections_between_nodes import data_frames as frames
from tfquiver.service.node.disk import entry


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    return build(write_files(tmp_path / "data", files=1))


class Peer:
    """Says whatever it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, node: StoreNode, hello: bool = True) -> Peer:
        host, port = node.address.rsplit(":", 1)
        peer = cls(*await asyncio.open_connection(host, int(port)))
        if hello:
            peer.say(frames.Hello(node.token, "peer"))
            assert isinstance(await peer.hear(), frames.Welcome)
        return peer

    def say(self, frame: frames.Frame, body: bytes = b"") -> None:
        self.writer.write(frames.encode(frame) + body)

    async def hear(self) -> frames.Frame:
        while True:
            cls, length = frames.decode_header(await self.reader.readexactly(frames.HEADER_BYTES))
            frame = frames.decode_payload(cls, await self.reader.readexactly(length))
            if not isinstance(frame, frames.Working):
                return frame

    async def last_words(self) -> str:
        """The ERROR before the connection ends; "" when there is none."""
        text = ""
        try:
            while True:
                frame = await self.hear()
                if isinstance(frame, frames.Error):
                    text = frame.message
        except (asyncio.IncompleteReadError, ConnectionError):
            return text

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


async def is_alive(node: StoreNode, digest: Digest) -> bool:
    peer = await Peer.of(node)
    peer.say(frames.Get(digest.digest_id, 1, ((0, digest.hashes[0].tobytes()),)))
    item = await peer.hear()
    assert isinstance(item, frames.Item)
    assert item.body
    body = await peer.reader.readexactly(item.body.stored_length)
    await peer.close()
    return len(body) == item.body.stored_length


BAD_STARTS = {
    "no protocol of ours": (b"GET / HTTP/1.1\r\n\r\n", "begins with"),
    "another version": (struct.pack("<HBBI", 0x5154, 9, 32, 0), "version 9"),
    "a frame of the other socket": (struct.pack("<HBBI", 0x5154, frames.VERSION, 6, 0), "no frame type 6"),
    "too long": (struct.pack("<HBBI", 0x5154, frames.VERSION, 34, 1 << 31), "more than 1048576"),
    "not HELLO": (frames.encode(frames.Working()), "first frame is Working"),
    "HELLO with more behind it": (struct.pack("<HBBI", 0x5154, frames.VERSION, 32, 37) + bytes(37), "too many"),
    "wrong token": (frames.encode(frames.Hello("wrong", "x")), "--auth_token_file"),
}


@pytest.mark.parametrize("start", BAD_STARTS)
@on_loop
async def test_a_bad_start_is_told_and_ended(tmp_path: Path, digest: Digest, start: str) -> None:
    data, complaint = BAD_STARTS[start]
    async with StoreNode(tmp_path / "cache", [digest], token="right") as node:
        peer = await Peer.of(node, hello=False)
        peer.writer.write(data)
        assert complaint in await peer.last_words()
        await peer.close()
        assert await is_alive(node, digest)


@on_loop
async def test_who_is_refused_again_and_again_does_not_fill_the_log(
    tmp_path: Path, digest: Digest, caplog: pytest.LogCaptureFixture
) -> None:
    began_s = time.monotonic()
    async with StoreNode(tmp_path / "cache", [digest], token="right") as node:
        for _ in range(50):
            peer = await Peer.of(node, hello=False)
            peer.say(frames.Hello("wrong", "x"))
            assert await peer.last_words()
            await peer.close()
    lines = [line for line in caplog.messages if "wrong token" in line]
    assert len(lines) <= 1 + (time.monotonic() - began_s) / 10


def put(header: entry.Header) -> bytes:
    return frames.encode(frames.Put(header))


BAD_FRAMES = {
    "a server's frame": frames.encode(frames.Welcome("x")),
    "HELLO again": frames.encode(frames.Hello("", "x")),
    "a PUT that cannot be": struct.pack("<HBBI", 0x5154, frames.VERSION, 36, 57)
    + bytes(32)
    + struct.pack("<BQQII", 7, 1, 1, 0, 0),
    "too many shards": b"".join(
        frames.encode(frames.Get(bytes(32), i, tuple((shard, bytes(32)) for shard in range(1024)))) for i in range(5)
    ),
}


@pytest.mark.parametrize("what", BAD_FRAMES)
@on_loop
async def test_a_bad_frame_is_told_and_ended(tmp_path: Path, digest: Digest, what: str) -> None:
    async with StoreNode(tmp_path / "cache", [digest]) as node:
        peer = await Peer.of(node)
        peer.writer.write(BAD_FRAMES[what])
        assert await peer.last_words()
        await peer.close()
        assert await is_alive(node, digest)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frame=FRAME,
    at=st.integers(0, 300),
    flip=st.integers(0, 255),
    tail=st.binary(max_size=64),
    cut=st.integers(0, 400),
    said_hello=st.booleans(),
)
def test_whatever_is_said_the_port_lives(
    tmp_path: Path, digest: Digest, frame: frames.Frame, at: int, flip: int, tail: bytes, cut: int, said_hello: bool
) -> None:
    data = bytearray(frames.encode(frame))
    data[at % len(data)] ^= flip
    data = (data + tail)[: cut or None]

    @on_loop
    async def run() -> None:
        async with asyncio.timeout(20), StoreNode(tmp_path / "cache", [digest]) as node:
            peer = await Peer.of(node, said_hello)
            peer.writer.write(data)
            peer.writer.write_eof()
            await peer.last_words()
            await peer.close()
            assert await is_alive(node, digest)

    run()


BAD_BODIES = {
    "raw, another hash": (entry.RAW, b"some bytes", bytes(32)),
    "no zstd at all": (entry.ZSTD, b"some bytes", bytes(32)),
}


@pytest.mark.parametrize("what", BAD_BODIES)
@on_loop
async def test_a_body_that_is_not_its_hash_is_refused_with_a_reason(tmp_path: Path, digest: Digest, what: str) -> None:
    codec, body, hash = BAD_BODIES[what]
    async with StoreNode(tmp_path / "cache", [digest]) as node:
        peer = await Peer.of(node)
        header = entry.Header(codec, 10, len(body), 0, 0, hash)
        peer.say(frames.Put(header), body)
        reply = await peer.hear()
        assert isinstance(reply, frames.PutReply)
        assert (reply.hash, reply.code) == (hash, errors.code_number(errors.DataLossError("")))
        assert hash.hex() in reply.message
        assert (len(node.disk), node.disk.refusals.inserts, node.disk.refusals.damaged) == (0, 1, 1)
        peer.say(frames.Get(digest.digest_id, 1, ((0, digest.hashes[0].tobytes()),)))
        assert isinstance(await peer.hear(), frames.Item)
        await peer.close()


@on_loop
async def test_a_body_that_stops_coming_ends_the_connection(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with StoreNode(tmp_path / "cache", [digest]) as node:
        peer = await Peer.of(node)
        peer.say(frames.Put(entry.Header(entry.RAW, 1 << 30, 1 << 30, 0, 0, bytes(32))), b"only these")
        assert "did not go on" in await peer.last_words()
        await peer.close()
        assert node.disk.used_bytes == 0
        assert await is_alive(node, digest)


@pytest.mark.slow
@on_loop
async def test_a_peer_that_does_not_read_is_given_up_and_the_others_served(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_files(path, files=1, records_each=3000)
    digest = build(path / "*")
    async with asyncio.timeout(30), StoreNode(tmp_path / "cache", [digest], mode="raw") as node:
        lazy = []
        for _ in range(10):  # more than the port has threads
            peer = await Peer.of(node)
            peer.reader._transport.pause_reading()
            sock = peer.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for request in range(20):
                wants = tuple((i, digest.hashes[i].tobytes()) for i in range(min(100, digest.num_shards)))
                peer.say(frames.Get(digest.digest_id, request, wants))
            lazy.append(peer)
        assert await is_alive(node, digest)
        while node.port._connections:  # each is given up after it has taken nothing for a while
            await asyncio.wait(node.port._connections.values(), return_when=asyncio.FIRST_COMPLETED)
        for peer in lazy:
            peer.writer.transport.abort()
        assert await is_alive(node, digest)


@on_loop
async def test_shards_of_an_unknown_digest_or_number_are_not_here(tmp_path: Path, digest: Digest) -> None:
    async def digests(digest_id: bytes) -> Digest:
        if digest_id != digest.digest_id:
            raise errors.NotFoundError("no such digest")
        return digest

    async with StoreNode(tmp_path / "cache", [digest]) as node:
        node.port._services = type(node.port._services)(
            **{name: getattr(node.port._services, name) for name in node.port._services.__slots__}
            | {"digests": digests}
        )
        peer = await Peer.of(node)
        good = digest.hashes[0].tobytes()
        for digest_id, shard, hash, status in [
            (bytes(32), 0, good, frames.NOT_HERE),
            (digest.digest_id, 1 << 20, good, frames.NOT_THAT_SHARD),
            (digest.digest_id, 1, good, frames.NOT_THAT_SHARD),
        ]:
            peer.say(frames.Get(digest_id, 1, ((shard, hash),)))
            item = await peer.hear()
            assert isinstance(item, frames.Item)
            assert (item.status, item.shard) == (status, shard)
            assert item.message
        await peer.close()


@pytest.mark.slow
@on_loop
async def test_a_zstd_bomb_is_refused_before_it_is_received_or_unpacked(tmp_path: Path, digest: Digest) -> None:
    body = zstandard.compress(bytes(1 << 30))
    async with StoreNode(tmp_path / "cache", [digest]) as node:
        peer = await Peer.of(node)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        crc32c = google_crc32c.value(body)
        for raw_length in (1 << 30, 64 << 20):  # more than there is room for; less than the frame says
            peer.say(frames.Put(entry.Header(entry.ZSTD, raw_length, len(body), 0, crc32c, bytes(32))), body)
            reply = await peer.hear()
            assert isinstance(reply, frames.PutReply)
            error = errors.NeverFitsError("") if raw_length == 1 << 30 else errors.DataLossError("")
            assert reply.code == errors.code_number(error)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10, "kilobytes"
        await peer.close()
        assert await is_alive(node, digest)


@on_loop
async def test_before_hello_nothing_large_is_received(tmp_path: Path, digest: Digest) -> None:
    async with asyncio.timeout(5), StoreNode(tmp_path / "cache", [digest], token="right") as node:
        peer = await Peer.of(node, hello=False)
        peer.writer.write(struct.pack("<HBBI", 0x5154, frames.VERSION, 34, 1 << 20))  # and no byte of the payload
        assert "first frame is Get" in await peer.last_words()
        await peer.close()


@on_loop
async def test_idle_connections_give_way_to_those_who_come(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfquiver.service.node.connections_between_nodes.data_port.MAX_CONNECTIONS", 8)
    async with asyncio.timeout(10), StoreNode(tmp_path / "cache", [digest]) as node:
        held = [await Peer.of(node, hello=number % 2 == 0) for number in range(12)]
        assert await is_alive(node, digest)
        assert len(node.port._connections) <= 8
        for peer in held:
            await peer.close()


@on_loop
async def test_as_many_as_come_at_once_are_let_in_without_knocking_twice(tmp_path: Path, digest: Digest) -> None:
    """As after a restart, of a cluster of hundreds; a flood of strangers did it with 65 in a second."""
    async with asyncio.timeout(20), StoreNode(tmp_path / "cache", [digest]) as node:
        host, port = node.address.rsplit(":", 1)
        # The loop accepts none of them meanwhile.
        callers = [socket.create_connection((host, int(port)), 0.9) for _ in range(300)]
        assert await is_alive(node, digest)
        for caller in callers:
            caller.close()


@pytest.mark.slow
@on_loop
async def test_a_flood_of_bad_ones_is_taken_one_by_one(tmp_path: Path, digest: Digest) -> None:
    """Each makes the node read a whole entry: with as many of them at a time as a peer sends, readers would wait."""
    async with StoreNode(tmp_path / "cache", [digest]) as node:
        peer = await Peer.of(node)
        before = len(asyncio.all_tasks())
        dropped, at_once, most = 0, 0, 0
        drop = node.source.drop

        async def counted(hash: bytes, reason: str) -> None:
            nonlocal dropped, at_once, most
            at_once += 1
            most = max(most, at_once)
            await drop(hash, reason)
            dropped, at_once = dropped + 1, at_once - 1

        node.source.drop = counted  # type: ignore[method-assign]
        for _ in range(500):
            peer.say(frames.Bad(digest.digest_id, 0, digest.hashes[0].tobytes()))
        while dropped < 500:
            assert len(asyncio.all_tasks()) < before + 20
            await asyncio.sleep(0)
        assert most == 1
        assert await is_alive(node, digest)
        await peer.close()
