"""The data port: other nodes get shards here, and put those that this node owns (docs/protocol.md, "Data port")."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from absl import logging

from tfquiver import addresses, errors
from tfquiver.digest import Digest
from tfquiver.identity import Authority
from tfquiver.service.node.data_connection import DataConnection, Services
from tfquiver.service.node.shard_source import ShardSource
from tfquiver.service.node.store.disk import DiskStore

_MAX_CONNECTIONS = 512
_THREADS = 8
_BACKLOG = 64
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_S = 0.1


class DataPort:
    """Lives on one loop. Every connection is one task; what a peer does wrong ends its connection, nothing else.

    Args:
      digests: the digest with an id; raises NotFoundError. Who cannot name digest and hash of a shard does not get it.
      own_token: what this node proves to hold.
      fetch_deadline_s: a shard that takes longer to be had is answered with "not here".
    """

    def __init__(
        self,
        node_id: str,
        source: ShardSource,
        disk: DiskStore,
        digests: Callable[[bytes], Awaitable[Digest]],
        authority: Authority,
        *,
        own_token: str = "",
        fetch_deadline_s: float = 120.0,
        stall_s: float = 15.0,
    ) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "data-port")
        self._services = Services(
            node_id, source, disk, digests, authority, self._pool, fetch_deadline_s, stall_s, own_token
        )
        self._connections: set[asyncio.Task[None]] = set()
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

    async def stop(self) -> None:
        """Closes every connection and waits for its end."""
        tasks = [*self._connections, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener:
            self._listener.close()
        await asyncio.to_thread(self._pool.shutdown, True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    await asyncio.sleep(_PAUSE_S)  # connections that end give theirs back
                continue
            if len(self._connections) >= _MAX_CONNECTIONS:
                logging.warning("data port: %d connections already, refused %s", len(self._connections), address[0])
                sock.close()
                continue
            task = loop.create_task(DataConnection(sock, address[0], self._services).run())
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
