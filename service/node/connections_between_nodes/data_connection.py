"""The serving end of one data port connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.plain_text import plain
from tfquiver.roles_and_tokens.identity import Authority, check_data_port
from tfquiver.service.node.bodies_sent_between_nodes.body_sender import Body, BodySender
from tfquiver.service.node.bodies_sent_between_nodes.incoming import Incoming
from tfquiver.service.node.connections_between_nodes import data_frames as frames
from tfquiver.service.node.connections_between_nodes import peer_proof
from tfquiver.service.node.connections_between_nodes.body_receiver import BodyReceiver
from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk.stored_body import StoredBody
from tfquiver.service.node.shards_from_disk_other_nodes_or_store import reach as reaches
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource

HELLO_S = 10.0
WORKING_S = 1.0
_WARN_S = 10.0
MAX_ASKED = 4096
_AT_ONCE = 8  # shards of one connection that are being made ready


@dataclass(frozen=True, slots=True)
class Services:
    """What all connections share."""

    node_id: str
    source: ShardSource
    disk: DiskCache
    digests: Callable[[bytes], Awaitable[Digest]]
    authority: Authority
    pool: Executor  # for what goes out: a slow disk must not keep shards from being sent
    incoming: Incoming
    fetch_deadline_s: float
    stall_s: float
    own_token: str  # that WELCOME proves
    stays: Callable[[bytes], Awaitable[bool]]


class DataConnection:
    def __init__(self, sock: socket.socket, peer: str, services: Services) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._sock, self._peer, self._services = sock, peer, services
        self.address, self.known = peer, False
        self._loop = asyncio.get_running_loop()
        self._sender = BodySender(sock, services.pool, services.stall_s)
        self._receiver = BodyReceiver(sock, services.stall_s)
        self._sending = asyncio.Lock()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._asked = 0
        self._last_use_s = self._loop.time()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def idle_since_s(self) -> float | None:
        """None: it is about something."""
        return None if self._asked or self._sending.locked() else self._last_use_s

    async def run(self) -> None:
        """Until the peer goes, breaks the protocol, stalls, or this is cancelled. Raises nothing else."""
        try:
            await self._serve()
        except errors.TfquiverError as error:
            _warn(self._peer, error)
            await self._farewell(error)
        except (OSError, EOFError) as error:
            logging.vlog(1, "data port, %s: %s", self._peer, error)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._sock.close()

    def close(self) -> None:
        """Harmless when repeated."""
        self._sock.close()

    async def _serve(self) -> None:
        services = self._services
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await self._receiver.frame(only=frames.Hello)
        except TimeoutError as error:
            raise errors.DeadlineError(f"no HELLO came within {HELLO_S:g} s") from error
        if not isinstance(hello, frames.Hello):
            raise errors.ProtocolError(f"the first frame is {type(hello).__name__}, not Hello")
        check_data_port(await services.authority.identify(hello.token))
        self._peer = f"{plain(hello.node_id)} ({self._peer})"
        shown = peer_proof.proof(services.own_token, hello.nonce, services.node_id)
        await self._send(frames.Welcome(services.node_id, shown))
        self.known = True
        self._spawn(self._say_working)
        while True:
            frame = await self._receiver.frame()
            self._last_use_s = self._loop.time()
            match frame:
                case frames.Get() | frames.GetWithin():
                    self._asked += len(frame.wants)
                    if self._asked > MAX_ASKED:
                        raise errors.ProtocolError(f"more than {MAX_ASKED} shards asked for and not yet sent")
                    self._spawn(self._get, frame)
                case frames.Put():
                    self._asked += 1
                    await self._put(frame.body)
                    self._asked -= 1
                case frames.Bad():
                    self._asked += 1
                    await self._bad(frame)  # it reads a whole entry: the next one waits
                    self._asked -= 1
                case _:
                    raise errors.ProtocolError(f"a client does not send {type(frame).__name__}")

    async def _get(self, get: frames.Get | frames.GetWithin) -> None:
        """First, in one turn of a thread, what stands on the disk; then the rest as it can be had."""
        try:
            digest = await self._services.digests(get.digest_id)
        except errors.TfquiverError as error:
            for shard, _ in get.wants:
                await self._answer(frames.no_item(get.request, shard, frames.NOT_HERE, error))
            return
        reach = get.reach if isinstance(get, frames.GetWithin) else reaches.ANYWHERE
        if reach == reaches.ON_DISK and not await self._services.stays(get.digest_id):
            gone = errors.NotFoundError("what this node keeps of that data set is to go, or may be: it was away")
            for shard, _ in get.wants:
                await self._answer(frames.no_item(get.request, shard, frames.NOT_HERE, gone))
            return
        others: list[int] = []
        for shard, hash in get.wants:
            if shard >= digest.num_shards or digest.hashes[shard].tobytes() != hash:
                trouble = errors.PermissionError_(f"{hash.hex()} is not the hash of shard {shard} of that digest")
                await self._answer(frames.no_item(get.request, shard, frames.NOT_THAT_SHARD, trouble))
            else:
                others.append(shard)
        missing: list[int] = []
        async with self._sending:
            await self._sender.send_bodies(self._stored_here(digest, get.request, others, missing))
        self._asked -= len(others) - len(missing)
        for shard in missing:
            if reach == reaches.ON_DISK:
                gone = errors.NotFoundError(f"shard {shard} does not stand here any more")
                await self._answer(frames.no_item(get.request, shard, frames.NOT_HERE, gone))
                continue
            await self._at_once.acquire()
            self._spawn(self._fetch_and_send, digest, get.request, shard, reach == reaches.ANYWHERE)

    def _stored_here(self, digest: Digest, request: int, shards: list[int], missing: list[int]) -> Iterator[Body]:
        """Runs in a thread."""
        for shard in shards:
            opened = self._services.disk.open_entry(digest.hashes[shard].tobytes())
            if opened:
                yield _body(request, shard, StoredBody(opened.fd, entry.HEADER_BYTES, opened.header))
            else:
                missing.append(shard)

    async def _fetch_and_send(self, digest: Digest, request: int, shard: int, ask_others: bool) -> None:
        try:
            async with asyncio.timeout(self._services.fetch_deadline_s):
                stored = await self._services.source.get_stored(digest, shard, ask_others)
        except (errors.TfquiverError, OSError) as error:
            await self._answer(frames.no_item(request, shard, frames.NOT_HERE, error))
        else:
            await self._send_alone(_body(request, shard, stored))
            self._asked -= 1
        finally:
            self._at_once.release()

    async def _send_alone(self, body: Body) -> None:
        try:
            await self._sending.acquire()
        except asyncio.CancelledError:
            body.close()
            raise
        try:
            await self._sender.send_bodies(iter([body]))
        finally:
            self._sending.release()

    async def _answer(self, item: frames.Item) -> None:
        await self._send(item)
        self._asked -= 1

    async def _put(self, header: entry.Header) -> None:
        services = self._services
        trouble: errors.TfquiverError | None = None
        has_room = False
        try:
            if not services.disk.wanted(header.hash):
                raise errors.NotFoundError(f"shard {header.hash.hex()} is not kept: it was ordered away")
            services.disk.check_room(header.hash, header.disk_bytes)
            if header.hash not in services.disk:
                await services.incoming.take_room(header)
                has_room = True
        except (errors.NotFoundError, errors.ResourceExhaustedError) as error:
            trouble = error
        if not has_room:
            await self._receiver.skip(header.stored_length)
        else:
            try:
                stored = await self._receiver.body(header.stored_length)
            except BaseException:
                await services.incoming.give_back(header)
                raise
            try:
                await services.incoming.insert(header, stored, self._peer)
            except (errors.DataLossError, errors.ResourceExhaustedError) as error:
                kind = type(error).__name__
                every_n_seconds(logging.WARNING, "data port: refused an insert: %s", _WARN_S, error, apart=kind)
                trouble = error
        await self._send(frames.put_reply(header.hash, trouble))

    async def _bad(self, bad: frames.Bad) -> None:
        digest = await self._services.digests(bad.digest_id)
        if bad.shard < digest.num_shards and digest.hashes[bad.shard].tobytes() == bad.hash:
            await self._services.source.drop(bad.hash, f"{self._peer} received it damaged")

    async def _say_working(self) -> None:
        while True:
            await asyncio.sleep(WORKING_S)
            if self._asked and not self._sending.locked():
                if self._services.source.disk_hangs:  # the peer would wait for minutes; it has the store
                    raise errors.UnavailableError("the disk does not answer")
                await self._send(frames.Working())

    async def _send(self, frame: frames.Frame) -> None:
        async with self._sending:
            await self._sender.send(frames.encode(frame))

    async def _farewell(self, error: errors.TfquiverError) -> None:
        try:
            async with asyncio.timeout(1.0):
                await self._send(frames.Error(errors.code_number(error), frames.clipped(error)))
        except (OSError, TimeoutError, errors.TfquiverError):
            return  # it cannot be told

    def _spawn(self, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        task = self._loop.create_task(self._guarded(work, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        try:
            await work(*arguments)
            return
        except (errors.TfquiverError, OSError) as error:
            _warn(self._peer, error)
        except Exception as error:  # noqa: BLE001 - one peer's trouble must not end the others, nor leave it waiting
            kind = type(error).__name__
            every_n_seconds(logging.ERROR, "data port, %s", _WARN_S, self._peer, exc_info=True, apart=kind)
        # Half an answer may be on its way: the connection cannot go on.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


def _warn(peer: str, error: Exception) -> None:
    """Anybody can connect, and be refused, thousands of times a second."""
    every_n_seconds(logging.WARNING, "data port, %s: %s", _WARN_S, peer, error, apart=type(error).__name__)


def _body(request: int, shard: int, stored: StoredBody) -> Body:
    frame = frames.encode(frames.here(request, shard, stored.header, stored.left_the_store))
    return Body(frame, stored.fd, stored.offset, stored.offset + stored.header.stored_length)
