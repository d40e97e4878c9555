"""Shards of uncompressed files from remote stores: neighbours in one request, late ones asked for twice, as many
requests at a time as the store has use for.

A shard whose bytes are wrong, or that makes a request fail which others may have nothing to do with, is read alone.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.log_files_and_lines.logs import telling
from tfquiver.service.node.reading_the_object_store.bounded_reads import BoundedReads
from tfquiver.service.node.reading_the_object_store.hedging import Hedges
from tfquiver.service.node.reading_the_object_store.one_range import Asked, OneRange
from tfquiver.service.node.reading_the_object_store.origins import Origins
from tfquiver.service.node.reading_the_object_store.parallelism import Parallelism
from tfquiver.service.node.reading_the_object_store.range_plan import RangePlan
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.stores import ObjectStore

# What the other shards of a request would meet, too.
_OF_ALL = (
    errors.UnavailableError,
    errors.CancelledError_,
    errors.UnauthenticatedError,
    errors.PermissionError_,
    errors.ResourceExhaustedError,
)


class _Place:
    """A bucket: what is wanted of it, and what is known of it. All that reads it counts against `parallelism`."""

    def __init__(self, reads: BoundedReads, now: float) -> None:
        self.plan: RangePlan[Asked] = RangePlan()
        self.reads, self.parallelism, self.hedges = reads, Parallelism(now), Hedges()
        self.ranges: set[OneRange] = set()
        self.alone = 0  # shards that are read, or are about to be, by themselves
        self.timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        return not (self.ranges or len(self.plan) or self.alone) and self.reads.idle

    @property
    def free(self) -> bool:
        self.reads.limit = self.parallelism.limit
        return self.reads.free

    def forget(self) -> None:
        if self.timer:
            self.timer.cancel()
        self.reads.forget()


class RangeReads:
    """Lives on one loop.

    Args:
      store_for: the store of a URI, reached as the users of a data set (its digest id) reach it; called in threads.
      alone: blocks; one shard by itself, read again while its bytes are wrong.
      reads: makes the places of an origin.
      origin: of a URI as the users of a data set reach it.
    """

    def __init__(
        self,
        store_for: Callable[[str, bytes], ObjectStore],
        alone: Callable[[Digest, ShardRef], VerifiedShard],
        reads: Callable[[str], BoundedReads],
        deadline_s: float,
        origin: Callable[[str, bytes], str],
    ) -> None:
        self._store_for, self._alone, self._reads, self._deadline_s = store_for, alone, reads, deadline_s
        self._origin = origin
        self._places = Origins(self._made)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def fetch(self, digest: Digest, ref: ShardRef, bypass: bool) -> VerifiedShard:
        """Raises as Fetcher.fetch. `bypass`: in one request only with others that bypass the cache."""
        loop = asyncio.get_running_loop()
        asked = Asked(digest, ref, loop.create_future())
        if self._closed:
            raise errors.CancelledError_(f"{asked.where}: the node is stopping")
        place = self._places.at(self._origin(ref.file.uri, digest.digest_id))
        key = (digest.digest_id, ref.file_index, bypass)
        number = place.plan.want(key, ref.offset, ref.length_bytes, loop.time(), asked)
        self._start(place)
        try:
            while not asked.outcome.done():
                before = place.reads.progress
                await asyncio.wait([asked.outcome], timeout=place.reads.wait_s)
                if asked.outcome.done() or place.reads.progress != before:
                    continue
                if place.plan.withdraw(number):
                    raise place.reads.no_place(asked.where)
                break  # it is being read, which has its own limit
            return await asked.outcome
        except asyncio.CancelledError:
            place.plan.withdraw(number)
            asked.outcome.cancel()
            raise

    def stop(self) -> None:
        """Nobody waits any more: what is under way ends with the part that it is at."""
        self._closed = True
        for place in self._places:
            for one in place.ranges:
                one.stop()
            if place.timer:
                place.timer.cancel()
            while run := place.plan.next(float("inf")):
                for want in run:
                    want.what.fail(errors.CancelledError_(f"{want.what.where}: the node is stopping"))

    async def close(self) -> None:
        """Waits for the threads."""
        await asyncio.gather(*(place.reads.close() for place in self._places))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _made(self, origin: str) -> _Place:
        place = _Place(self._reads(origin), asyncio.get_running_loop().time())
        place.reads.on_free = lambda: self._start(place)
        return place

    def _start(self, place: _Place) -> None:
        """As many requests as may be under way now."""
        now = asyncio.get_running_loop().time()
        while not self._closed and place.free:
            if not (run := place.plan.next(now)):
                break
            one = OneRange([want.what for want in run], functools.partial(self._read_alone, place))
            place.ranges.add(one)
            self._spawn(self._bring(place, one, self._pass(place, one)))
        due_s = place.plan.due_s()
        if due_s is None or self._closed:
            return
        if not place.free:
            place.parallelism.met()
        elif place.timer is None:
            place.timer = asyncio.get_running_loop().call_at(due_s, self._due, place)

    def _due(self, place: _Place) -> None:
        place.timer = None
        self._start(place)

    async def _bring(self, place: _Place, one: OneRange, first: asyncio.Future[None]) -> None:
        trouble: BaseException = errors.CancelledError_(f"{one.asked[0].where}: the node is stopping")
        try:
            await self._read(place, one, first)
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
                    self._read_alone(place, asked)
            place.parallelism.ended(asyncio.get_running_loop().time(), one.size_bytes)
            if one.first_after_s is not None:
                place.hedges.came(one.first_after_s)
            self._start(place)

    async def _read(self, place: _Place, one: OneRange, first: asyncio.Future[None]) -> None:
        """Returns when all has come. Raises when nobody reads it any more, and something is missing."""
        loop, hedges = asyncio.get_running_loop(), place.hedges
        passes = {first}
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
                    if place.free and hedges.may():
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
        """In a place that is free."""

        def read() -> None:
            digest_id = one.asked[0].digest.digest_id
            one.read(self._store_for(one.asked[0].ref.file.uri, digest_id), first, self._deadline_s, busy)

        def busy() -> None:
            place.parallelism.refused(asyncio.get_running_loop().time())

        first = one.first_missing
        digest = one.asked[first].digest
        with telling(dataset=digest.name, digest=digest.digest_id, alone=True):
            return place.reads.start(one.asked[first].where, read, at=lambda: one.count)

    def _read_alone(self, place: _Place, asked: Asked) -> None:
        async def read() -> None:
            try:
                with telling(
                    dataset=asked.digest.name, digest=asked.digest.digest_id, shard=asked.ref.index, alone=True
                ):
                    shard = await place.reads.run(asked.where, self._alone, asked.digest, asked.ref)
            except errors.TfquiverError as error:
                asked.fail(error)
            except Exception as error:  # noqa: BLE001 - whoever waits has to be told, whatever it was
                asked.fail(errors.TfquiverError(f"{asked.where}: {type(error).__name__}: {error}"))
            else:
                if not asked.outcome.done():
                    asked.outcome.set_result(shard)
            finally:
                place.alone -= 1
                asked.fail(errors.CancelledError_(f"{asked.where}: the node is stopping"))

        place.alone += 1  # now: the task begins at the loop's next turn
        self._spawn(read())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
