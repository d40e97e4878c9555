"""An HTTP proxy that makes a fast object store slow, and counts what leaves it.

It stands before an emulator in demos, tests and benchmarks: all connections share one byte rate, as jobs share a
store's egress. Replies are held whole before they are sent, so that a slow reader does not hold up the emulator.
"""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import asdict, dataclass

from tfquiver.clock import Clock, SystemClock
from tfquiver.testing.kept_objects import KeptObjects

TRAFFIC_PATH = "/-/traffic"
RATE_PATH = "/-/bytes_per_s/"  # and a number: from now on; answered as TRAFFIC_PATH
_HEAD_LIMIT_BYTES = 64 << 10
_BODY_LIMIT_BYTES = 1 << 30
PIECE_BYTES = 16 << 10
_IDLE_S = 60.0
# The emulator answers one request at a time, and has room for five that wait; the kernel drops what comes beyond that,
# and tries again a second later.
_UPSTREAM_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Traffic:
    """What left the store since its start. `payload_bytes` are the bodies of object reads, `other_body_bytes` those of
    listings, metadata and errors."""

    requests: int = 0
    reads: int = 0
    header_bytes: int = 0
    payload_bytes: int = 0
    other_body_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.header_bytes + self.payload_bytes + self.other_body_bytes

    def __sub__(self, earlier: Traffic) -> Traffic:
        before = asdict(earlier)
        return Traffic(**{name: value - before[name] for name, value in asdict(self).items()})

    def __add__(self, other: Traffic) -> Traffic:
        more = asdict(other)
        return Traffic(**{name: value + more[name] for name, value in asdict(self).items()})


_LATE_S = 0.01  # that a sender wakes


class Pace:
    """One byte rate shared by all who send: each piece waits its turn, first come first served.

    A sender that slept catches up with what its timer was late, up to a hundredth of a second: without that a lone one,
    of whom each small piece comes a millisecond late, would get a third of the rate.
    """

    def __init__(self, bytes_per_s: float, clock: Clock) -> None:
        """`bytes_per_s` of 0 means no limit."""
        self._clock = clock
        self.change(bytes_per_s)

    def change(self, bytes_per_s: float) -> None:
        """From now on; who waits already waits no longer, nor less. Raises ValueError."""
        if not 0 <= bytes_per_s < math.inf:
            raise ValueError(f"that is no rate: {bytes_per_s=}")
        self._bytes_per_s = bytes_per_s
        self._free_at = self._clock.now()

    def wait_s(self, size_bytes: int) -> float:
        """Takes the next place in line for `size_bytes`; the seconds until they may have been sent."""
        if not self._bytes_per_s:
            return 0.0
        now = self._clock.now()
        self._free_at = max(now - _LATE_S, self._free_at) + size_bytes / self._bytes_per_s
        return max(self._free_at - now, 0.0)


@dataclass(frozen=True, slots=True)
class _Message:
    head: bytes
    body: bytes | memoryview

    @property
    def first_line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1")


class ThrottledStore:
    """The proxy, on the caller's event loop."""

    def __init__(
        self,
        upstream_port: int,
        bytes_per_s: float,
        piece_bytes: int = PIECE_BYTES,
        clock: Clock | None = None,
        latency_s: float = 0.0,
        keeps: bool = False,
    ) -> None:
        """
        Args:
          piece_bytes: replies that are under way together take turns, so many bytes each.
          latency_s: before the first byte of each reply.
          keeps: objects are held here once they were read, and ranges of them cut out here: for rates that the emulator
            cannot reach. They are not to change meanwhile.
        """
        self._piece_bytes, self._latency_s = piece_bytes, latency_s
        self._kept: KeptObjects | None = KeptObjects() if keeps else None
        self._keeping = asyncio.Lock()
        self._upstream_port = upstream_port
        self._pace = Pace(bytes_per_s, clock or SystemClock())
        self._traffic = Traffic()
        self._upstream_turn = asyncio.Semaphore(_UPSTREAM_AT_ONCE)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def traffic(self) -> Traffic:
        return self._traffic

    async def start(self, port: int = 0) -> int:
        """Listens on the loopback address; the port it got."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=_HEAD_LIMIT_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        if self._server:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            pass  # a broken client or a broken reply ends its own connection, as a store's front end would
        except asyncio.CancelledError:
            pass  # stop(); the server's own bookkeeping would report it as an error
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its reply. False when the client has closed."""
        request = await asyncio.wait_for(_read_message(reader, until_eof=False), _IDLE_S)
        if request is None:
            return False
        path = request.first_line.split(" ")[1]
        if path.startswith(RATE_PATH):
            self._pace.change(float(path.removeprefix(RATE_PATH)))
        if path == TRAFFIC_PATH or path.startswith(RATE_PATH):
            body = json.dumps(asdict(self._traffic)).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
            return True
        is_read = request.head.startswith(b"GET") and ("/download/" in path or "alt=media" in path)
        waits_until = asyncio.get_running_loop().time() + self._latency_s
        reply = await (
            self._from_kept(self._kept, path, request) if is_read and self._kept else self._ask_upstream(request)
        )
        await asyncio.sleep(waits_until - asyncio.get_running_loop().time())
        self._traffic += Traffic(requests=1, reads=int(is_read))
        await self._send(writer, reply, is_read)
        return True

    async def _from_kept(self, kept: KeptObjects, path: str, request: _Message) -> _Message:
        async with self._keeping:  # once, however many ask
            if path not in kept:
                whole = await self._ask_upstream(_Message(_replace_header(request.head, b"range", b"bytes=0-"), b""))
                if not whole.first_line.split(" ")[1].startswith("20"):
                    return whole
                kept.keep(path, bytes(whole.body))
        return _Message(*kept.reply(path, request.head))

    async def _ask_upstream(self, request: _Message) -> _Message:
        async with self._upstream_turn:
            return await self._exchange_upstream(request)

    async def _exchange_upstream(self, request: _Message) -> _Message:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream_port, limit=_HEAD_LIMIT_BYTES)
        try:
            head = _replace_header(request.head, b"connection", b"close")
            writer.write(head + bytes(request.body))
            await writer.drain()
            reply = await _read_message(reader, until_eof=True)
        finally:
            writer.close()
        if reply is None:
            raise EOFError("the store closed without a reply")
        # The emulator speaks HTTP/1.0; a real store keeps connections, and its clients count on that.
        return _Message(reply.head.replace(b"HTTP/1.0", b"HTTP/1.1", 1), reply.body)

    async def _send(self, writer: asyncio.StreamWriter, reply: _Message, is_read: bool) -> None:
        await asyncio.sleep(self._pace.wait_s(len(reply.head)))
        writer.write(reply.head)
        self._traffic += Traffic(header_bytes=len(reply.head))
        for start in range(0, len(reply.body), self._piece_bytes):
            piece = reply.body[start : start + self._piece_bytes]
            await asyncio.sleep(self._pace.wait_s(len(piece)))
            writer.write(piece)
            self._traffic += Traffic(**{"payload_bytes" if is_read else "other_body_bytes": len(piece)})
            await writer.drain()
        await writer.drain()


async def _read_message(reader: asyncio.StreamReader, until_eof: bool) -> _Message | None:
    """A request or reply; None when the other side closed before it began. Raises ValueError when it is malformed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    if len(head.split(b"\r\n", 1)[0].split(b" ")) < 3:
        raise ValueError(f"not HTTP: {head[:80]!r}")
    length = _header(head, b"content-length")
    if length is not None:
        size = int(length)
        if not 0 <= size <= _BODY_LIMIT_BYTES:
            raise ValueError(f"a body of {size} bytes is out of bounds")
        return _Message(head, await reader.readexactly(size))
    if until_eof or _header(head, b"transfer-encoding"):
        raise ValueError("a body without Content-Length is not supported")
    return _Message(head, b"")


def _header(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def _replace_header(head: bytes, name: bytes, value: bytes) -> bytes:
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() != name]
    return b"\r\n".join([*kept, name.title() + b": " + value]) + b"\r\n\r\n"
