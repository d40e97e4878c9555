"""Shards that other nodes put here, on their way onto the disk: in threads of their own, with patience that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tfquiver import errors
from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.evicting_emptying_removing_leftovers.letting_go import among
from tfquiver.service.node.placing_at_owners_and_writing.placer import insert_received, memory_bytes
from tfquiver.service.node.sealed_memory_of_checked_shards.body_memory import BodyMemory

PATIENCE_S = 10.0  # who puts a shard has somebody to serve, and waits for the reply
_THREADS = 4
_ROOM_BYTES = 256 << 20  # bodies of all PUTs together, raw and stored


class Incoming:
    """Lives on one loop."""

    def __init__(self, disk: DiskCache) -> None:
        self._disk, self._room = disk, BodyMemory(_ROOM_BYTES)
        self._pool = ThreadPoolExecutor(_THREADS, "data-port-insert")
        self._under_way: dict[asyncio.Task[None], bytes] = {}  # and what is put
        self._late: set[asyncio.Task[None]] = set()  # nobody waits for these any more

    async def take_room(self, header: entry.Header) -> None:
        """In memory, for a body that is about to be received; then `insert` it, or `give_back` the room.

        Raises NeverFitsError; ResourceExhaustedError: there is none, or the disk hangs.
        """
        if self._late:
            raise errors.ResourceExhaustedError("the disk takes too long to keep what was put before")
        size_bytes = memory_bytes(header)
        if size_bytes > self._room.limit_bytes:
            raise errors.NeverFitsError(
                f"shard {header.hash.hex()}: {header.raw_length} raw bytes are too many to be put"
            )
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._room.take(size_bytes)
        except TimeoutError as error:
            raise errors.ResourceExhaustedError("too many shards that were put wait for the disk") from error

    async def give_back(self, header: entry.Header) -> None:
        await self._room.give_back(memory_bytes(header))

    async def insert(self, header: entry.Header, stored: bytes, sender: str) -> None:
        """Raises DataLossError, ResourceExhaustedError: it is not kept, or not yet, and goes on."""
        task = asyncio.get_running_loop().create_task(self._insert(header, stored, sender))
        self._under_way[task] = header.hash
        task.add_done_callback(self._over)
        await asyncio.wait([task], timeout=PATIENCE_S)
        if not task.done():
            self._late.add(task)
            raise errors.ResourceExhaustedError(f"the disk takes longer than {PATIENCE_S:g} s to keep a shard")
        task.result()

    def coming(self) -> set[bytes]:
        """Hashes of what may yet stand here, though whoever put it may have been told that it does not."""
        return set(self._under_way.values())

    async def still(self, hashes: Sequence[bytes]) -> None:
        """Returns when of these none is on its way onto the disk that is now."""
        if under_way := dict(self._under_way):
            some = await asyncio.to_thread(among, set(under_way.values()), hashes)
            if waited_for := [task for task, hash in under_way.items() if hash in some]:
                await asyncio.wait(waited_for)

    async def close(self) -> None:
        """Waits for the threads."""
        await asyncio.to_thread(self._pool.shutdown, True)
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _insert(self, header: entry.Header, stored: bytes, sender: str) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._pool, insert_received, self._disk, header, stored, sender)
        finally:
            await self.give_back(header)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it knows
