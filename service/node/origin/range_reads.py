"""Shards of uncompressed files from remote stores: neighbours in one request, late ones asked for twice, as many
requests at a time as the store has use for.

A shard whose bytes are wrong, or that makes a request fail which others may have nothing to do with, is read alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from tfquiver import errors
from tfquiver.content.digest import Digest, ShardRef
from tfquiver.service.node.memory.verified import VerifiedShard
from tfquiver.service.node.origin.bounded_reads import BoundedReads
from tfquiver.service.node.origin.hedging import Hedges
from tfquiver.service.node.origin.one_range import Asked, OneRange
from tfquiver.service.node.origin.parallelism import Parallelism
from tfquiver.service.node.origin.range_plan import RangePlan
from tfquiver.stores import ObjectStore

_MOST_PLACES = 64  # that are remembered though nothing is read from them
# What the other shards of a request would meet, too.
_OF_ALL = (
    errors.UnavailableError,
    errors.CancelledError_,
    errors.UnauthenticatedError,
    errors.PermissionError_,
    errors.ResourceExhaustedError,
)


class _Place:
    """A bucket: what is wanted of it, and what is known of it."""

    def __init__(self, now: float) -> None:
        self.plan: RangePlan[Asked] = RangePlan()
        self.parallelism, self.hedges = Parallelism(now), Hedges()
        self.ranges: set[OneRange] = set()
        self.timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        return not self.ranges and not len(self.plan)


class RangeReads:
    """Lives on one loop.

    Args:
      store_for: the store of a URI, reached as the users of a data set (its digest id) reach it; called in threads.
      alone: blocks; one shard by itself, read again while its bytes are wrong.
      reads: the threads.
    """

    def __init__(
        self,
        store_for: Callable[[str, bytes], ObjectStore],
        alone: Callable[[Digest, ShardRef], VerifiedShard],
        reads: BoundedReads,
        deadline_s: float,
    ) -> None:
        self._store_for, self._alone, self._reads, self._deadline_s = store_for, alone, reads, deadline_s
        self._places: dict[str, _Place] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def fetch(self, digest: Digest, ref: ShardRef, bypass: bool) -> VerifiedShard:
        """Raises as Fetcher.fetch. `bypass`: in one request only with others that bypass the cache."""
        loop = asyncio.get_running_loop()
        asked = Asked(digest, ref, loop.create_future())
        if self._closed:
            raise errors.CancelledError_(f"{asked.where}: the node is stopping")
        place = self._place(ref.file.uri, loop.time())
        key = (digest.digest_id, ref.file_index, bypass)
        number = place.plan.want(key, ref.offset, ref.length_bytes, loop.time(), asked)
        self._start(place)
        try:
            return await asked.outcome
        except asyncio.CancelledError:
            place.plan.withdraw(number)
            raise

    def stop(self) -> None:
        """Nobody waits any more: what is under way ends with the part that it is at."""
        self._closed = True
        for place in self._places.values():
            for one in place.ranges:
                one.stop()
            if place.timer:
                place.timer.cancel()
            while run := place.plan.next(float("inf")):
                for want in run:
                    want.what.fail(errors.CancelledError_(f"{want.what.where}: the node is stopping"))

    async def close(self) -> None:
        """After the threads have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _place(self, uri: str, now: float) -> _Place:
        parts = urlsplit(uri)
        name = f"{parts.scheme}://{parts.netloc}"
        place = self._places.pop(name, None) or _Place(now)
        if len(self._places) >= _MOST_PLACES:
            for other in [other for other, there in self._places.items() if there.idle][:1]:
                del self._places[other]
        self._places[name] = place
        return place

    def _start(self, place: _Place) -> None:
        """As many requests as may be under way now."""
        now = asyncio.get_running_loop().time()
        while not self._closed and len(place.ranges) < place.parallelism.limit:
            if not (run := place.plan.next(now)):
                break
            one = OneRange([want.what for want in run], self._read_alone)
            place.ranges.add(one)
            self._spawn(self._bring(place, one))
        due_s = place.plan.due_s()
        if due_s is None or self._closed:
            return
        if len(place.ranges) >= place.parallelism.limit:
            place.parallelism.met()
        elif place.timer is None:
            place.timer = asyncio.get_running_loop().call_at(due_s, self._due, place)

    def _due(self, place: _Place) -> None:
        place.timer = None
        self._start(place)

    async def _bring(self, place: _Place, one: OneRange) -> None:
        trouble: BaseException = errors.CancelledError_(f"{one.asked[0].where}: the node is stopping")
        try:
            await self._read(place, one)
        except errors.TfquiverError as error:
            trouble = error
        except Exception as error:  # noqa: BLE001 - whoever waits has to be told, whatever it was
            trouble = errors.TfquiverError(f"{one.asked[0].where}: {type(error).__name__}: {error}")
        finally:
            one.stop()
            place.ranges.discard(one)
            for asked in one.missing:
                if self._closed or len(one.asked) == 1 or isinstance(trouble, _OF_ALL):
                    asked.fail(trouble)
                else:
                    self._read_alone(asked)
            place.parallelism.ended(asyncio.get_running_loop().time(), one.size_bytes)
            if one.first_after_s is not None:
                place.hedges.came(one.first_after_s)
            self._start(place)

    async def _read(self, place: _Place, one: OneRange) -> None:
        """Returns when all has come. Raises when nobody reads it any more, and something is missing."""
        loop, hedges = asyncio.get_running_loop(), place.hedges
        passes = {self._pass(place, one)}
        hedges.began()
        hedged = False
        trouble: BaseException = errors.UnavailableError(
            f"{one.asked[0].where}: the store gave less than was asked for"
        )
        while passes:
            wait_s: float | None = None
            if not hedged and (late_after_s := hedges.late_after_s()) is not None:
                wait_s = one.moved_s + late_after_s - loop.time()
                if wait_s <= 0:
                    hedged = True
                    if hedges.may():
                        passes.add(self._pass(place, one))
                    continue
            done, _ = await asyncio.wait({*passes, one.whole}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if one.whole in done:
                return  # what still reads is told at its next part
            for ended in done & passes:
                passes.discard(ended)
                trouble = (None if ended.cancelled() else ended.exception()) or trouble
        if self._closed:
            trouble = errors.CancelledError_(f"{one.asked[0].where}: the node is stopping")
        if not one.whole.done():
            raise trouble

    def _pass(self, place: _Place, one: OneRange) -> asyncio.Future[None]:
        def read() -> None:
            digest_id = one.asked[0].digest.digest_id
            one.read(self._store_for(one.asked[0].ref.file.uri, digest_id), first, self._deadline_s, busy)

        def busy() -> None:
            place.parallelism.refused(asyncio.get_running_loop().time())

        first = one.first_missing
        return self._spawn(self._reads.run(one.asked[first].where, read, at=lambda: one.count))

    def _read_alone(self, asked: Asked) -> None:
        async def read() -> None:
            try:
                shard = await self._reads.run(asked.where, self._alone, asked.digest, asked.ref)
            except errors.TfquiverError as error:
                asked.fail(error)
            except Exception as error:  # noqa: BLE001 - whoever waits has to be told, whatever it was
                asked.fail(errors.TfquiverError(f"{asked.where}: {type(error).__name__}: {error}"))
            else:
                if not asked.outcome.done():
                    asked.outcome.set_result(shard)
            finally:
                asked.fail(errors.CancelledError_(f"{asked.where}: the node is stopping"))

        self._spawn(read())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it knows
