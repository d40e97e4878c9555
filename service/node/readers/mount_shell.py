"""One mount's connection: GET in; GOT with a descriptor, or FAILED, out.

A mount knows no sessions: it asks for a shard when a file of it is read, and the node answers with what it has, or gets
it from owner or store. Who can name digest, number and hash of a shard may have it, as on the data port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from absl import logging

from tfquiver import errors
from tfquiver.content.digest import Digest
from tfquiver.service.node.memory.ready_shard import ReadyShard
from tfquiver.service.node.readers.shard_fetches import shard_name
from tfquiver.service.node.readers.shell import Shell
from tfquiver.service.node.shards.shard_source import ShardSource
from tfquiver.wire import mount_frames
from tfquiver.wire import reader_frames as frames

MAX_ASKED = 256


class MountShell(Shell):
    """Args:
    digests: the digest with that id; raises NotFoundError.
    owner: node id of the node that should keep the shard of that hash.
    deadline_s: of one shard.
    """

    peer = "a mount"

    def __init__(
        self,
        source: ShardSource,
        digests: Callable[[bytes], Awaitable[Digest]],
        owner: Callable[[bytes], str],
        deadline_s: float,
    ) -> None:
        self._source, self._digests, self._owner, self._deadline_s = source, digests, owner, deadline_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._takes = asyncio.Event()  # the peer takes what it is sent
        self._takes.set()
        self.served_bytes = 0

    def take(self, frame: frames.Frame) -> bool:
        if not isinstance(frame, frames.Get):
            return False
        if len(self._tasks) >= MAX_ASKED:
            raise errors.ProtocolError(f"more than {MAX_ASKED} GET frames that are not answered yet")
        task = asyncio.get_running_loop().create_task(self._answer(frame))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def on_gone(self) -> None:
        for task in self._tasks:
            task.cancel()

    def on_blocked(self, blocked: bool) -> None:
        if blocked:
            self._takes.clear()
        else:
            self._takes.set()

    async def _answer(self, get: frames.Get) -> None:
        try:
            ready = await self._ready(get)
        except errors.TfquiverError as error:
            self.socket.send(mount_frames.failure(get.request, error))
        except OSError as error:  # out of descriptors or memory: others will give theirs back
            self.socket.send(
                mount_frames.failure(get.request, errors.ResourceExhaustedError(f"shard {get.shard}: {error}"))
            )
        except Exception as error:  # noqa: BLE001 - one shard's trouble must not leave its reader waiting for ever
            logging.exception("a shard for a mount")
            what = f"shard {get.shard}: the node failed: {type(error).__name__}: {error}"
            self.socket.send(mount_frames.failure(get.request, errors.TfquiverError(what)))
        else:
            try:
                await self._takes.wait()
            except asyncio.CancelledError:
                ready.close()
                raise
            self.served_bytes += ready.length_bytes
            got = frames.Got(get.request, ready.kind, ready.offset, ready.length_bytes, ready.crc32c)
            self.socket.send(got, ready.fd)

    async def _ready(self, get: frames.Get) -> ReadyShard:
        digest = await self._digests(get.digest_id)
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
