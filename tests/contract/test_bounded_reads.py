from __future__ import annotations

import asyncio
import threading

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.service.node.reading_the_object_store.bounded_reads import BoundedReads


@on_loop
async def test_reads_that_hang_give_up_their_places() -> None:
    """Sixteen of them used to end all others, for ever."""
    let_go = threading.Event()
    reads = BoundedReads("gs://bucket", parallel=4, most_hung=8, limit_s=0.1, wait_s=5)
    hanging = [asyncio.ensure_future(reads.run(f"shard {n}", let_go.wait, 30)) for n in range(8)]
    async with asyncio.timeout(10):
        assert await reads.run("good", lambda: 7) == 7
        for task in hanging:
            with pytest.raises(errors.UnavailableError, match="has not come back within"):
                await task
        assert reads.hung == 8
        with pytest.raises(errors.UnavailableError, match="8 reads of gs://bucket hang already"):
            await reads.run("one more", lambda: 7)
        let_go.set()
        while reads.hung:
            await asyncio.sleep(0)
        assert await reads.run("good", lambda: 7) == 7
        await reads.close()
        with pytest.raises(errors.CancelledError_):
            await reads.run("late", lambda: 7)


@on_loop
async def test_what_a_read_raises_is_raised() -> None:
    def fail() -> int:
        raise errors.NotFoundError("gone")

    reads = BoundedReads("gs://bucket", parallel=1, most_hung=1, limit_s=5, wait_s=5)
    with pytest.raises(errors.NotFoundError, match="gone"):
        await reads.run("shard", fail)
    await reads.close()


@on_loop
async def test_who_waits_is_told_where_and_how_many_hang() -> None:
    let_go = threading.Event()
    reads = BoundedReads("gs://bucket", parallel=2, most_hung=8, limit_s=0.5, wait_s=0.2)
    async with asyncio.timeout(10):
        hanging = [asyncio.ensure_future(reads.run(f"shard {n}", let_go.wait, 30)) for n in range(2)]
        for task in hanging:
            with pytest.raises(errors.UnavailableError, match=r"reads? of gs://bucket hangs?\)"):
                await task
        more = [asyncio.ensure_future(reads.run(f"shard {n}", let_go.wait, 30)) for n in range(2)]
        while reads.free:
            await asyncio.sleep(0)
        with pytest.raises(errors.UnavailableError, match=r"of gs://bucket 2 reads are under way.*; 2 more hang"):
            await reads.run("another", lambda: 7)
        let_go.set()
        assert await asyncio.gather(*more) == [True, True]
        assert await reads.run("another", lambda: 7) == 7
        await reads.close()


@on_loop
async def test_as_long_as_something_comes_a_place_is_waited_for() -> None:
    reads = BoundedReads("gs://bucket", parallel=1, most_hung=8, limit_s=5, wait_s=0.1)
    let_go, came = threading.Event(), 0

    def slow() -> None:
        nonlocal came
        while not let_go.wait(0.02):
            came += 1

    async with asyncio.timeout(10):
        first = asyncio.ensure_future(reads.run("a long one", slow, at=lambda: came))
        second = asyncio.ensure_future(reads.run("the next", lambda: 7))
        while came < 25:  # five times as long as is waited for nothing
            await asyncio.sleep(0.01)
        assert not second.done()
        let_go.set()
        await first
        assert await second == 7
        await reads.close()


@on_loop
async def test_who_no_longer_waits_takes_no_place_and_what_was_begun_keeps_its_own() -> None:
    reads = BoundedReads("gs://bucket", parallel=1, most_hung=8, limit_s=5, wait_s=5)
    let_go = threading.Event()
    first = asyncio.ensure_future(reads.run("first", let_go.wait, 30))
    second = asyncio.ensure_future(reads.run("second", lambda: 2))
    third = asyncio.ensure_future(reads.run("third", lambda: 3))
    await asyncio.sleep(0)
    second.cancel()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert not reads.free
    assert not third.done()
    let_go.set()
    async with asyncio.timeout(5):
        assert await third == 3
    assert reads.free
    assert reads.idle
    await reads.close()
