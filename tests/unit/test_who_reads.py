"""Who is planned for: whose sessions have readers, but for those that their trainers have left."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.support.aio import on_loop
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S
from tfquiver.service.coordinator.plan_rounds_and_moves.cluster_view import ClusterViews

DIGEST = b"d" * 32


def session(key: str, job: str, readers: int = 1, own_reader_id: str = "") -> Any:
    return SimpleNamespace(
        session_key=key,
        reads=(job, DIGEST),
        readers=dict.fromkeys(range(readers)),
        own_reader_id=own_reader_id,
        sampled=False,
    )


def views(clock: ManualClock, sessions: list[Any], left: set[str]) -> ClusterViews:
    nobody: Any = None
    registry: Any = {DIGEST}
    its: Any = SimpleNamespace(read=lambda: [one for one in sessions if one.readers])
    return ClusterViews(clock, registry, nobody, its, nobody, nobody, nobody, left=lambda: left)


@on_loop
async def test_a_job_has_gone_a_while_after_its_last_reader() -> None:
    clock, one = ManualClock(), session("key", "job")
    made = views(clock, [one], set())
    assert await made.note() == {}
    clock.advance(10 * GONE_S)
    assert await made.note() == {}
    one.readers = {}
    clock.advance(GONE_S - 1)
    assert await made.note() == {}
    assert made.reading.keys() == {("job", DIGEST)}, "it may be between two epochs"
    clock.advance(1)
    assert await made.note() == {("job", DIGEST): 10 * GONE_S}
    assert made.reading == {}


@on_loop
async def test_readers_that_a_trainer_has_left_are_none() -> None:
    """tf.data service keeps them for a minute and more, in case another trainer comes."""
    clock, left = ManualClock(), set[str]()
    made = views(clock, [session("key", "job"), session("other", "other job")], left)
    await made.note()
    left.add("key")
    clock.advance(GONE_S - 1)
    assert await made.note() == {}
    left.clear()  # the next epoch has begun
    assert await made.note() == {}
    left.add("key")
    clock.advance(GONE_S)
    assert await made.note() == {("job", DIGEST): GONE_S - 1}
    assert made.reading.keys() == {("other job", DIGEST)}
    left.clear()
    assert await made.note() == {}
    assert made.reading.keys() == {("job", DIGEST), ("other job", DIGEST)}, "one that comes back is planned for at once"


@on_loop
async def test_who_reads_by_itself_does_so_whatever_a_dispatcher_says() -> None:
    clock = ManualClock()
    made = views(clock, [session("key", "job", own_reader_id="reader")], {"key"})
    await made.note()
    clock.advance(GONE_S)
    assert await made.note() == {}
    assert made.reading.keys() == {("job", DIGEST)}


@on_loop
async def test_one_trainer_that_has_left_is_not_all_of_a_job() -> None:
    clock = ManualClock()
    made = views(clock, [session("left", "job"), session("key", "job")], {"left"})
    await made.note()
    clock.advance(GONE_S)
    assert await made.note() == {}


@on_loop
async def test_of_thousands_nobody_is_held_up_for_long_and_nobody_is_seen_by_halves() -> None:
    clock = ManualClock()
    many = [session(f"key {number}", f"job {number}") for number in range(20_000)]
    made, seen = views(clock, many, set()), set[int]()

    async def look() -> None:
        while True:
            seen.add(len(made.reading))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await made.note()
    turns = asyncio.create_task(asyncio.sleep(0))
    await turns
    looking.cancel()
    assert seen == {0, 20_000}
