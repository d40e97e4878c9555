"""Streams at a node's own socket: the node's part that serves them, and a trainer's end of a connection."""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats import stream_frames as stream
from tfquiver.service.node.sealed_memory_of_checked_shards import sealed_memory
from tfquiver.service.node.shared_batches.spill_files import SpillFiles
from tfquiver.service.node.shared_batches.streams import Streams
from tfquiver.service.node.unix_socket_clients.session_server import SessionServer

WINDOW_BYTES, SPILL_BYTES = 64 << 10, 1 << 20  # the node has twice as much for the disk
BATCH_BYTES = 8 << 10
DEADLINE_S = 20.0
_CONTROL_BYTES = socket.CMSG_SPACE(4 * array.array("i").itemsize)


def batch(index: int) -> bytes:
    return index.to_bytes(8, "little") * (BATCH_BYTES // 8)


class End:
    """A trainer's end of one connection."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(DEADLINE_S)
        self._socket.connect(str(path))

    async def say(self, frame: frames.Frame, *descriptors: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        await asyncio.to_thread(self._socket.sendmsg, [frames.encode(frame)], rights)

    async def hear(self) -> tuple[frames.Frame | None, int]:
        """None: it was closed."""
        message, control, _, _ = await asyncio.to_thread(self._socket.recvmsg, 65537, _CONTROL_BYTES)
        found = array.array("i")
        for _, _, data in control:
            found.frombytes(data)
        return (frames.decode(message) if message else None), (found[0] if found else -1)

    async def follow(self, makes: bool, pass_: int = 0, likeness: bytes = bytes(32), process: int = 1) -> None:
        await self.say(frames.Hello(frames.ROLE_STREAM, process, ""))
        assert isinstance((await self.hear())[0], frames.Welcome)
        await self.say(stream.Follow("s", likeness, pass_, makes, WINDOW_BYTES, SPILL_BYTES))

    async def wants(self, index: int) -> bytes | frames.Frame | None:
        """The batch's bytes, or what was said instead."""
        await self.say(stream.Next(index))
        return await self.given(index)

    async def given(self, index: int) -> bytes | frames.Frame | None:
        while True:
            frame, fd = await self.hear()
            if isinstance(frame, stream.Checkpoint):
                os.close(fd)
                continue
            if not isinstance(frame, stream.Batch):
                return frame
            assert frame.index == index
            data = os.pread(fd, frame.length_bytes, frame.offset)
            with pytest.raises(OSError):
                os.pwrite(fd, b"x", 0)
            os.close(fd)
            assert zlib.crc32(data) == frame.crc32
            return data

    def publish_now(self, index: int) -> None:
        data = batch(index)
        fd = sealed_memory.sealed(data)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self._socket.sendmsg([frames.encode(stream.Publish(index, len(data), zlib.crc32(data)))], rights)
        os.close(fd)

    async def publish(self, index: int, data: bytes | None = None, memory: bool = True) -> None:
        data = batch(index) if data is None else data
        frame = stream.Publish(index, len(data), zlib.crc32(data))
        if not memory:
            await self.say(frame)
            return
        fd = sealed_memory.sealed(data)
        await self.say(frame, fd)
        os.close(fd)

    def close(self) -> None:
        self._socket.close()


class Node:
    def __init__(self, folder: Path, disk_waits_s: Callable[[], float]) -> None:
        unused = cast(Any, None)
        self.aside: list[int] = []
        folder.joinpath("tmp").mkdir()
        self.streams = Streams(
            SpillFiles(folder / "tmp", 2 * SPILL_BYTES, self.aside.append), disk_waits_s=disk_waits_s
        )
        self._server = SessionServer(
            ("node", "1"), unused, unused, unused, unused, unused, streams=self.streams
        )  # fmt: skip
        self._path = folder / "socket"
        self._server.start(self._path)
        self._ends: list[End] = []

    def end(self) -> End:
        self._ends.append(End(self._path))
        return self._ends[-1]

    @property
    def members(self) -> int:
        """Connections that are in a stream."""
        streams = self.streams._streams.values()
        return sum(len(one.members) for stream in streams for one in stream.passes.values())

    async def maker(self, pass_: int = 0, likeness: bytes = bytes(32)) -> tuple[End, int]:
        """One that is to make them, and from which batch on."""
        while True:  # the one before may still be on its way out
            one = self.end()
            await one.follow(makes=True, pass_=pass_, likeness=likeness)
            while not isinstance((frame := (await one.hear())[0]), stream.Make):
                assert isinstance(frame, stream.Checkpoint)
            if frame.granted:
                return one, frame.index
            one.close()

    async def stop(self) -> None:
        for one in self._ends:
            one.close()
        await self._server.stop(1.0)
        await self.streams.close()


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@contextlib.asynccontextmanager
async def node_in(folder: Path, disk_waits_s: Callable[[], float] = lambda: 0.0) -> AsyncIterator[Node]:
    node = Node(folder, disk_waits_s)
    before = _descriptors()
    async with asyncio.timeout(4 * DEADLINE_S):
        try:
            yield node
        finally:
            await node.stop()
        while _descriptors() > before:  # every batch that was kept is closed
            await asyncio.sleep(0.01)
