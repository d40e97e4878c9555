"""A coordinator on its event loop and its directory, without sockets: what is late, slow, or fails beside the calls."""

from __future__ import annotations

import asyncio
import errno
import functools
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import COOPERATIVE, DIGEST, beat, parts, read_first, started
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.chunk_rotation.rotations import ChunkPlan
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.registering_sharing_removing_datasets import digest_files
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards import made_orders
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout
from tfquiver.service.coordinator.sessions.lease import LeaseState
from tfquiver.service.coordinator.sessions.sessions import Sessions


@pytest.mark.slow
@on_loop
async def test_others_are_served_while_many_lost_nodes_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each of these it takes so long: no two in one turn of the loop."""
    gone = Coordinator._node_gone

    def slow(self: Coordinator, node_id: str) -> None:
        time.sleep(0.003)
        gone(self, node_id)

    monkeypatch.setattr(Coordinator, "_node_gone", slow)
    async with started(tmp_path, node_timeout_s=0.5) as coordinator:
        for number in range(20):
            beat(coordinator, f"node-{number}")
        sizes = set[int]()
        async with asyncio.timeout(10):
            while coordinator.membership.live():
                sizes.add(len(coordinator.membership.live()))
                if len(sizes) == 5:
                    beat(coordinator, "comes meanwhile")
                if sizes and {node.node_id for node in coordinator.membership.live()} == {"comes meanwhile"}:
                    break
                await asyncio.sleep(0)
        assert len(sizes) > 15, "there was a turn between two of them"
        assert coordinator.membership.live(), "it was heard of just now"


@pytest.mark.slow
@on_loop
async def test_of_thousands_of_lost_nodes_as_many_are_given_up_in_a_turn_as_some_milliseconds_take(
    tmp_path: Path,
) -> None:
    """What others are told of members was made anew for each: of 10 000 it took 13 s."""
    given_up = set[int]()
    clock = ManualClock()
    async with started(tmp_path, 0.5, clock) as coordinator:
        for number in range(2000):
            coordinator.membership.heartbeat(types_pb2.NodeInfo(node_id=f"node-{number}", quota_bytes=1), "1")
        clock.advance(60)
        async with asyncio.timeout(20):
            while left := coordinator.membership.count:
                given_up.add(left)
                await asyncio.sleep(0)
    assert 5 < len(given_up) < 400, "in turns, and not each in one of its own"


@on_loop
async def test_nodes_that_never_came_back_after_a_restart_are_lost_in_turns(tmp_path: Path) -> None:
    clock = ManualClock()
    async with started(tmp_path, 0.5, clock) as coordinator:
        for number in range(200):
            beat(coordinator, f"node-{number}")
    async with started(tmp_path, 0.5, clock) as coordinator:
        clock.advance(1)
        awaited = set[int]()
        async with asyncio.timeout(20):
            while left := len(coordinator.membership.lost.awaited()):
                awaited.add(left)
                await asyncio.sleep(0)
        assert len(awaited) > 4
        assert len(coordinator.membership.lost.told()) == 201


@on_loop
async def test_what_goes_wrong_with_one_lost_node_is_no_matter_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are members no longer: nobody would ever look at them again."""
    gone, told = Coordinator._node_gone, set[str]()

    def fails(self: Coordinator, node_id: str) -> None:
        told.add(node_id)
        if len(told) % 2:
            raise RuntimeError("no reason")
        gone(self, node_id)

    monkeypatch.setattr(Coordinator, "_node_gone", fails)
    clock = ManualClock()
    async with started(tmp_path, 0.5, clock) as coordinator:
        for number in range(10):
            beat(coordinator, f"node-{number}")
        clock.advance(1)
        async with asyncio.timeout(20):
            while coordinator.membership.count or len(told) < 11:
                await asyncio.sleep(0.001)


@on_loop
async def test_a_lease_that_acknowledges_is_answered_at_once_and_durable(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator, asyncio.timeout(5):
        beat(coordinator)
        request = pb.OpenReaderRequest(reader_id="r", node_id="n", incarnation="1", digest_id=DIGEST.digest_id)
        session, _ = await coordinator.reading.open_reader(request)
        lease = pb.LeaseRequest(
            session_id=session.session_id, reader_id="r", sequence=1, max_shards=1024, max_bytes=1 << 40
        )
        first, _ = await coordinator.reading.lease(lease)
        lease.sequence, lease.wait_ms, lease.acked[:] = 2, 10_000, first.shards[:-1]
        for _ in range(2):  # the reply was lost
            again, _ = await coordinator.reading.lease(lease)
            assert again.state is LeaseState.WAIT, "the last shard is not acknowledged yet"
            assert session.acked_shards == len(first.shards) - 1
        lease.sequence, lease.acked[:] = 3, first.shards[-1:]
        assert (await coordinator.reading.lease(lease))[0].state is LeaseState.END
        lease.sequence, lease.acked[:] = 4, [DIGEST.num_shards]
        with pytest.raises(errors.InvalidArgumentError, match=f"shards: no shard {DIGEST.num_shards}"):
            await coordinator.reading.lease(lease)


@on_loop
async def test_a_setting_that_comes_while_a_data_set_is_opened_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, set_ = Caching.prepare, threading.Event()

    def slow(*args: Any) -> Any:
        prepared = prepare(*args)
        assert set_.wait(10)
        return prepared

    monkeypatch.setattr(Caching, "prepare", slow)
    async with started(tmp_path) as coordinator, asyncio.timeout(5):
        reading = [asyncio.create_task(read_first(coordinator, reader)) for reader in "ab"]
        await asyncio.sleep(0)
        await coordinator.catalogue.set_cache(DIGEST.digest_id, COOPERATIVE)
        set_.set()
        assert await asyncio.gather(*reading) == [LeaseState.LEASED] * 2


@on_loop
async def test_a_table_is_made_once_and_one_at_a_time_though_nodes_give_up_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ask again: what was begun for the first is there then, and nothing else is made beside it."""
    prepare, began, go_on = Caching.prepare, asyncio.Queue[None](), threading.Event()
    loop, at_once = asyncio.get_running_loop(), list[int]()
    others = [numbered_digest(shards) for shards in (30, 40)]
    making = set[object]()

    def slow(*args: Any) -> Any:
        making.add(me := object())
        at_once.append(len(making))
        loop.call_soon_threadsafe(began.put_nowait, None)
        assert go_on.wait(10)
        prepared = prepare(*args)
        making.remove(me)
        return prepared

    monkeypatch.setattr(Caching, "prepare", slow)
    async with started(tmp_path) as coordinator, asyncio.timeout(10):
        for other in others:
            await coordinator.catalogue.register("", b"", None, parts(other))
        first = asyncio.create_task(read_first(coordinator, "a"))
        await began.get()
        waiting = [asyncio.create_task(read_first(coordinator, "b")), *(
            asyncio.create_task(read_first(coordinator, f"of {shards}", digest_id=other.digest_id))
            for shards, other in enumerate(others)
        )]  # fmt: skip
        first.cancel()
        await asyncio.wait([first])
        again = asyncio.create_task(read_first(coordinator, "a"))
        go_on.set()
        assert await asyncio.gather(again, *waiting) == [LeaseState.LEASED] * 4
    assert at_once == [1, 1, 1], "one for each data set"


@on_loop
async def test_nothing_of_a_table_that_is_being_made_outlives_the_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, began, go_on = Caching.prepare, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(*args: Any) -> Any:
        loop.call_soon_threadsafe(began.set)
        assert go_on.wait(10)
        return prepare(*args)

    monkeypatch.setattr(Caching, "prepare", slow)
    async with asyncio.timeout(10):
        async with started(tmp_path) as coordinator:
            reading = asyncio.create_task(read_first(coordinator, "a"))
            await began.wait()
            reading.cancel()
            await asyncio.wait([reading])
        assert asyncio.all_tasks() == {asyncio.current_task()}
        go_on.set()


@on_loop
async def test_the_stripe_units_of_a_large_data_set_are_made_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five million shards it takes seconds."""
    made_in, make = list[threading.Thread](), ChunkPlan.units.func

    def units(plan: ChunkPlan) -> ChunkLayout:
        made_in.append(threading.current_thread())
        return make(plan)

    property_ = functools.cached_property(units)
    property_.__set_name__(ChunkPlan, "units")
    monkeypatch.setattr(ChunkPlan, "units", property_)
    monkeypatch.setattr(made_orders, "MADE_AT_ONCE", 0)
    async with started(tmp_path) as coordinator, asyncio.timeout(5):
        await coordinator.catalogue.set_cache(DIGEST.digest_id, COOPERATIVE)
        reading = [asyncio.create_task(read_first(coordinator, reader, homogeneous=True)) for reader in "ab"]
        assert await asyncio.gather(*reading) == [LeaseState.LEASED] * 2
    assert len(made_in) == 1 and made_in[0] is not threading.main_thread()


@on_loop
async def test_nothing_is_loaded_any_more_for_one_who_has_left(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator, asyncio.timeout(5):
        await coordinator.catalogue.set_cache(DIGEST.digest_id, COOPERATIVE)
        assert await read_first(coordinator, "a") is LeaseState.LEASED
        rotations = coordinator.caching.rotations
        assert rotations.decision(DIGEST.digest_id).load
        (session,) = coordinator.sessions
        await coordinator.reading.close_reader(session.session_id, "a", False)
        assert not rotations.decision(DIGEST.digest_id).load


@on_loop
async def test_nobody_reads_what_was_removed_while_it_was_opened(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator, asyncio.timeout(5):
        reading = asyncio.create_task(read_first(coordinator, "a"))
        await asyncio.sleep(0)
        await coordinator.catalogue.delete(EVERYBODY, DIGEST.digest_id, force=False)
        with pytest.raises(errors.NotFoundError, match="no data set"):
            await reading
        assert list(coordinator.sessions) == [], "its reader would never leave it"


@on_loop
async def test_a_digest_whose_file_goes_while_it_is_asked_for_is_that_of_no_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path) as coordinator, asyncio.timeout(5):
        gone, go_on = asyncio.Event(), digest_files.DigestFiles.get

        async def late(files: digest_files.DigestFiles, digest_id: bytes) -> Digest:
            await gone.wait()
            return await go_on(files, digest_id)

        monkeypatch.setattr(digest_files.DigestFiles, "get", late)
        asking = asyncio.create_task(coordinator.registry.digest(DIGEST.digest_id))
        await asyncio.sleep(0)
        await coordinator.catalogue.delete(EVERYBODY, DIGEST.digest_id, force=False)
        gone.set()
        with pytest.raises(errors.NotFoundError, match="no data set"):
            await asking


@on_loop
async def test_a_removal_is_durable_when_it_is_said_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one who asked was told UNAVAILABLE, and asks again."""

    def sick(_: int) -> None:
        raise OSError(errno.EIO, "sick disk")

    async with started(tmp_path) as coordinator, asyncio.timeout(5):
        path = tmp_path / "work" / "digests" / f"{DIGEST.digest_id.hex()}.tfqd"
        with monkeypatch.context() as patch:
            patch.setattr("os.fdatasync", sick)
            with pytest.raises(errors.UnavailableError):
                await coordinator.catalogue.delete(EVERYBODY, DIGEST.digest_id, force=False)
            with pytest.raises(errors.UnavailableError):
                await coordinator.catalogue.deleted(DIGEST.digest_id)
        assert path.exists()
        await coordinator.catalogue.deleted(DIGEST.digest_id)
        assert not path.exists()
        await coordinator.catalogue.register("", b"", None, parts())
        await coordinator.catalogue.deleted(DIGEST.digest_id)
        assert path.exists()


@on_loop
async def test_no_position_keeps_the_log_from_being_compacted(tmp_path: Path) -> None:
    """The epochs that follow have numbers, too."""
    async with started(tmp_path) as coordinator, asyncio.timeout(5):
        request = pb.ResumeRequest(session_key="key", job="job", digest_id=DIGEST.digest_id)
        request.position.epoch = 2**64 - 1
        with pytest.raises(errors.InvalidArgumentError, match="epoch: 18446744073709551615 is more than"):
            await coordinator.reading.resume(request)
        request.position.epoch = 1 << 53
        await coordinator.reading.resume(request)
        opening = pb.OpenReaderRequest(reader_id="a", node_id="n", incarnation="1", digest_id=DIGEST.digest_id)
        opening.session_key, opening.job = "key", "job"
        assert (await coordinator.reading.open_reader(opening))[0].epoch == 1 << 53
        opening.session_key, opening.reader_id = "other", "b"
        assert (await coordinator.reading.open_reader(opening))[0].epoch == (1 << 53) + 1
        before = (tmp_path / "work" / "commit.log").stat().st_ino
        await coordinator._log.compact()
        assert (tmp_path / "work" / "commit.log").stat().st_ino != before


@pytest.mark.slow
@on_loop
async def test_nodes_are_not_lost_because_the_coordinator_was_held_up(tmp_path: Path) -> None:
    beats = 0

    async def beat_on() -> None:
        nonlocal beats
        while True:
            beat(coordinator)
            beats += 1
            await asyncio.sleep(0.05)
            for _ in range(5):  # what arrives is read from a socket first, parsed, handed on
                await asyncio.sleep(0)

    async with started(tmp_path, node_timeout_s=0.5) as coordinator, asyncio.timeout(10):
        assert await read_first(coordinator, "a") is LeaseState.LEASED
        [session] = coordinator.sessions
        beating = asyncio.create_task(beat_on())
        for _ in range(3):
            before = beats
            time.sleep(0.7)  # what a loop that is blocked does
            while beats < before + 3:
                await asyncio.sleep(0.05)
            assert list(session.readers) == ["a"]
        beating.cancel()
        while session.readers:  # who is really silent is lost all the same
            await asyncio.sleep(0.05)


@on_loop
async def test_looking_after_nodes_goes_on_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = asyncio.Event()

    def expire(self: Sessions, heard_until: float) -> None:
        failed.set()
        raise ZeroDivisionError("nobody has thought of this")

    async with started(tmp_path, node_timeout_s=0.2) as coordinator, asyncio.timeout(10):
        assert await read_first(coordinator, "a") is LeaseState.LEASED
        with monkeypatch.context() as patch:
            patch.setattr(Sessions, "expiring", expire)
            await failed.wait()
        assert "nobody has thought of this" in caplog.text
        caplog.clear()  # it keeps all that was on the stack
        while any(session.readers for session in coordinator.sessions):
            await asyncio.sleep(0.02)
