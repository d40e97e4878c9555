from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import struct
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.support.aio import on_loop
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.readers import session_server
from tfquiver.service.node.readers.frame_socket import FrameSocket
from tfquiver.service.node.readers.instructions import LeaseState, Send
from tfquiver.service.node.readers.reader_session import ReaderLimits, ReaderSession
from tfquiver.service.node.readers.reader_shell import REPORT_MS, ReaderShell
from tfquiver.service.node.readers.session_server import SessionServer
from tfquiver.service.node.readers.shard_fetches import ShardFetches
from tfquiver.wire import reader_frames as frames


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
