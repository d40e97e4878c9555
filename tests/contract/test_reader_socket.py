from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import socket
import struct
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.support.aio import on_loop
from tests.support.as_user import as_user
from tests.support.digests import numbered_digest
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards
from tfquiver.messages_and_binary_formats.record_picks import RecordPicks
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.reader_sessions.instructions import LeaseState, Send
from tfquiver.service.node.reader_sessions.numbered_shards import NumberedShards
from tfquiver.service.node.reader_sessions.reader_calls import ReaderCalls
from tfquiver.service.node.reader_sessions.reader_session import ReaderLimits, ReaderSession
from tfquiver.service.node.reader_sessions.reader_shell import REPORT_MS, ReaderShell
from tfquiver.service.node.reader_sessions.shard_fetches import ShardFetches
from tfquiver.service.node.unix_socket_clients import session_server
from tfquiver.service.node.unix_socket_clients.frame_socket import FrameSocket
from tfquiver.service.node.unix_socket_clients.session_server import SessionServer


@on_loop
async def test_out_of_descriptors_the_loop_is_not_kept_busy_and_those_who_wait_are_let_in_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints: list[str] = []
    monkeypatch.setattr(session_server, "every_n_seconds", lambda *said: complaints.append(str(said)))
    unused = cast(Any, None)
    server = SessionServer(("node", "1"), unused, unused, unused, unused, unused)
    server.start(tmp_path / "socket")
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        client.connect(str(tmp_path / "socket"))
        async with asyncio.timeout(10):
            while len(complaints) < 2:
                await asyncio.sleep(0.01)
        began_s = asyncio.get_running_loop().time()
        seen = len(complaints)
        while len(complaints) < seen + 3:
            await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() - began_s > 0.15, "three tries, a pause before each"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    async with asyncio.timeout(5):
        while not server.connections:
            await asyncio.sleep(0.01)
    await server.stop(1.0)
    client.close()


TIMES = 50


def _knock(path: Path, times: int = TIMES) -> list[socket.socket]:
    """They wait to be accepted."""
    callers = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(times)]
    for one in callers:
        one.connect(str(path))
    return callers


@on_loop
async def test_who_finds_no_place_again_and_again_does_not_fill_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session_server, "MAX_CONNECTIONS", 0)
    unused, began_s = cast(Any, None), time.monotonic()
    server = SessionServer(("node", "1"), unused, unused, unused, unused, unused)
    server.start(tmp_path / "socket")
    for one in _knock(tmp_path / "socket"):
        one.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(one, 1) == b"", "it is hung up on"
        one.close()
    await server.stop(1.0)
    lines = [line for line in caplog.messages if "refused a connection" in line]
    assert len(lines) <= 1 + (time.monotonic() - began_s) / 10


@on_loop
async def test_those_who_connect_and_say_nothing_keep_no_reader_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there are places kept every reader away for ten seconds, and for ever where they came again."""
    monkeypatch.setattr(session_server, "MAX_CONNECTIONS", 8)
    unused = cast(Any, None)
    server = SessionServer(("node", "1"), unused, unused, unused, unused, unused)
    server.start(tmp_path / "socket")
    hello = frames.encode(frames.Hello(frames.ROLE_READER, os.getpid(), "r"))
    readers, silent = [], _knock(tmp_path / "socket")
    for _ in range(8):
        readers += _knock(tmp_path / "socket", 1)
        readers[-1].setblocking(False)
        await asyncio.get_running_loop().sock_sendall(readers[-1], hello)
        async with asyncio.timeout(5):
            frame = frames.decode(await asyncio.get_running_loop().sock_recv(readers[-1], frames.MAX_FRAME_BYTES))
        assert frame == frames.Welcome("node")
    (late,) = _knock(tmp_path / "socket", 1)
    async with asyncio.timeout(5):
        late.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(late, 100) == b"", "there is no place: all have said HELLO"
    assert server.connections == 8
    for one in (*readers, *silent, late):
        one.close()
    await server.stop(1.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes other users")
@on_loop
async def test_who_may_not_connect_and_tries_again_and_again_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unused, began_s = cast(Any, None), time.monotonic()
    server = SessionServer(("node", "1"), unused, unused, unused, unused, unused)
    with tempfile.TemporaryDirectory(prefix="tfquiver-refused-") as folder, contextlib.ExitStack() as own:
        path = Path(folder) / "socket"
        Path(folder).chmod(0o755)  # others can reach it, as they cannot that of pytest
        server.start(path)
        path.chmod(0o666)
        as_user(54_321, 54_401, [], lambda: len(_knock(path)))
        own.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)).connect(str(path))
        async with asyncio.timeout(30):
            while not server.connections:  # those before were accepted, too
                await asyncio.sleep(0.01)
        assert server.connections == 1
        await server.stop(1.0)
    lines = [line for line in caplog.messages if "refused a process of user 54321" in line]
    assert len(lines) <= 1 + (time.monotonic() - began_s) / 10


@on_loop
async def test_credit_for_a_reader_that_is_being_closed_sends_nothing() -> None:
    """What was ready for it has been given up already."""
    unused = cast(Any, None)
    state = ReaderSession(np.full(3, 100, np.uint64), 100, limits=ReaderLimits())
    state.opened((), ())
    state.leased(LeaseState.LEASED, [(0, ""), (1, "")], 0.0)
    state.fetched(0)
    assert Send(1) not in state.fetched(1), "it waits for credit"
    reader = ReaderShell("", unused, unused, unused, unused, ("node", "1"), ReaderLimits())
    reader._session = state
    reader._fetches = ShardFetches(unused, unused, unused, unused)
    reader._fetches.close()
    reader._closing = asyncio.get_running_loop().create_task(asyncio.sleep(0))
    reader.on_frame(frames.Credit(1 << 20), [])
    await reader._closing


@on_loop
async def test_a_shard_of_records_by_weight_without_picks_ends_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leads there. All of the shard's records would come in place of some."""
    unused = cast(Any, None)
    digest = numbered_digest(3)
    picks = RecordPicks(b"w" * 32, 1, 1, 0.0, 3)
    drawn = DrawnShards("weighted", np.array([0, 1, 1], np.uint32), (3,), False, 3, picks)
    reader = ReaderShell("", unused, unused, unused, unused, ("node", "1"), ReaderLimits())
    told: list[tuple[str, bool]] = []
    monkeypatch.setattr(reader, "tell", lambda error, fatal: told.append((str(error), fatal)))
    reader._shards = NumberedShards(digest, drawn)
    opening = frames.Open("", "k", digest.digest_id, "", "r", 1, frames.Wish(), False)
    reader._calls = ReaderCalls(unused, ("node", "1"), "", opening)
    reader._fetches = ShardFetches(unused, unused, unused, unused)
    reader._calls.picks[1] = b"\x01"
    reader._send(2)
    assert len(told) == 1
    assert told[0][1]
    assert re.search("shard 1 .*: which of its records draw 2 is of is not known", told[0][0])


class _Picking:
    """A coordinator of a session of three draws of records by weight."""

    def __init__(self, drawn: DrawnShards) -> None:
        self.drawn, self.picked, self.opened = drawn, list[list[int]](), list[pb.OpenReaderRequest]()
        self.got = asyncio.Event()

    async def open_reader(self, request: pb.OpenReaderRequest) -> pb.OpenReaderReply:
        self.opened.append(pb.OpenReaderRequest.FromString(request.SerializeToString()))
        return pb.OpenReaderReply(session_id="s", shards=3, records=3, drawn=self.drawn.message())

    async def pick_records(self, request: pb.PickRecordsRequest) -> pb.PickRecordsReply:
        self.picked.append(list(request.draws))
        return pb.PickRecordsReply(picks=[b"\x01"] * len(request.draws))

    async def lease(self, request: pb.LeaseRequest) -> pb.LeaseReply:
        await asyncio.Event().wait()
        raise AssertionError

    async def close_reader(self, request: pb.CloseReaderRequest) -> None:
        pass

    async def drop(self, hash: bytes, reason: str) -> None:
        pass

    async def get(self, *asked: object, missing: bool = False) -> None:
        self.got.set()
        await asyncio.Event().wait()


@on_loop
async def test_of_what_a_reader_held_only_what_is_sent_again_has_its_picks_asked_for(tmp_path: Path) -> None:
    digest = numbered_digest(3)
    drawn = DrawnShards(
        "weighted", np.array([0, 1, 2], np.uint32), (3,), False, 3, RecordPicks(b"w" * 32, 1, 1, 0.0, 3)
    )

    async def digests(_: bytes) -> Any:
        return digest

    there = cast(Any, _Picking(drawn))
    server = SessionServer(("node", "1"), there, cast(Any, None), there, digests, ReaderLimits())
    server.start(tmp_path / "socket")
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as reader:
        reader.connect(str(tmp_path / "socket"))
        reader.setblocking(False)
        opening = frames.Open("", "k~", digest.digest_id, "", "r", 1, frames.Wish(), False)
        for frame in (frames.Hello(frames.ROLE_READER, 1, ""), frames.Held((0, 1, 2)), opening):
            await loop.sock_sendall(reader, frames.encode(frame))
        async with asyncio.timeout(10):
            while not isinstance(frames.decode(await loop.sock_recv(reader, 1000)), frames.Opened):
                pass
            assert list(there.opened[0].held) == [0, 1, 2]
            assert there.picked == []
            await loop.sock_sendall(reader, frames.encode(frames.Bad(1)))
            await there.got.wait()
        assert there.picked == [[1]]
    await server.stop(1.0)


@on_loop
async def test_who_asks_is_told_how_often_to_report_and_nobody_reports_of_no_session(tmp_path: Path) -> None:
    unused = cast(Any, None)
    heard: list[pb.ReaderReport] = []
    server = SessionServer(("node", "1"), unused, unused, unused, unused, unused, heard=heard.append)
    server.start(tmp_path / "socket")
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as reader:
        reader.connect(str(tmp_path / "socket"))
        reader.setblocking(False)
        answers = []
        for frame in (frames.Hello(frames.ROLE_READER, 1, ""), frames.Ping(), frames.Report(1, 2, 3, 4)):
            await loop.sock_sendall(reader, frames.encode(frame))
            answers.append(frames.decode(await loop.sock_recv(reader, 1000)))
        welcome, pong, error = answers
        assert isinstance(welcome, frames.Welcome)
        assert pong == frames.Pong(REPORT_MS)
        assert isinstance(error, frames.Error)
        assert "Report frame: not expected" in error.message
    assert not heard
    await server.stop(1.0)


@pytest.mark.parametrize("frame", [frames.Hello(frames.ROLE_READER, 1, ""), frames.Ping()])
@on_loop
async def test_a_descriptor_that_takes_its_time_to_be_closed_holds_nobody_up(
    tmp_path: Path, frame: frames.Frame
) -> None:
    unused = cast(Any, None)
    server = SessionServer(("node", "1"), unused, unused, unused, unused, unused)
    server.start(tmp_path / "socket")
    loop = asyncio.get_running_loop()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as reader,
    ):
        lingering = socket.create_connection(listener.getsockname())
        lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 4))
        with contextlib.suppress(BlockingIOError):
            while lingering.send(bytes(1 << 20), socket.MSG_DONTWAIT):  # which nobody reads
                pass
        reader.connect(str(tmp_path / "socket"))
        reader.setblocking(False)
        socket.send_fds(reader, [frames.encode(frame)], [lingering.fileno()])
        lingering.close()  # whoever closes the other descriptor waits for what nobody reads
        began_s = loop.time()
        async with asyncio.timeout(10):
            said = frames.decode(await loop.sock_recv(reader, 1000))
        assert isinstance(said, frames.Error)
        assert "no memory file" in said.message
        assert loop.time() - began_s < 2.0
        began_s = loop.time()
        await server.stop(1.0)
        assert loop.time() - began_s < 2.0


@on_loop
async def test_who_pings_on_and_takes_no_answers_does_not_fill_memory(tmp_path: Path) -> None:
    unused = cast(Any, None)
    reader = ReaderShell("", unused, unused, unused, unused, ("node", "1"), ReaderLimits())
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader.socket = FrameSocket(ours, reader.on_frame, lambda: None, lambda blocked: None)
    for _ in range(20_000):
        reader.on_frame(frames.Ping(), [])
    assert len(reader.socket._queue) == 1
    assert frames.decode(theirs.recv(100)) == frames.Pong(REPORT_MS)
    reader.socket.close()
    theirs.close()
