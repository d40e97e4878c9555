"""The data port: other nodes get shards here, and put those that this node owns (docs/protocol.md, "Data port")."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.grpc_plumbing import addresses
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.roles_and_tokens.identity import Authority
from tfquiver.service.node.bodies_sent_between_nodes.incoming import Incoming
from tfquiver.service.node.connections_between_nodes.connection_slots import to_give_way
from tfquiver.service.node.connections_between_nodes.data_connection import DataConnection, Services
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.sizes_durations_amounts.amounts import many

MAX_CONNECTIONS = 512
_THREADS = 8
_BACKLOG = 1024  # who finds no place waits a second before it knocks again: all nodes may come at once
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_S = 0.1


class DataPort:
    """Lives on one loop. Every connection is one task; what a peer does wrong ends its connection, nothing else.

    Args:
      digests: the digest with an id; raises NotFoundError. Who cannot name digest and hash of a shard does not get it.
      incoming: what others put here; closed with this.
      own_token: what this node proves to hold.
      stays: whether what is here of that digest may be moved to other nodes.
      fetch_deadline_s: a shard that takes longer to be had is answered with "not here".
    """

    def __init__(
        self,
        node_id: str,
        source: ShardSource,
        disk: DiskCache,
        digests: Callable[[bytes], Awaitable[Digest]],
        authority: Authority,
        *,
        incoming: Incoming | None = None,
        own_token: str = "",
        stays: Callable[[bytes], Awaitable[bool]] | None = None,
        fetch_deadline_s: float = 120.0,
        stall_s: float = 15.0,
    ) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "data-port")
        self._incoming = incoming or Incoming(disk)
        self._services = Services(
            node_id, source, disk, digests, authority, self._pool, self._incoming, fetch_deadline_s, stall_s, own_token,
            stays or _all_stay,
        )  # fmt: skip
        self._connections: dict[DataConnection, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None

    async def start(self, host: str, port: int) -> int:
        """Returns the port it listens on. Raises UnavailableError naming the address when it cannot."""
        loop = asyncio.get_running_loop()
        try:
            self._listener = await asyncio.to_thread(addresses.listen, host, port, _BACKLOG)
        except OSError as error:
            raise errors.UnavailableError(f"the data port cannot listen on {host}:{port}: {error}") from error
        self._listener.setblocking(False)
        self._accepting = loop.create_task(self._accept(self._listener))
        bound: int = self._listener.getsockname()[1]
        return bound

    @property
    def busy(self) -> int:
        """Connections on which a peer has asked for something that it has not got yet, or is sending something."""
        return sum(connection.idle_since_s is None for connection in self._connections)

    async def stop(self) -> None:
        """Closes every connection and waits for its end."""
        tasks = [*self._connections.values(), *self._leaving, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener:
            self._listener.close()
        await asyncio.to_thread(self._pool.shutdown, True)
        await self._incoming.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    await asyncio.sleep(_PAUSE_S)  # connections that end give theirs back
                continue
            if len(self._connections) >= MAX_CONNECTIONS and not self._make_place(address[0]):
                sock.close()
                continue
            connection = DataConnection(sock, address[0], self._services)
            task = loop.create_task(connection.run())
            self._connections[connection] = task
            task.add_done_callback(functools.partial(self._ended, connection))

    def _make_place(self, address: str) -> bool:
        """For a connection from there. A peer whose idle connection is closed makes another when it needs one."""
        idle = to_give_way(self._connections)
        every_n_seconds(
            logging.WARNING, "data port: %s; for one from %s, %s", 10,
            many(len(self._connections), "connection"), address,
            f"an idle one from {idle.address} is closed" if idle else "there is no place: all are busy",
        )  # fmt: skip
        if idle is None:
            return False
        task = self._connections.pop(idle)
        task.cancel()
        self._leaving.add(task)
        return True

    def _ended(self, connection: DataConnection, task: asyncio.Task[None]) -> None:
        connection.close()  # one that was cancelled before it began has not done so itself
        self._connections.pop(connection, None)
        self._leaving.discard(task)


async def _all_stay(digest_id: bytes) -> bool:
    return True
