"""One request for shards that follow one another in a file: who waits for which, and what has come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.stores import ObjectStore, attempts
from tfquiver.stores.object_store import Parts


@dataclass(frozen=True, slots=True)
class Asked:
    """A shard that somebody waits for."""

    digest: Digest
    ref: ShardRef
    outcome: asyncio.Future[VerifiedShard]

    @property
    def where(self) -> str:
        return f"{self.ref.file.uri} at {self.ref.offset}"

    def fail(self, error: BaseException) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)


class Overtaken(Exception):
    """All that a pass was to bring has come by another one, or nobody waits any more."""


class OneRange:
    """Lives on one loop; `read` alone in threads. Several may read it at a time: of each part the first to come counts.

    Args:
      damaged: told, on the loop, of a part whose bytes are not those of the digest.
    """

    def __init__(self, asked: Sequence[Asked], damaged: Callable[[Asked], None]) -> None:
        self.asked, self._damaged = list(asked), damaged
        self._loop = asyncio.get_running_loop()
        self._come = [False] * len(asked)
        self.whole: asyncio.Future[None] = self._loop.create_future()
        self.began_s = self.moved_s = self._loop.time()
        self.first_after_s: float | None = None  # until the first part
        self.count = self.size_bytes = 0
        self.over = False  # read in threads

    @property
    def missing(self) -> list[Asked]:
        return [asked for asked, come in zip(self.asked, self._come, strict=True) if not come]

    @property
    def first_missing(self) -> int:
        return self._come.index(False)

    def stop(self) -> None:
        """Nobody waits any more."""
        self.over = True

    def read(self, store: ObjectStore, first: int, deadline_s: float, busy: Callable[[], None]) -> None:
        """Blocks. Parts from `first` on; `busy`: told on the loop when the store asks for less."""
        file, at = self.asked[first].ref.file, first

        def take(part: bytes) -> None:
            nonlocal at
            if self.over:
                raise Overtaken
            number, at = at, at + 1
            if self._come[number]:
                return
            asked = self.asked[number]
            found: VerifiedShard | None = None
            with contextlib.suppress(errors.DataLossError):  # read again by itself, where it is said what is wrong
                found = VerifiedShard.check(asked.ref.hash, part, asked.where)
            self._loop.call_soon_threadsafe(self._came, number, found)

        token = attempts.on_busy.set(lambda: self._tell(busy))
        try:
            lengths = [asked.ref.length_bytes for asked in self.asked[first:]]
            parts = Parts(file.uri, self.asked[first].ref.offset, lengths, file.generation)
            store.read_parts(parts, deadline_s, take)
        finally:
            attempts.on_busy.reset(token)

    def _tell(self, busy: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(busy)

    def _came(self, number: int, found: VerifiedShard | None) -> None:
        if self._come[number]:
            return
        self._come[number] = True
        self.moved_s = self._loop.time()
        if self.first_after_s is None:
            self.first_after_s = self.moved_s - self.began_s
        asked = self.asked[number]
        self.count += 1
        self.size_bytes += asked.ref.length_bytes
        if found is None:
            self._damaged(asked)
        elif not asked.outcome.done():
            asked.outcome.set_result(found)
        if self.count == len(self.asked):
            self.over = True
            if not self.whole.done():
                self.whole.set_result(None)
