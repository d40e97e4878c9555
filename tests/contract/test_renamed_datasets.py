"""A data set that is registered anew under another name is the same to plans: what is kept of it, and its history."""

from __future__ import annotations

from pathlib import Path

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, beat, cached, coordinating, parts_of, plans, reads
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.measuring.meters import GONE_S


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
