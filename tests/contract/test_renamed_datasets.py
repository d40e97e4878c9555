"""A data set that is registered anew under another name is the same to plans: what is kept of it, and its history."""

from __future__ import annotations

from pathlib import Path

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, SECOND, beat, cached, coordinating, parts_of, plans, reads
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S


@on_loop
async def test_it_is_explained_by_its_new_name_as_by_the_one_before(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=4 * FIRST_BYTES) as coordinator:
        await reads(coordinator, "job", FIRST)
        before = await (await plans(coordinator)).explain(FIRST.name)
        await coordinator.catalogue.register("renamed", b"", None, parts_of(FIRST))
        await reads(coordinator, "another", FIRST)  # so that it is planned again
        told = await (await plans(coordinator)).explain("renamed")
        assert told.name.startswith("renamed (") and told.gets.allocation == before.gets.allocation
        assert [one["becomes"] for one in told.history] == [one["becomes"] for one in before.history]
        assert cached(coordinator, FIRST).allocation_bytes == FIRST_BYTES


@on_loop
async def test_before_anything_is_planned_again_too(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=4 * FIRST_BYTES) as coordinator:
        await reads(coordinator, "job", FIRST)
        await plans(coordinator)
        await coordinator.catalogue.register("renamed", b"", None, parts_of(FIRST))
        assert coordinator.replanning
        told = await coordinator.replanning.explain("renamed")
        assert told.gets.allocation.cache_bytes == FIRST_BYTES
        assert told.reasons[told.name] and told.history


@on_loop
async def test_after_a_restart_too(tmp_path: Path) -> None:
    """The log has what was decided under the name of then."""
    async with coordinating(tmp_path, a=4 * FIRST_BYTES) as coordinator:
        await reads(coordinator, "job", FIRST)
        before = await (await plans(coordinator)).explain(FIRST.name)
        await coordinator.catalogue.register("renamed", b"", None, parts_of(FIRST))
    async with coordinating(tmp_path, a=4 * FIRST_BYTES) as coordinator:
        await coordinator.start()
        await reads(coordinator, "job", FIRST)
        assert coordinator.replanning
        told = await coordinator.replanning.explain("renamed")
        assert [one["becomes"] for one in told.history] == [one["becomes"] for one in before.history]
        assert {one["name"] for one in told.history} == {told.name}


@on_loop
async def test_where_nobody_reads_it_meanwhile_too(tmp_path: Path) -> None:
    clock = ManualClock()
    async with coordinating(tmp_path, clock=clock, a=4 * FIRST_BYTES) as coordinator:
        session = await reads(coordinator, "job", FIRST)
        before = await (await plans(coordinator)).explain(FIRST.name)
        await coordinator.reading.close_reader(session, f"job {FIRST.name}", False)
        clock.advance(10 * GONE_S)
        beat(coordinator, "a", 4 * FIRST_BYTES)
        planning = await plans(coordinator)
        assert not planning._views.names.datasets
        await coordinator.catalogue.register("renamed", b"", None, parts_of(FIRST))
        await reads(coordinator, "job", FIRST)
        told = await (await plans(coordinator)).explain("renamed")
        assert before.history[0]["at_s"] in [one["at_s"] for one in told.history]


@on_loop
async def test_who_has_finished_and_reads_of_several_are_told_under_the_new_name(tmp_path: Path) -> None:
    clock = ManualClock()
    async with coordinating(tmp_path, policy="silod_greedy", clock=clock, a=4 * FIRST_BYTES) as coordinator:
        sessions = {name: await reads(coordinator, "several", name) for name in (FIRST, SECOND)}
        await reads(coordinator, "another", SECOND)
        await coordinator.allocate_remote_io("several", 1e6)
        planning = await plans(coordinator)
        before = await planning.explain(f"several, {planning._views.names.datasets[FIRST.digest_id]}")
        assert [one["kind"] for one in before.history].count("job") == 1
        for digest, session in sessions.items():
            await coordinator.reading.close_reader(session, f"several {digest.name}", False)
        clock.advance(2 * GONE_S)
        beat(coordinator, "a", 4 * FIRST_BYTES)
        await plans(coordinator)
        await coordinator.catalogue.register("renamed", b"", None, parts_of(FIRST))
        called = planning._views.called(FIRST.digest_id)
        assert called.startswith("renamed (")
        told = await planning.explain(f"several, {called}")
        assert told.finished and told.finished["dataset"] == called
        assert f"{FIRST.name} (" not in str(told)
        assert before.history[0]["at_s"] in [one["at_s"] for one in told.history]
        kinds = [one["kind"] for one in told.history if one["name"] == told.name]
        assert "job" in kinds
        past = {one.name for one in planning.history(100)}
        assert called in past and f"several, {called}" in past
        assert not any(FIRST.name in name for name in past)


@on_loop
async def test_a_job_of_several_is_told_so_after_a_restart_too(tmp_path: Path) -> None:
    for name in (FIRST.name, "renamed"):
        async with coordinating(tmp_path, policy="silod_greedy", a=4 * FIRST_BYTES) as coordinator:
            await coordinator.start()
            await coordinator.catalogue.register(name, b"", None, parts_of(FIRST))
            await reads(coordinator, "several", FIRST)
            await reads(coordinator, "several", SECOND)
            await coordinator.allocate_remote_io("several", 1e6 if name == FIRST.name else 4e6)
            planning = coordinator.replanning
            assert planning
            coordinator.caching._restored_at = None  # all nodes have been heard of
            await plans(coordinator)
            told = await planning.explain(f"several, {planning._views.called(FIRST.digest_id)}")
    assert told.name.startswith("several, renamed (")
    rates = [(one["was"], one["becomes"]) for one in told.history if one["kind"] == "job"]
    assert (None, 5e5) in rates, "of the coordinator before, under the name of then"
    assert {one["name"] for one in told.history if one["kind"] == "job"} == {told.name}
