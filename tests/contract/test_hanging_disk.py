"""A disk that does not answer holds up who waits for it, for as long as that has patience, and nobody else."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.cluster import wait_until
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.node.disk import entry_file
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why
from tfquiver.service.node.hanging_disk.disk_threads import DiskThreads
from tfquiver.service.node.hanging_disk.patient_thread import PatientThread
from tfquiver.service.node.placing_at_owners_and_writing.placed_here import PlacedHere
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard


def shard(number: int) -> VerifiedShard:
    body = b"%d" % number * 1000
    return VerifiedShard.check(hashlib.sha256(body).digest(), body, "here")


@contextmanager
def hanging(disk: DiskCache) -> Iterator[threading.Event]:
    """What is noted before an entry stands is on the same disk: it waits until that is set, or it ends."""
    answers, began = threading.Event(), threading.Event()

    def wait(hash: bytes) -> None:
        began.set()
        assert answers.wait(60)

    disk.on_placed = wait
    try:
        yield answers
    finally:
        answers.set()


@on_loop
async def test_who_comes_with_a_shard_waits_for_a_while_and_the_next_ones_do_not(tmp_path: Path) -> None:
    """A scan stood still for as long as the disk of its node did, though it needs none."""
    disk = DiskCache(tmp_path, 1 << 20)
    here, late, next_one = PlacedHere(disk, patience_s=0.05), shard(1), shard(2)
    with hanging(disk) as answers:
        with pytest.raises(errors.ResourceExhaustedError, match=r"the disk takes longer than 0\.05 s"):
            await asyncio.to_thread(here.insert, late, Why.PASSES)
        with pytest.raises(errors.ResourceExhaustedError, match="the disk takes too long to keep what came by before"):
            here.insert(next_one, Why.PASSES)
        assert here.coming() == {late.hash}, "it may come yet: who empties its data set waits for it"
        await here.still([next_one.hash])
        waits = asyncio.create_task(here.still([next_one.hash, late.hash]))
        await asyncio.sleep(0)
        assert not waits.done()
        answers.set()
        await waits
    assert late.hash in disk
    wait_until(lambda: not here.coming(), "it is over")
    here.insert(next_one, Why.PASSES)
    assert next_one.hash in disk
    here.close()


@on_loop
async def test_more_than_there_are_threads_for_give_up_and_leave_nothing_behind(tmp_path: Path) -> None:
    """The first that had no thread yet held the lock for ever, and with it whoever asked what is coming."""
    disk = DiskCache(tmp_path, 1 << 20)
    here, many = PlacedHere(disk, patience_s=0.5), [shard(number) for number in range(30)]
    began = threading.Barrier(len(many))

    def give_up(one: VerifiedShard) -> None:
        began.wait(60)
        with pytest.raises(errors.ResourceExhaustedError, match="the disk takes"):
            here.insert(one, Why.PASSES)

    with hanging(disk) as answers:
        threads = [threading.Thread(target=give_up, args=(one,), daemon=True) for one in many]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(wait_until, lambda: not any(thread.is_alive() for thread in threads), "all gave up", 30)
        assert 0 < len(here.coming()) <= 24, "those that have no thread are not waited for"
        answers.set()
        await here.still([one.hash for one in many])
    wait_until(lambda: not here.coming(), "it is over")
    here.close()


@on_loop
async def test_a_disk_that_does_not_answer_is_trouble_and_nothing_more_is_begun(tmp_path: Path) -> None:
    clock = ManualClock()
    disk = DiskCache(tmp_path, 1 << 20, clock=clock)
    with hanging(disk) as answers:
        coming = asyncio.create_task(asyncio.to_thread(disk.insert_placed, shard(1)))
        await asyncio.to_thread(wait_until, lambda: bool(disk.hanging._since_s), "it waits")
        assert not disk.trouble and not disk.hanging.for_s()
        clock.advance(41.0)
        assert disk.hanging.for_s() == 41.0
        assert disk.trouble == f"{tmp_path}: the disk has not answered for 41 s"
        with pytest.raises(errors.ResourceExhaustedError, match="has not answered for 41 s"):
            disk.insert(shard(2))
        assert not disk.has_room(shard(2).hash, 4096)
        answers.set()
        await coming
    assert not disk.trouble and disk.has_room(shard(2).hash, 4096)


@on_loop
async def test_as_many_as_wait_for_the_disk_leave_the_threads_of_all_else_alone() -> None:
    """Each data set that was emptied held one of the six that a node with two cores has for everything."""
    disk_threads, answers = DiskThreads(), threading.Event()
    deleting = [asyncio.create_task(disk_threads.run(answers.wait, 60)) for _ in range(40)]
    async with asyncio.timeout(30):
        assert await asyncio.to_thread(sum, [1, 2]) == 3
    answers.set()
    assert all(await asyncio.gather(*deleting))
    await disk_threads.close()


def test_one_call_that_hangs_costs_the_next_ones_no_time() -> None:
    thread, answers = PatientThread("test", 0.05), threading.Event()
    with pytest.raises(errors.UnavailableError, match=r"does not answer within 0\.05 s"):
        thread.run(answers.wait, 60)
    with pytest.raises(errors.UnavailableError, match="has not answered yet"):
        thread.run(int)
    answers.set()
    wait_until(lambda: _answers(thread), "it answers again")
    with pytest.raises(TimeoutError, match="its own"):
        thread.run(_raises, TimeoutError("its own"))
    thread.close()


@on_loop
async def test_who_has_to_wait_for_a_disk_twice_waits_once(tmp_path: Path) -> None:
    """A scan asks what is known of its files, and keeps its shards: ten seconds for each, with a disk that hangs."""
    clock, answers, began = ManualClock(), threading.Event(), threading.Event()
    disk = DiskCache(tmp_path, 1 << 20, clock=clock)
    thread, here = PatientThread("test", 60.0, disk.hanging), PlacedHere(disk, patience_s=60.0)

    def hangs() -> bool:
        began.set()
        return answers.wait(60)

    waits = asyncio.create_task(asyncio.to_thread(thread.run, hangs))
    async with asyncio.timeout(30):
        await asyncio.to_thread(began.wait, 30)
        with hanging(disk) as goes_on:
            kept = asyncio.create_task(asyncio.to_thread(here.insert, shard(1), Why.PASSES))
            await asyncio.to_thread(wait_until, lambda: len(disk.hanging._since_s) == 2, "it waits, too")
            clock.advance(11.0)
            with pytest.raises(errors.UnavailableError, match="does not answer"):
                await waits
            with pytest.raises(errors.ResourceExhaustedError, match="has not answered for 11 s"):
                await kept
            with pytest.raises(errors.UnavailableError, match="has not answered"):
                thread.run(int)
            with pytest.raises(errors.ResourceExhaustedError):
                here.insert(shard(2), Why.PASSES)
            answers.set()
            goes_on.set()
            await here.still([shard(1).hash])
        await asyncio.to_thread(wait_until, lambda: not disk.hanging._since_s, "it answers")
        assert thread.run(int) == 0
    thread.close()
    here.close()


class _AtThatMoment(Executor):
    """What it is given is done just when patience ends."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        class Done(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                if timeout is None:
                    return super().result()
                self.set_result(call(*arguments))
                raise TimeoutError

        return Done()


def test_what_is_done_the_moment_that_patience_ends_is_no_error() -> None:
    """It was a TimeoutError that nobody expects: the scan failed."""
    thread = PatientThread("test", 0.05)
    thread._pool.shutdown()
    thread._pool = _AtThatMoment()  # type: ignore[assignment]  # an executor, too
    assert thread.run(int, "7") == 7


def _answers(thread: PatientThread) -> bool:
    try:
        return thread.run(int) == 0
    except errors.UnavailableError:
        return False


def _raises(error: Exception) -> None:
    raise error


def test_a_disk_that_is_slow_answers_and_one_that_stands_still_does_not(tmp_path: Path) -> None:
    """An insert of more than ten seconds was said to hang, and nothing more was kept, though bytes moved."""
    clock, troubles = ManualClock(), list[str]()
    disk = DiskCache(tmp_path, 64 << 20, clock=clock)
    body = random.Random(1).randbytes((4 << 20) + 5)
    large = VerifiedShard.check(hashlib.sha256(body).digest(), body, "here")

    def slow(fd: int, size_bytes: int) -> None:
        """Nine seconds for each piece."""
        clock.advance(9.0)
        troubles.append(disk.trouble)
        written_out(fd, size_bytes)

    written_out = entry_file._write_out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry_file, "_write_out", slow)
        disk.insert(large)
        assert troubles == [""] * 4 and clock.now() > 30.0
        next_ones = [random.Random(seed).randbytes(4 << 20) for seed in (2, 3)]
        for number, next_one in enumerate(next_ones):
            patch.setattr(entry_file, "_write_out", written_out if not number else slow)
            disk.insert(VerifiedShard.check(hashlib.sha256(next_one).digest(), next_one, "here"))
    assert len(troubles) == 4, "a disk that was fast is not waited for piece by piece: that costs it a tenth"
    opened = disk.open_entry(large.hash)
    assert opened is not None and opened.read_stored() == body
    opened.close()
    with disk.hanging.waits() as moved:
        clock.advance(9.0)
        with disk.hanging.waits():
            clock.advance(0.5)
            moved()
            clock.advance(10.0)
            assert disk.hanging.for_s() == 10.5, "the other one: nothing of it has moved"
        assert not disk.trouble
        clock.advance(1.0)
        assert disk.hanging.for_s() == 11.0
    assert not disk.trouble
