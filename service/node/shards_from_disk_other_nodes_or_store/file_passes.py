"""Compressed files have no way in but their start: one pass over a file serves everybody who wants a shard of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Set
from concurrent.futures import Future
from dataclasses import dataclass, field

from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.log_files_and_lines.logs import telling
from tfquiver.scanning import streams
from tfquiver.service.node.reading_the_object_store.bounded_reads import BoundedReads
from tfquiver.service.node.reading_the_object_store.damaged import Damaged, patience_s, stale
from tfquiver.service.node.reading_the_object_store.metered_store import MeteredStore
from tfquiver.service.node.reading_the_object_store.origins import Origins
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.stores.attempts import Attempts

_Key = tuple[bytes, int, bool]  # digest id, file, and whether it is read past the cache


@dataclass(slots=True)
class _Pass:
    """`next_index`: shards before it have gone by. `wanted`: who waits for which. Guarded by `lock`."""

    digest: Digest
    file_index: int
    keep: bool
    next_index: int
    wanted: dict[int, Future[VerifiedShard]] = field(default_factory=dict)
    over: Future[None] = field(default_factory=Future)
    chunks: int = 0  # that have been read
    stop: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    unkept: Set[bytes] = frozenset()  # of its shards, though `keep` says so
    placing: threading.Lock = field(default_factory=threading.Lock)  # a shard, by `unkept`; taken without `lock`

    def hashes(self) -> Iterator[bytes]:
        for index in self.digest.file_shards(self.file_index):
            yield self.digest.hashes[index].tobytes()

    def keep_none(self, hashes: Set[bytes]) -> None:
        """Returns when none of these is being placed; none will be. Blocks."""
        with self.placing:
            self.unkept = self.unkept | hashes

    def place(self, shard: VerifiedShard, place: Callable[[VerifiedShard], object]) -> None:
        with self.placing:
            if self.keep and not self.stop and shard.hash not in self.unkept:
                place(shard)

    def want(self, index: int) -> Future[VerifiedShard] | None:
        """What will hold the shard, or None when it has gone by."""
        with self.lock:
            return self.wanted.setdefault(index, Future()) if index >= self.next_index else None

    def has_come(self, index: int) -> Future[VerifiedShard] | None:
        with self.lock:
            self.next_index = index + 1
            return self.wanted.pop(index, None)

    def counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.chunks += 1
            yield chunk


class FilePasses:
    """Lives on one loop. A pass that hangs gives up its place, and all who wait for it are told (see BoundedReads).

    Args:
      reads: makes the places of a bucket or mount.
    """

    def __init__(
        self,
        store_for: Callable[[str, bytes], MeteredStore],
        place: Callable[[VerifiedShard], object],
        again: Attempts,
        deadline_s: float,
        reads: Callable[[str], BoundedReads],
        origin: Callable[[str, bytes], Awaitable[str]],
    ) -> None:
        self._store_for, self._place, self._again, self._deadline_s = store_for, place, again, deadline_s
        self._reads, self._origin = Origins(reads), origin
        self._passes: dict[_Key, _Pass] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def fetch(self, digest: Digest, ref: ShardRef, keep: bool, bypass: bool = False) -> VerifiedShard | None:
        """As Fetcher.fetch: None when the pass that is over had gone by the shard before it was wanted."""
        key = (digest.digest_id, ref.file_index, bypass)
        current = self._passes.get(key)
        started = current is None
        if current is None:
            first = digest.file_shards(ref.file_index).start
            current = self._passes[key] = _Pass(digest, ref.file_index, keep, first)
        future = current.want(ref.index)
        if started:
            task = asyncio.get_running_loop().create_task(self._run(key, current))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if future is None:
            await asyncio.shield(asyncio.wrap_future(current.over))
            return None
        return await asyncio.shield(asyncio.wrap_future(future))

    def hashes(self) -> set[bytes]:
        """Of what goes by now, and may be kept."""
        return {hash for current in self._passes.values() if current.keep for hash in current.hashes()}

    async def keep_none(self, hashes: Set[bytes]) -> None:
        """Of what goes by now none of these is kept any more, when it returns."""
        for current in [one for one in self._passes.values() if one.keep]:
            await asyncio.to_thread(current.keep_none, hashes)

    async def close(self) -> None:
        for current in self._passes.values():
            current.stop = True
        await asyncio.gather(*(reads.close() for reads in self._reads))
        await asyncio.gather(*self._running)

    async def _run(self, key: _Key, current: _Pass) -> None:
        trouble: errors.TfquiverError | None = None
        uri = current.digest.files[current.file_index].uri
        try:
            reads = self._reads.at(await self._origin(uri, current.digest.digest_id))
            with telling(dataset=current.digest.name, digest=current.digest.digest_id, alone=True):
                await reads.run(uri, self._go, current, at=lambda: current.chunks)
        except errors.TfquiverError as error:
            trouble = error
        except Exception as error:  # noqa: BLE001 - whoever waits has to be told, whatever it was
            trouble = errors.TfquiverError(f"{type(error).__name__}: {error}")
        finally:
            current.stop = True
            self._end(key, current, trouble)

    def _end(self, key: _Key, current: _Pass, trouble: errors.TfquiverError | None) -> None:
        del self._passes[key]
        with current.lock:
            left, current.wanted = current.wanted, {}
        uri = current.digest.files[current.file_index].uri
        for index, future in left.items():
            future.set_exception(trouble or errors.TfquiverError(f"{uri}: the pass did not come to shard {index}"))
        current.over.set_result(None)

    def _go(self, current: _Pass) -> None:
        """A damaged stream is read again from its start, with backoff, for as long as that gets it further."""
        file = current.digest.files[current.file_index]
        store = self._store_for(file.uri, current.digest.digest_id)
        while True:
            before = current.next_index
            try:
                self._again.run(
                    file.uri, patience_s(store, self._deadline_s), lambda _: self._pass_over(current, store)
                )
                return
            except errors.UnavailableError as error:
                if not isinstance(error.__cause__, Damaged):
                    raise
                if current.next_index == before:
                    raise stale(error, file) from error

    def _pass_over(self, current: _Pass, store: MeteredStore) -> None:
        digest = current.digest
        file = digest.files[current.file_index]
        reader = _Reader(current.counted(streams.raw_chunks(file, store, 0, self._deadline_s)))
        try:
            for index in digest.file_shards(current.file_index):
                if current.stop:
                    raise errors.CancelledError_(f"{file.uri}: the node is stopping")
                ref = digest.shard(index)
                raw = reader.take(ref.length_bytes)
                if index < current.next_index:  # it has gone by in an attempt before this one
                    continue
                where = f"{file.uri} at {ref.offset} of its uncompressed bytes"
                shard = VerifiedShard.check(ref.hash, raw, where)
                current.place(shard, self._place)
                if future := current.has_come(index):
                    future.set_result(shard)
        except errors.DataLossError as error:
            raise Damaged(str(error)) from error


class _Reader:
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def take(self, length: int) -> bytes:
        """The next `length` bytes, or fewer at the end."""
        pieces, missing = [], length
        while missing > 0:
            if not self._rest:
                self._rest = next(self._chunks, b"")
                if not self._rest:
                    break
            pieces.append(self._rest[:missing])
            self._rest = self._rest[missing:]
            missing -= len(pieces[-1])
        return b"".join(pieces)
