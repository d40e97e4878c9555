"""The reader socket: accepts connections of this user, or of a group; makes readers, ticket providers, deliveries."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.coordinator_link.shown_by_mounts import ShownByMounts
from tfquiver.service.node.reader_sessions import reader_session
from tfquiver.service.node.reader_sessions.reader_calls import Coordinator
from tfquiver.service.node.reader_sessions.reader_shell import ReaderShell
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.service.node.shared_batches.stream_shell import StreamShell
from tfquiver.service.node.shared_batches.streams import Streams
from tfquiver.service.node.unix_socket_clients.delivery_shell import Deliveries
from tfquiver.service.node.unix_socket_clients.frame_socket import FrameSocket
from tfquiver.service.node.unix_socket_clients.local_peer import peer_groups, peer_uid
from tfquiver.service.node.unix_socket_clients.mount_shell import MountShell
from tfquiver.service.node.unix_socket_clients.reader_group import ReaderGroup
from tfquiver.service.node.unix_socket_clients.silent_readers import PATIENCE_S, SilentReaders
from tfquiver.service.node.unix_socket_clients.ticket_shell import TicketOffice, TicketProvider
from tfquiver.service.tracing.shard_spans import ShardSpans

Peer = ReaderShell | TicketProvider | Deliveries | MountShell | StreamShell

HELLO_DEADLINE_S = 10.0
MAX_CONNECTIONS = 4096
_BACKLOG = 128
_ACCEPT_PAUSE_S = 0.1


class SessionServer:
    """Args:
    node: (node_id, incarnation).
    digests: the digest with that id; raises NotFoundError.
    group: whose members may connect, beside this user and root.
    heard: told what readers report of themselves.
    owner: node id of the node that should keep the shard of that hash, for readers here.
    streams: of batches; None: there are none.
    reader_patience_s: a reader that is silent for so long, though it promised to report, is taken for gone.
    """

    def __init__(
        self,
        node: tuple[str, str],
        coordinator: Coordinator,
        office: TicketOffice,
        source: ShardSource,
        digests: Callable[[bytes], Awaitable[Digest]],
        limits: reader_session.ReaderLimits,
        group: ReaderGroup | None = None,
        heard: Callable[[pb.ReaderReport], None] = lambda report: None,
        owner: Callable[[bytes], str] = lambda hash: "",
        spans: ShardSpans | None = None,
        streams: Streams | None = None,
        reader_patience_s: float = PATIENCE_S,
    ) -> None:
        self._node, self._coordinator, self._office, self._source = node, coordinator, office, source
        self._digests, self._limits = digests, limits
        self._group, self._heard, self._owner, self._spans = group, heard, owner, spans
        self._streams = streams
        self._listener: socket.socket | None = None
        self._connections: set[FrameSocket] = set()
        self._strangers: dict[FrameSocket, None] = {}  # of these those that have not said HELLO, oldest first
        self._readers: set[ReaderShell] = set()
        self._deliveries: set[Deliveries] = set()
        self._mounts: set[MountShell] = set()
        self.shown = ShownByMounts()
        self._by_id: dict[str, ReaderShell] = {}
        self._silent = SilentReaders[ReaderShell](reader_patience_s)
        self._looking: asyncio.TimerHandle | None = None
        self._served_bytes = 0
        self.last_use_s = 0.0

    def start(self, path: Path) -> None:
        """Listens at `path`; whatever socket stood there belonged to a process that is gone."""
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        listener.bind(str(path))
        path.chmod(0o600)
        if self._group:
            self._group.let_use(path)
        listener.listen(_BACKLOG)
        self._listener = listener
        self._used()
        asyncio.get_running_loop().add_reader(listener.fileno(), self._accept)
        self._look_for_silent()

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def readers(self) -> int:
        return sum(1 for reader in self._readers if reader.reader_id)

    @property
    def served_bytes(self) -> int:
        """Raw bytes handed to readers and mounts since start."""
        return (
            self._served_bytes
            + sum(reader.served_bytes for reader in self._readers)
            + sum(mount.served_bytes for mount in self._mounts)
        )

    def tell_all(self, error: errors.TfquiverError, fatal: bool) -> None:
        for reader in list(self._readers):
            reader.tell(error, fatal)

    def coordinator_is_new(self) -> None:
        for reader in list(self._readers):
            reader.coordinator_is_new()

    async def stop(self, deadline_s: float) -> None:
        """Takes no more readers, passes on the acknowledgements of those there are, and closes."""
        if self._listener:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        if self._looking:
            self._looking.cancel()
        farewells = [reader.finish(complete=False) for reader in self._readers]
        if farewells:
            _, late = await asyncio.wait(farewells, timeout=deadline_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in list(self._connections):
            connection.close()

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            every_n_seconds(logging.ERROR, "reader socket: cannot accept: %s", 10, error)
            self._pause_accepting()
            return
        if not self._admits(sock):
            every_n_seconds(logging.WARNING, "reader socket: refused a process of user %d", 10, peer_uid(sock))
            sock.close()
        elif len(self._connections) >= MAX_CONNECTIONS and not self._make_place():
            said = "reader socket: refused a connection: there are %d already"
            every_n_seconds(logging.ERROR, said, 10, MAX_CONNECTIONS)
            sock.close()
        else:
            self._used()
            _Greeting(self, sock)

    def _admits(self, sock: socket.socket) -> bool:
        if peer_uid(sock) in (os.geteuid(), 0):
            return True
        return self._group is not None and self._group.gid in peer_groups(sock)

    def _make_place(self) -> bool:
        """Who has connected and says nothing has a place for ten seconds only where nobody else needs it: readers say
        HELLO at once."""
        if not self._strangers:
            return False
        every_n_seconds(
            logging.WARNING, "reader socket: all %d places are taken: of %d without a word the oldest gives way", 10,
            len(self._connections), len(self._strangers),
        )  # fmt: skip
        next(iter(self._strangers)).close()
        return True

    def _pause_accepting(self) -> None:
        """Whoever waits to be accepted would wake the loop again at once; descriptors come back when others leave."""
        loop = asyncio.get_running_loop()
        assert self._listener is not None
        loop.remove_reader(self._listener.fileno())
        loop.call_later(_ACCEPT_PAUSE_S, self._accept_again)

    def _accept_again(self) -> None:
        if self._listener:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    def _used(self) -> None:
        self.last_use_s = asyncio.get_running_loop().time()

    def welcome(self, hello: frames.Hello, uid: int) -> Peer:
        if hello.role == frames.ROLE_STREAM and self._streams is not None:
            return StreamShell(self._streams, uid, hello.pid)
        if hello.role == frames.ROLE_TICKETS:
            return TicketProvider(self._office)
        if hello.role == frames.ROLE_DELIVERIES:
            deliveries = Deliveries(self._coordinator)
            self._deliveries.add(deliveries)
            return deliveries
        if hello.role == frames.ROLE_MOUNT:
            mount = MountShell(self._source, self._digests, self._owner, self._limits.fetch_deadline_s, self.shown)
            self._mounts.add(mount)
            return mount
        in_turn = hello.role == frames.ROLE_READER_IN_TURN
        reader = ReaderShell(
            hello.label, self._coordinator, self._source, self._digests, self._claim, self._node, self._limits,
            self._heard, in_turn, self._spans,
        )  # fmt: skip
        self._readers.add(reader)
        return reader

    def arrived(self, connection: FrameSocket) -> None:
        self._connections.add(connection)
        self._strangers[connection] = None

    def known(self, connection: FrameSocket) -> None:
        """It has said who it is."""
        self._strangers.pop(connection, None)

    def heard(self, peer: Peer, frame: frames.Frame) -> None:
        if isinstance(peer, ReaderShell):
            (self._silent.promises if isinstance(frame, frames.Ping) else self._silent.heard)(peer)

    def heartbeat_goes(self, next_s: float) -> None:
        """A message goes to the coordinator, which readers' acknowledgements may join. `next_s`: before the next."""
        for reader in self._readers:
            reader.heartbeat_goes(next_s)
        for deliveries in self._deliveries:
            deliveries.heartbeat_goes(next_s)

    def left(self, connection: FrameSocket, peer: Peer | None) -> None:
        self._connections.discard(connection)
        self._strangers.pop(connection, None)
        self._used()
        if isinstance(peer, ReaderShell):
            self._silent.gone(peer)
            peer.finish(complete=False).add_done_callback(lambda _: self._forget(peer))
        elif isinstance(peer, Deliveries):
            self._deliveries.discard(peer)
        elif isinstance(peer, MountShell):
            self._mounts.discard(peer)
            self._served_bytes += peer.served_bytes

    def _look_for_silent(self) -> None:
        """A process that is stopped keeps its connection, and others of its session would wait for its shards for as
        long. When it goes on it comes again, and says what it holds: what others have read since is no longer its."""
        loop = asyncio.get_running_loop()
        for reader in self._silent.look(loop.time()):
            said = (
                f"reader {reader.reader_id} has said nothing for {self._silent.patience_s:g} s: its process is "
                "stopped, or hangs; what it has not read goes to the other readers of its session"
            )
            logging.warning("%s", said)
            reader.tell(errors.UnavailableError(said), fatal=False)
            reader.finish(complete=False)
        self._looking = loop.call_later(self._silent.look_s, self._look_for_silent)

    def _forget(self, reader: ReaderShell) -> None:
        if reader in self._readers:
            self._readers.discard(reader)
            self._served_bytes += reader.served_bytes
        if self._by_id.get(reader.reader_id) is reader:
            del self._by_id[reader.reader_id]

    async def _claim(self, reader_id: str, reader: ReaderShell) -> None:
        # A reader that reconnects may be faster than the news that its old connection is gone. Were the old one
        # closed at the coordinator after the new one was opened, the new one would lose its leases.
        while (other := self._by_id.get(reader_id)) not in (None, reader):
            assert other is not None
            await asyncio.wait([other.finish(complete=False)])
            self._forget(other)
        self._by_id[reader_id] = reader

    @property
    def node_id(self) -> str:
        return self._node[0]


class _Greeting:
    """A connection until its HELLO; then it passes frames to what was made for it."""

    def __init__(self, server: SessionServer, sock: socket.socket) -> None:
        self._server, self._uid = server, peer_uid(sock)
        self._peer: Peer | None = None
        self._socket = FrameSocket(sock, self._on_frame, self._on_gone, self._on_blocked)
        server.arrived(self._socket)
        self._timer = asyncio.get_running_loop().call_later(HELLO_DEADLINE_S, self._late)

    def _late(self) -> None:
        late = errors.ProtocolError(f"no HELLO frame within {HELLO_DEADLINE_S:.0f} s")
        self._socket.bid_farewell(frames.error(late, fatal=True))

    def _on_frame(self, frame: frames.Frame, descriptors: list[int]) -> None:
        if self._peer:
            self._server.heard(self._peer, frame)
            self._peer.on_frame(frame, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        if not isinstance(frame, frames.Hello):
            raise errors.ProtocolError(f"{type(frame).__name__} frame: the first must be HELLO")
        self._timer.cancel()
        self._server.known(self._socket)
        self._peer = self._server.welcome(frame, self._uid)
        self._peer.socket = self._socket
        self._socket.send(frames.Welcome(self._server.node_id))

    def _on_gone(self) -> None:
        self._timer.cancel()
        self._server.left(self._socket, self._peer)
        if self._peer:
            self._peer.on_gone()

    def _on_blocked(self, blocked: bool) -> None:
        if self._peer:
            self._peer.on_blocked(blocked)
