"""The coordinator plans for all, whatever one job, data set, node or policy does; without sockets."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.aio import on_loop
from tests.support.planning import (
    COOPERATIVE,
    FIRST,
    FIRST_BYTES,
    SECOND,
    SECOND_BYTES,
    UNIFORM,
    beat,
    cached,
    coordinating,
    parts_of,
    plans,
    reads,
)
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import PlanDecided
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.measuring_jobs_and_stores import step_meter
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meter import StepReading
from tfquiver.service.coordinator.policies.pins import PINNED
from tfquiver.service.coordinator.policies.views_and_plans.check import MOST_BYTES_PER_S
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation


def is_whole(coordinator: Coordinator) -> bool:
    setting = cached(coordinator, FIRST)
    return (setting.mode, setting.allocation_bytes, setting.decided_by) == (UNIFORM, FIRST_BYTES, "benefit")


@on_loop
async def test_a_job_that_is_called_as_another_is_in_plans_does_not_stop_them(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=2 * (FIRST_BYTES + SECOND_BYTES)) as coordinator:
        for digest in (FIRST, SECOND):
            await reads(coordinator, "job", digest)
        for digest in (FIRST, SECOND):
            await reads(coordinator, f"job, {digest.name} ({digest.digest_id.hex()[:12]})", FIRST)
            await reads(coordinator, f"{digest.name} ({digest.digest_id.hex()[:12]})", FIRST)
        planning = await plans(coordinator)
        assert is_whole(coordinator)
        own = f"first ({FIRST.digest_id.hex()[:12]})"
        assert (await planning.explain(own)).kind == "dataset"
        assert (await planning.explain(f"{own}'")).kind == "job"


@on_loop
async def test_a_job_that_has_finished_is_told_of_for_an_hour(tmp_path: Path) -> None:
    clock = ManualClock()
    async with coordinating(tmp_path, clock=clock, a=2 * FIRST_BYTES) as coordinator:
        session_id = await reads(coordinator, "sweep/1", FIRST)
        report = pb.ReaderReport(
            session_id=session_id, reader_id="sweep/1 first", records=9, bytes=4000, hit_bytes=3000, missed_bytes=1000,
            elapsed_us=2_000_000, waited_us=1_000_000,
        )  # fmt: skip
        clock.advance(2.0)
        beat(coordinator, "a", 2 * FIRST_BYTES, report)
        planning = await plans(coordinator)
        reads_now = await planning.explain("sweep/1")
        assert (reads_now.finished, reads_now.idle) == (None, None)
        assert reads_now.now and (reads_now.now.hit_ratio, reads_now.now.reads_bytes_per_s) == (0.75, 2000)
        assert reads_now.now.remote_bytes_per_s == 500, "of what it reads"
        await coordinator.reading.close_reader(session_id, "sweep/1 first", False)
        clock.advance(29.0)
        between = await (await plans(coordinator)).explain("sweep/1")
        assert between.finished is None, "it may be between two epochs"
        assert between.idle == {"ago_s": 29.0, "epoch": 0, "whole": False, "acked": 0, "shards": 300}
        assert between.now == reads_now.now, "at last"
        its_data = await planning.explain(FIRST.name)
        assert (its_data.now, its_data.idle) == (None, None), "nobody reads it now"
        clock.advance(1.0)
        await plans(coordinator)
        clock.advance(215.0)
        told = await planning.explain("sweep/1")
        assert told.finished
        assert (told.finished["read_bytes"], told.finished["missed_bytes"]) == (4000, 1000)
        assert told.finished["ago_s"] == 245
        assert (told.gets.hit_ratio, told.gets.reads_bytes_per_s) == (0.75, 2000)
        assert told.gets.allocation.mode == "uniform", "as it was cached"
        assert "waited for data for 50% of its time, and 25% of what it read came" in told.finished["next_run"]
        (said,) = told.reasons.values()
        assert said.startswith(
            "left in epoch 0 with 0 of 300 shards confirmed, 4 minutes ago: had read 4.0 kB of first ("
        )
        with pytest.raises(errors.NotFoundError, match=r"of the last 256 that ended .*known are 'sweep/1'$"):
            await planning.explain("nobody")
        with pytest.raises(errors.NotFoundError, match="nobody reads"):
            await planning.explain("sweep/1", owns=lambda job: job.startswith("other/"))
        await reads(coordinator, "sweep/1", FIRST)
        await plans(coordinator)
        assert (await planning.explain("sweep/1")).finished is None, "it reads again"


@on_loop
async def test_rates_that_nobody_can_have_do_not_stop_plans(tmp_path: Path) -> None:
    """A job that says it reads an exabyte a second, from many readers at once; and a limit that is no limit."""
    clock = ManualClock()
    async with coordinating(tmp_path, clock=clock, a=2 * FIRST_BYTES) as coordinator:
        session_id = await reads(coordinator, "liar", FIRST)
        for second in (0, 2):
            clock.advance(second)
            beat(coordinator, "a", 2 * FIRST_BYTES, *(
                pb.ReaderReport(
                    session_id=session_id, reader_id=str(reader), records=second, bytes=second * 10**12,
                    waited_us=second * 890_000, elapsed_us=second * 1_000_000, missed_bytes=second * 10**12,
                )
                for reader in range(1000)
            ))  # fmt: skip
        measured = coordinator.probes.measured("liar", FIRST.digest_id)
        assert measured and measured.ideal_bytes_per_s and measured.ideal_bytes_per_s > MOST_BYTES_PER_S
        await coordinator.allocate_remote_io("liar", float(1 << 60))
        await plans(coordinator)
        assert is_whole(coordinator)


@on_loop
async def test_more_accelerators_than_there_can_be_do_not_stop_plans(tmp_path: Path) -> None:
    """Each process says no more than one may; together they are more than a view may have."""
    async with coordinating(tmp_path, clock=ManualClock(), a=2 * FIRST_BYTES) as coordinator:
        session_id = await reads(coordinator, "many", FIRST)
        beat(coordinator, "a", 2 * FIRST_BYTES, pb.ReaderReport(session_id=session_id, reader_id="1"))
        for process in range(16):
            reading = StepReading(0, 0.0, 0.0, 0, step_meter.MOST_ACCELERATORS)
            assert coordinator.step_meters.take("many", str(process), reading)
        await plans(coordinator)
        assert is_whole(coordinator)


@on_loop
async def test_quotas_beyond_all_disks_do_not_stop_plans(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=10**18, b=10**18) as coordinator:
        await reads(coordinator, "job", FIRST)
        await plans(coordinator)
        assert is_whole(coordinator)


@pytest.mark.parametrize(("policy", "probed"), [("benefit", True), ("silod_greedy", True), ("lru", False)])
@on_loop
async def test_jobs_are_probed_where_the_policy_makes_something_of_it(
    tmp_path: Path, policy: str, probed: bool
) -> None:
    """Probing costs the store: `lru`, `static` and `none` do not look at what it measures."""
    clock = ManualClock()
    async with coordinating(tmp_path, policy, clock, a=2 * FIRST_BYTES) as coordinator:
        session_id = await reads(coordinator, "job", FIRST)
        missed = False
        for second in range(60):
            clock.advance(1.0)
            beat(coordinator, "a", 2 * FIRST_BYTES, pb.ReaderReport(
                session_id=session_id, reader_id="1", records=second * 1000, bytes=second * 10**9,
                waited_us=second * 500_000, elapsed_us=second * 1_000_000, missed_bytes=second * 10**9,
            ))  # fmt: skip
            await plans(coordinator)
            missed |= ("job", FIRST.digest_id) in coordinator.probed
        assert missed == probed


@on_loop
async def test_a_data_set_of_which_the_digest_is_damaged_is_left_out_of_plans_with_its_room(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES + 1000) as coordinator:
        await coordinator.catalogue.register("second", b"", None, parts_of(SECOND))
        await coordinator.catalogue.set_cache(
            SECOND.digest_id, types_pb2.CacheSetting(mode=UNIFORM, allocation_bytes=1000)
        )
        (tmp_path / "work" / "digests" / f"{SECOND.digest_id.hex()}.tfqd").write_bytes(b"nothing")
    async with coordinating(tmp_path, a=FIRST_BYTES + 1000) as coordinator:
        await coordinator.start()
        coordinator.caching._restored_at = None
        await reads(coordinator, "job", FIRST)
        planning = await plans(coordinator)
        assert is_whole(coordinator)
        assert (await planning._views.view()).cache_bytes == FIRST_BYTES


def _uneven(name: str) -> Digest:
    """One of its shards is as large as all others together."""
    shards = 400
    lengths = [100] * (shards - 1) + [400_000]
    hashes = b"".join(hashlib.sha256(f"{name} {shard}".encode()).digest() for shard in range(shards))
    return Digest.build(
        name, [FileEntry(f"file:///{name}", sum(lengths), "1", "none")],
        np.frombuffer(hashes, np.uint8).reshape(-1, 32), np.zeros(shards), np.cumsum([0, *lengths])[:-1],
        np.array(lengths), np.ones(shards),
    )  # fmt: skip


@on_loop
async def test_what_cannot_be_carried_out_for_one_data_set_is_for_the_others(tmp_path: Path) -> None:
    """Two chunks of a data set with a huge shard need more than two of the mean."""
    uneven = _uneven("uneven")
    size_bytes = int(most_disk_bytes(uneven.lengths).sum())
    async with coordinating(tmp_path, a=FIRST_BYTES + size_bytes // 10) as coordinator:
        await reads(coordinator, "a", uneven)
        await reads(coordinator, "b", FIRST)
        await reads(coordinator, "c", FIRST)
        await plans(coordinator)
        assert is_whole(coordinator)
        assert cached(coordinator, uneven).mode == UNIFORM, "there is no room for two chunks of it"
        wrong = types_pb2.CacheSetting(mode=COOPERATIVE, allocation_bytes=10)
        await coordinator.catalogue.carry_out(
            {uneven.digest_id: wrong, FIRST.digest_id: types_pb2.CacheSetting(mode=UNIFORM, allocation_bytes=77)}, "p"
        )
        assert cached(coordinator, FIRST).allocation_bytes == 77


@on_loop
async def test_a_data_set_that_is_deleted_in_mid_plan_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=2 * (FIRST_BYTES + SECOND_BYTES)) as coordinator:
        await reads(coordinator, "a", FIRST)
        await reads(coordinator, "b", SECOND)
        assert coordinator.replanning
        catalogue, carry_out = coordinator.catalogue, coordinator.catalogue.carry_out

        async def deleted_first(decided: Any, policy: str) -> None:
            await catalogue.delete(EVERYBODY, next(iter(decided)), force=True)
            await carry_out(decided, policy)

        catalogue.carry_out = deleted_first  # type: ignore[method-assign]
        await plans(coordinator)
        left = [one for one in (FIRST, SECOND) if one.digest_id in coordinator.registry]
        assert [cached(coordinator, one).mode for one in left] == [UNIFORM]


@on_loop
async def test_after_a_restart_nothing_is_planned_for_those_nodes_alone_that_came_first(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES, b=FIRST_BYTES) as coordinator:
        await coordinator.start()
        await reads(coordinator, "job", FIRST)
        await plans(coordinator)
        assert is_whole(coordinator)
    async with coordinating(tmp_path, a=FIRST_BYTES // 3) as coordinator:
        await coordinator.start()
        await plans(coordinator)
        assert is_whole(coordinator)
        coordinator.caching._restored_at = None
        await plans(coordinator)
        assert cached(coordinator, FIRST).allocation_bytes == FIRST_BYTES // 3, "the other is gone for good"


@on_loop
async def test_what_was_pinned_before_a_restart_is_no_decision_after_it(tmp_path: Path) -> None:
    """Also where it has no size: all of it."""
    async with coordinating(tmp_path, a=2 * (FIRST_BYTES + SECOND_BYTES)) as coordinator:
        await coordinator.start()
        for digest, job in ((FIRST, "job"), (SECOND, "another")):
            await reads(coordinator, job, digest)
        await plans(coordinator)
        for digest in (FIRST, SECOND):
            await coordinator.catalogue.set_cache(digest.digest_id, types_pb2.CacheSetting(mode=UNIFORM))
        await coordinator.catalogue.set_cache(
            FIRST.digest_id, types_pb2.CacheSetting(mode=UNIFORM, allocation_bytes=FIRST_BYTES // 2)
        )
        before = list((await plans(coordinator)).planner.history)
        assert before[-1].becomes == Allocation("uniform", FIRST_BYTES // 2)
    async with coordinating(tmp_path, a=2 * (FIRST_BYTES + SECOND_BYTES)) as coordinator:
        await coordinator.start()
        assert coordinator.replanning
        told = await coordinator.replanning.explain(FIRST.name)
        assert told.gets.allocation == Allocation("uniform", FIRST_BYTES // 2), "before anything is planned, too"
        assert told.reasons[told.name] == PINNED
        coordinator.caching._restored_at = None  # nobody else is waited for
        assert list((await plans(coordinator)).planner.history) == before
        await coordinator.catalogue.unset_cache(FIRST.digest_id)
        [given_back] = list((await plans(coordinator)).planner.history)[len(before) :]
        assert (given_back.was, given_back.rule) == (Allocation("uniform", FIRST_BYTES // 2), "no longer pinned")


@on_loop
async def test_nor_is_a_limit_of_before_a_restart(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=2 * FIRST_BYTES) as coordinator:
        await coordinator.start()
        for job in ("job", "other"):
            await reads(coordinator, job, FIRST)
            await coordinator.allocate_remote_io(job, 1e6)
        before = list((await plans(coordinator)).planner.history)
        assert sorted(one.becomes for one in before if one.kind == "job") == [1e6, 1e6]
    async with coordinating(tmp_path, a=2 * FIRST_BYTES) as coordinator:
        await coordinator.start()
        coordinator.caching._restored_at = None  # nobody else is waited for
        await plans(coordinator)  # none of them is back
        await reads(coordinator, "job", FIRST)
        planning = await plans(coordinator)
        assert [one for one in planning.planner.history if one.kind == "job"] == before[-2:]
        await reads(coordinator, "other", FIRST)
        await coordinator.allocate_remote_io("other", 3e6)
        assert [one.becomes for one in (await plans(coordinator)).planner.history][len(before) :] == [3e6]
        await coordinator.allocate_remote_io("job", 0)
        assert list((await plans(coordinator)).planner.history)[-1].was == 1e6


@on_loop
async def test_where_nobody_decides_what_a_policy_had_decided_makes_way(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        await coordinator.start()
        await reads(coordinator, "job", FIRST)
        await plans(coordinator)
        assert cached(coordinator, FIRST).decided_by == "benefit"
    for _ in range(2):
        async with coordinating(tmp_path, policy="off", a=FIRST_BYTES) as coordinator:
            await coordinator.start()
            assert not cached(coordinator, FIRST).mode
            await coordinator.catalogue.register("second", b"", None, parts_of(SECOND))
            await coordinator.catalogue.set_cache(
                SECOND.digest_id, types_pb2.CacheSetting(mode=UNIFORM, allocation_bytes=FIRST_BYTES)
            )
            assert coordinator.caching.placement.share([FIRST_BYTES]) == 1.0, "who is pinned has all that was promised"


@on_loop
async def test_only_the_data_set_that_is_probed_is_read_past_the_cache_also_without_a_job(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        sessions = [await reads(coordinator, "", FIRST, key="key"), await reads(coordinator, "job", SECOND)]
        sessions.append(await reads(coordinator, "job", FIRST))
        coordinator.probed.update({("key", FIRST.digest_id), ("job", SECOND.digest_id)})
        bypassed = []
        for session_id, name in zip(sessions, ("key first", "job second", "job first"), strict=True):
            result, _ = await coordinator.reading.lease(
                pb.LeaseRequest(session_id=session_id, reader_id=name, sequence=1, max_shards=1, max_bytes=1 << 30)
            )
            bypassed.append(result.bypass)
        assert bypassed == [True, True, False]


@pytest.mark.parametrize("json", ["[]", "3", "null", '{"kind": "plan", "at_s": 1' + "0" * 400 + "}", "{"])
@on_loop
async def test_decisions_that_are_not_understood_are_passed_over(tmp_path: Path, json: str) -> None:
    async with coordinating(tmp_path) as coordinator:
        assert coordinator.replanning
        coordinator.replanning.decided(PlanDecided(json=json))
        assert not len(coordinator.replanning.planner.history)


@on_loop
async def test_who_chose_another_policy_is_told_of_after_a_restart(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator:
        await coordinator.start()
        await coordinator.choose_policy("none")
        assert coordinator.replanning
        before = list(coordinator.replanning.planner.history)
    assert [(one.kind, one.was, one.becomes) for one in before] == [("policy", "benefit", "none")]
    async with coordinating(tmp_path) as coordinator:
        await coordinator.start()
        assert coordinator.replanning
        assert list(coordinator.replanning.planner.history) == before


@on_loop
async def test_dates_follow_a_clock_that_is_set_forward_and_never_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a machine sleeps the coordinator's own clock stands still."""
    async with coordinating(tmp_path, clock=ManualClock()) as coordinator:
        for policy, ahead_s in (("none", 0.0), ("lru", 28_800.0), ("static", -28_800.0)):
            monkeypatch.setattr(time, "time", lambda ahead_s=ahead_s: 1.8e9 + ahead_s)
            await coordinator.choose_policy(policy)
        assert coordinator.replanning
        dates = [one.at_s for one in coordinator.replanning.planner.history]
        assert dates == [1.8e9, 1.8e9 + 28_800, 1.8e9 + 28_800]


@on_loop
async def test_a_limit_that_is_taken_back_is_gone_at_once(tmp_path: Path) -> None:
    """It was never the policy's own."""
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        await reads(coordinator, "job", FIRST)
        await coordinator.allocate_remote_io("job", 1e6)
        await plans(coordinator)
        assert coordinator.budgets.allocated == {"job": 1e6}
        await coordinator.allocate_remote_io("job", 0)
        assert not coordinator.budgets.in_use


@on_loop
async def test_accelerators_are_those_that_the_jobs_say(tmp_path: Path) -> None:
    """A fixed split goes by them."""
    quota_bytes, clock = FIRST_BYTES // 2, ManualClock()
    async with coordinating(tmp_path, "static", clock, a=quota_bytes) as coordinator:
        for job, digest, accelerators in (("small", FIRST, 1), ("large", SECOND, 3)):
            session_id = await reads(coordinator, job, digest)
            beat(coordinator, "a", quota_bytes, pb.ReaderReport(session_id=session_id, reader_id=job))
            coordinator.step_meters.take(job, "p", StepReading(0, 0.0, 0.0, 0, accelerators))
        await plans(coordinator)
        parts = [cached(coordinator, digest).allocation_bytes for digest in (FIRST, SECOND)]
        assert parts == [quota_bytes // 4, quota_bytes * 3 // 4]


@on_loop
async def test_nodes_are_told_a_rate_with_the_first_reader_and_keep_to_it_between_two_epochs(tmp_path: Path) -> None:
    setting = types_pb2.CacheSetting(mode=COOPERATIVE, allocation_bytes=FIRST_BYTES // 2)
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        await coordinator.allocate_remote_io("job", 1e6)
        await coordinator.catalogue.register(FIRST.name, b"", None, parts_of(FIRST))
        await coordinator.catalogue.set_cache(FIRST.digest_id, setting)
        session_id = await reads(coordinator, "job", FIRST)
        assert coordinator.budgets.told(FIRST.digest_id) == 1e6
        await coordinator.reading.close_reader(session_id, "job first", False)
        await coordinator.caretaker._look_after_all()
        assert not coordinator.sessions.jobs_of()
        assert coordinator.budgets.told(FIRST.digest_id) == 1e6
