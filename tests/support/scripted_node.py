"""A node for tests of the op: one thread a connection, speaks the reader socket, serves shards of local TFRecord files.

It plays the session by itself (every shard once, END when all are acked or the reader drains) and misbehaves on
command.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.reader_wire import (
    ACK,
    BAD,
    CLOSE,
    CREDIT,
    DELIVERED,
    DRAINING,
    DROPPED,
    END,
    HELD,
    HELLO,
    LATE_READER,
    OPEN,
    OPENED,
    RESTORED_PROVIDER,
    SHARD,
    TICKET,
    TICKET_REPLY,
    WANT,
    WELCOME,
    Opened,
    frame,
    opened_of,
    text,
)
from tests.support.shard_bytes import ShardBytes, sealed_copy


@dataclass
class Session:
    """What the coordinator would know: shards to hand out, leased (shard -> reader), acked."""

    todo: list[int]
    job: str = ""
    epoch: int = 0
    leased: dict[int, str] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    drained: dict[str, bool] = field(default_factory=dict)
    complete: list[bool] = field(default_factory=list)


class ScriptedNode:
    """Listens at `path` while in a `with` block.

    Hooks (set before readers come): `on_shard(node, connection, shard) -> frames | None` replaces the SHARD frame for
    a shard when it returns something; `place(session, shard)`: more fields of SHARD frames, by name; `todo_key`: sorts
    what a session has left whenever a reader opens it; `serving = False` holds shards back;
    `ticket(session_key, repetition, restored)`.
    """

    def __init__(self, path: Path, shards: Sequence[ShardBytes], *, sealed: bool = False) -> None:
        self.path, self.shards, self.sealed = path, shards, sealed
        self.sessions: dict[str, Session] = {}
        self.opens: list[Opened] = []
        self.bad: list[int] = []
        self.hellos: list[tuple[int, str]] = []
        self.tickets: list[tuple[str, str, int, bool]] = []
        self.late_readers: list[str] = []  # session keys; there is nothing for them
        self.draining: list[int] = []
        self.delivered: list[tuple[str, tuple[int, ...]]] = []
        self.changed = threading.Condition()
        self.on_shard: Callable[[Connection, int], bool] | None = None
        self.on_open: Callable[[Connection], bool] | None = None
        self.ticket: Callable[[str, str, int, bool], bytes | None] | None = None
        self.todo_key: Callable[[int], int] | None = None
        self.place: Callable[[Session | None, int], dict[str, int]] | None = None
        self.serving = True
        self.session_of_provider: dict[tuple[str, int], str] = {}
        self.connections: list[Connection] = []
        self.ends_told = 0  # to ticket providers
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        _living.add(self)

    def __enter__(self) -> ScriptedNode:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def listen(self) -> None:
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.path))
        self._listener.listen(16)
        self._start(self._accept, self._listener)

    def hang_up(self) -> None:
        """As a kill would: the listener and all connections close; sessions (the coordinator's) stay."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for connection in list(self.connections):
            connection.cut()

    def wait_for(self, condition: Callable[[], bool], deadline_s: float = 60) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, deadline_s)

    def owed_ends(self) -> int:
        """Readers with a ticket that were sent END and may be about to ask for another, so that their dispatcher knows.
        Call with `changed` held."""
        tickets = set(self.session_of_provider.values())
        ended = sum(1 for one in self.connections if one.ended and one.session_id in tickets)
        return ended - self.ends_told

    def advance(self) -> None:
        """What one reader does may concern all: END, and shards given back. Call with `changed` held."""
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.advance()

    def serve(self) -> None:
        """Ends the time of `serving` = False."""
        with self.changed:
            self.serving = True
            self.advance()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name="scripted_node", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            connection = Connection(self, peer)
            self.connections.append(connection)
            self._start(connection.run)


_living: weakref.WeakSet[ScriptedNode] = weakref.WeakSet()


def await_ends_told(deadline_s: float) -> None:
    """Waits for readers that have just ended and ask their dispatcher, which asks a node of this process. A server of
    TensorFlow's in this process that is stopped meanwhile waits for them, and keeps Python, and so the node, from
    answering. Those that were stopped never ask: no longer than `deadline_s`."""
    for node in list(_living):
        with node.changed:
            node.changed.wait_for(lambda node=node: node.owed_ends() <= 0, deadline_s)


class Connection:
    """One reader or ticket provider."""

    def __init__(self, node: ScriptedNode, peer: socket.socket) -> None:
        self.node, self.peer = node, peer
        self.session: Session | None = None
        self.session_id = self.reader_id = ""
        self.credit = self.sent = 0
        self.ended = self.gone = False
        self.held: list[int] = []
        self.wanting = False  # its WANTs are still to come
        self.wanted: list[int] = []

    def cut(self) -> None:
        self.gone = True
        with contextlib.suppress(OSError):
            self.peer.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            for message, fds in self._messages():
                with self.node.changed:
                    self._handle(message[3], message[8:], fds)
                    self.node.advance()
                    self.node.changed.notify_all()
        except OSError:
            pass
        finally:
            with self.node.changed:
                self._gone()
                self.node.changed.notify_all()
            self.peer.close()

    def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.peer.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)

    def _messages(self) -> Iterator[tuple[bytes, list[int]]]:
        while True:
            if not select.select([self.peer], [], [], 60)[0]:
                return
            try:
                data, ancillary, _, _ = self.peer.recvmsg(1 << 16, socket.CMSG_SPACE(16))
            except ConnectionResetError:
                continue  # it left frames unread; its own, sent before that, are still to be read
            fds = [fd for *_, raw in ancillary for fd in array.array("i", raw)]
            if not data:
                return
            yield data, fds
            for fd in fds:
                os.close(fd)

    def _gone(self) -> None:
        """A reader that went away without CLOSE keeps its leases for a reconnect; forget its draining only."""
        self.gone = True
        if self.session is not None:
            self.session.drained.pop(self.reader_id, None)

    def _handle(self, kind: int, payload: bytes, fds: list[int]) -> None:
        node = self.node
        if kind == HELLO:
            role, _pid, size = struct.unpack_from("<BIH", payload)
            node.hellos.append((role, payload[7 : 7 + size].decode()))
            with contextlib.suppress(BrokenPipeError):  # gone; what it has sent is read, as the node does (FrameSocket)
                self.send(frame(WELCOME, text("scripted")))
        elif kind == HELD:
            self.held += struct.unpack_from(f"<{struct.unpack_from('<I', payload)[0]}I", payload, 4)
        elif kind == OPEN:
            self._open(payload, fds)
        elif kind == TICKET:
            self._ticket(payload)
        elif kind == CREDIT:
            self.credit += struct.unpack("<Q", payload)[0]
        elif kind == ACK and self.session is not None:
            count = struct.unpack_from("<I", payload)[0]
            for shard in struct.unpack_from(f"<{count}I", payload, 4):
                if self.session.leased.get(shard) == self.reader_id:
                    del self.session.leased[shard]
                    self.session.acked.add(shard)
        elif kind == WANT and self.session is not None:
            wanted = struct.unpack_from(f"<{struct.unpack_from('<I', payload)[0]}I", payload, 4)
            self.wanted += wanted
            if not wanted:
                todo = set(self.session.todo)
                self.session.todo = [shard for shard in self.wanted if shard in todo]
                self.session.todo += todo.difference(self.wanted)
                self.wanting = False
        elif kind == BAD:
            shard = struct.unpack("<I", payload)[0]
            node.bad.append(shard)
            self._send_shard(shard)
        elif kind == DRAINING and self.session is not None:
            received = struct.unpack("<Q", payload)[0]
            node.draining.append(received)
            assert received <= self.sent
            self.session.drained[self.reader_id] = received == self.sent
        elif kind == CLOSE and self.session is not None:
            complete = payload[0] == 1
            self.session.complete.append(complete)
            for shard, reader in list(self.session.leased.items()):
                if reader == self.reader_id:
                    del self.session.leased[shard]
                    if complete:
                        self.session.acked.add(shard)
                    elif not self.ended:
                        self.session.todo.append(shard)
            self.session = None
        elif kind == DELIVERED:
            size = struct.unpack_from("<H", payload)[0]
            count = struct.unpack_from("<I", payload, 2 + size)[0]
            shards = struct.unpack_from(f"<{count}I", payload, 6 + size)
            node.delivered.append((payload[2 : 2 + size].decode(), shards))

    def _open(self, payload: bytes, fds: list[int]) -> None:
        opened = opened_of(payload, fds, self.held)
        self.node.opens.append(opened)
        self.wanting = opened.order == 2
        self.session_id = opened.session_id or f"s{len(self.node.sessions)}"
        self.reader_id, self.credit = opened.reader_id, opened.credit_bytes
        if self.session_id not in self.node.sessions:
            bits = opened.done or bytes((len(self.node.shards) + 7) // 8)
            todo = [i for i in range(len(self.node.shards)) if not bits[i // 8] >> i % 8 & 1]
            epoch = sum(before.job == opened.job for before in self.node.sessions.values())
            self.node.sessions[self.session_id] = Session(todo, opened.job, epoch)
        if self.node.on_open is not None and self.node.on_open(self):
            return
        self.session = self.node.sessions[self.session_id]
        mine = [shard for shard, reader in self.session.leased.items() if reader == self.reader_id]
        for shard in mine:
            if shard not in self.held:
                del self.session.leased[shard]
                self.session.todo.append(shard)
        if self.node.todo_key is not None:
            self.session.todo.sort(key=self.node.todo_key)
        dropped = [shard for shard in self.held if self.session.leased.get(shard) != self.reader_id]
        if dropped:
            self.send(frame(DROPPED, struct.pack(f"<I{len(dropped)}I", len(dropped), *dropped)))
        records = sum(shard.records for shard in self.node.shards)
        numbers = struct.pack("<QQQ", self.session.epoch, len(self.node.shards), records)
        self.send(frame(OPENED, text(self.session_id) + numbers))

    def _ticket(self, payload: bytes) -> None:
        size = struct.unpack_from("<H", payload)[0]
        key, at = payload[2 : 2 + size].decode(), 2 + size
        size = struct.unpack_from("<H", payload, at)[0]
        provider, at = payload[at + 2 : at + 2 + size].decode(), at + 2 + size
        repetition, asker = struct.unpack_from("<QB", payload, at)
        if asker == LATE_READER:
            self.node.late_readers.append(key)
            self.send(frame(TICKET_REPLY, struct.pack("<B", True) + text("")))
            return
        restored = asker == RESTORED_PROVIDER
        self.node.tickets.append((key, provider, repetition, restored))
        if self.node.ticket is not None:
            reply = self.node.ticket(key, provider, repetition, restored)
            if reply is not None:
                self.send(reply)
                return
        session_id = self.node.session_of_provider.setdefault((provider, repetition), f"{key}-{provider}-{repetition}")
        session = self.node.sessions.get(session_id)
        end = session is not None and not session.todo and not session.leased
        self.node.ends_told += end
        self.send(frame(TICKET_REPLY, struct.pack("<B", end) + text("" if end else session_id)))

    def advance(self) -> None:
        session = self.session
        if session is None or self.ended or self.gone or self.wanting:
            return
        while self.node.serving and self.credit > 0 and session.todo:
            shard = session.todo.pop(0)
            session.leased[shard] = self.reader_id
            self.credit -= self.node.shards[shard].length_bytes
            session.drained[self.reader_id] = False
            self._send_shard(shard)
        if session.todo:
            return
        if all(session.drained.get(reader, False) for reader in session.leased.values()):
            self.ended = True
            self.send(frame(END))

    def _send_shard(self, number: int) -> None:
        self.sent += 1
        if self.node.on_shard is None or not self.node.on_shard(self, number):
            self.send_shard(number)

    def send_shard(self, number: int, **changes: int) -> None:
        """The SHARD frame as it should be, but for `changes` (see `fields`)."""
        shard = self.node.shards[number]
        fields = {
            "shard": number,
            "kind": int(self.node.sealed),
            "offset": 0 if self.node.sealed else shard.offset,
            "length": shard.length_bytes,
            "crc32c": shard.crc32c,
            "records": shard.records,
            "unit": 0,
            "position": 0,
            "block_offset": 0,
            "block_records": 0,
            "block_shards": 0,
        }
        fields |= (self.node.place(self.session, number) if self.node.place else {}) | changes
        fd = sealed_copy(shard) if self.node.sealed else os.open(shard.path, os.O_RDONLY)
        try:
            self.send(frame(SHARD, struct.pack("<IBQQIIIQIII", *fields.values())), [fd])
        finally:
            os.close(fd)
