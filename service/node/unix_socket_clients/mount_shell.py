"""One mount's connection: GET and WHICH in; GOT and THESE with a descriptor, or FAILED, out.

A mount knows no sessions: it asks for a shard when a file of it is read, and the node answers with what it has, or gets
it from owner or store. Who can name digest, number and hash of a shard may have it, as on the data port.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats import mount_frames
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.service.node.coordinator_link.shown_by_mounts import ShownByMounts
from tfquiver.service.node.reader_sessions.numbered_shards import shard_name
from tfquiver.service.node.sealed_memory_of_checked_shards import sealed_memory
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.service.node.unix_socket_clients.shell import Shell

MAX_ASKED = 256
_MOST_SHOWN = 16


class MountShell(Shell):
    """Args:
    digests: the digest with that id; raises NotFoundError.
    owner: node id of the node that should keep the shard of that hash.
    deadline_s: of one shard.
    shown: told what this one shows, and reads.
    """

    peer = "a mount"

    def __init__(
        self,
        source: ShardSource,
        digests: Callable[[bytes], Awaitable[Digest]],
        owner: Callable[[bytes], str],
        deadline_s: float,
        shown: ShownByMounts,
    ) -> None:
        self._source, self._digests, self._owner, self._deadline_s = source, digests, owner, deadline_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._takes = asyncio.Event()  # the peer takes what it is sent
        self._takes.set()
        self._looking = asyncio.Lock()  # one bitmap at a time: they may be large
        self._shown, self._shows = shown, set[bytes]()
        self.served_bytes = 0

    def take(self, frame: frames.Frame) -> bool:
        if not isinstance(frame, frames.Get | frames.Which):
            return False
        if len(self._tasks) >= MAX_ASKED:
            raise errors.ProtocolError(f"more than {MAX_ASKED} frames that are not answered yet")
        work = self._get(frame) if isinstance(frame, frames.Get) else self._which(frame)
        task = asyncio.get_running_loop().create_task(self._answer(frame.request, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def on_gone(self) -> None:
        for task in self._tasks:
            task.cancel()
        while self._shows:
            self._shown.ends(self._shows.pop())

    def on_blocked(self, blocked: bool) -> None:
        if blocked:
            self._takes.clear()
        else:
            self._takes.set()

    async def _answer(self, request: int, work: Awaitable[tuple[frames.Frame, int]]) -> None:
        descriptor = -1
        try:
            answer, descriptor = await work
        except errors.TfquiverError as error:
            answer = mount_frames.failure(request, error)
        except OSError as error:  # out of descriptors or memory: others will give theirs back
            answer = mount_frames.failure(request, errors.ResourceExhaustedError(f"for a mount: {error}"))
        except Exception as error:  # noqa: BLE001 - one shard's trouble must not leave its reader waiting for ever
            logging.exception("for a mount")
            what = errors.TfquiverError(f"the node failed: {type(error).__name__}: {error}")
            answer = mount_frames.failure(request, what)
        try:
            await self._takes.wait()  # who takes nothing has soon asked for more than is answered at a time
        except asyncio.CancelledError:
            if descriptor >= 0:
                os.close(descriptor)
            raise
        self.socket.send(answer, descriptor)

    async def _get(self, get: frames.Get) -> tuple[frames.Frame, int]:
        ready = await self._ready(get)
        self.served_bytes += ready.length_bytes
        return frames.Got(get.request, ready.kind, ready.offset, ready.length_bytes, ready.crc32c), ready.fd

    async def _which(self, which: frames.Which) -> tuple[frames.Frame, int]:
        async with self._looking:
            digest = await self._known(which.digest_id)
            bitmap = await self._source.resident(digest)
            return frames.These(which.request, digest.num_shards), sealed_memory.sealed(bitmap)

    async def _known(self, digest_id: bytes) -> Digest:
        digest = await self._digests(digest_id)
        if digest_id not in self._shows and len(self._shows) < _MOST_SHOWN:  # a mount shows one
            self._shows.add(digest_id)
            self._shown.begins(digest_id)
        return digest

    async def _ready(self, get: frames.Get) -> ReadyShard:
        digest = await self._known(get.digest_id)
        self._shown.read(get.digest_id)
        if get.shard >= digest.num_shards or digest.hashes[get.shard].tobytes() != get.hash:
            raise errors.PermissionError_(f"{get.hash.hex()} is not the hash of shard {get.shard} of that digest")
        if get.again:
            await self._source.drop(get.hash, "a mount found it bad")
        try:
            async with asyncio.timeout(self._deadline_s):
                return await self._source.get(digest, get.shard, self._owner(get.hash))
        except TimeoutError as error:
            name = shard_name(digest, get.shard)
            raise errors.UnavailableError(f"{name}: not had within {self._deadline_s:g} s") from error
