"""What thousands of nodes tell, or a plan decides, is gone through in turns: others are served meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, read_first, started
from tests.support.digests import numbered_digest
from tests.support.planning import FIRST, FIRST_BYTES, coordinating, reads
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator import coordinator as coordinator_module
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.chunk_rotation.rotations import Rotations
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.long_work import in_parts
from tfquiver.service.coordinator.plan_rounds_and_moves import cluster_view, replanning
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Outcome
from tfquiver.service.coordinator.policies.views_and_plans.interface import Plan
from tfquiver.service.coordinator.resident_shards import residency
from tfquiver.service.coordinator.resident_shards.holdings import Holdings
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.service.coordinator.sessions.lease import LeaseState
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_rows


class Turns:
    """Of the loop, and how much was done in each."""

    def __init__(self) -> None:
        self.now, self.done = 0, Counter[int]()
        self._task = asyncio.create_task(self._pass())

    def did(self, much: int) -> None:
        self.done[self.now] += much

    def stop(self) -> tuple[int, int]:
        """How much was done in all, and the most in one of them."""
        self._task.cancel()
        return self.done.total(), max(self.done.values())

    async def _pass(self) -> None:
        while True:
            self.now += 1
            await asyncio.sleep(0)


def tell(coordinator: Coordinator, number: int) -> None:
    """That a node has got ten shards."""
    coordinator.residency.added(f"node-{number}", of_rows(DIGEST.hashes[10 * number : 10 * number + 10]))


@on_loop
async def test_others_are_served_while_what_many_nodes_hold_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand nodes that had told of five thousand shards each it took a second, when a data set was opened."""
    monkeypatch.setattr(residency, "_MERGED_AT_ONCE", 10)
    merge, turns = Holdings.merge, Turns()

    def counted(self: Holdings) -> int:
        turns.did(looked_at := merge(self))
        return looked_at

    async with started(tmp_path) as coordinator:
        for number in range(20):
            tell(coordinator, number)
        monkeypatch.setattr(Holdings, "merge", counted)
        await read_first(coordinator, "r")
    assert turns.stop() == (200, 10)


@on_loop
async def test_others_are_served_while_what_nodes_tell_meanwhile_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart readers come back while all nodes tell all that they hold: it is as much as the data set."""
    prepare, set_, told = Caching.prepare, Table.set, threading.Event()
    turns = Turns()

    def late(*args: Any) -> Any:
        prepared = prepare(*args)
        assert told.wait(10)
        return prepared

    def counted(self: Table, shards: Any, number: int) -> Any:
        turns.did(len(shards))
        return set_(self, shards, number)

    monkeypatch.setattr(Caching, "prepare", late)
    monkeypatch.setattr(Table, "set", counted)
    async with started(tmp_path) as coordinator:
        reading = asyncio.create_task(read_first(coordinator, "r"))
        while not coordinator.residency._openings:
            await asyncio.sleep(0)
        for number in range(20):
            tell(coordinator, number)
        told.set()
        assert await reading is LeaseState.LEASED
        assert sum(coordinator.residency.table(DIGEST.digest_id).resident) == 200
    assert turns.stop() == (200, 10)


@on_loop
async def test_others_are_served_while_many_rotations_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart all begin when the last node has told what it holds."""
    monkeypatch.setattr(in_parts, "PART_S", 0.0)
    start, turns = Rotations.start, Turns()

    def counted(self: Rotations, *args: Any) -> None:
        turns.did(1)
        start(self, *args)

    monkeypatch.setattr(Rotations, "start", counted)
    digests = [numbered_digest(100, f"data {number}") for number in range(5)]
    setting = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_COOPERATIVE, chunks=10, allocation_bytes=1 << 30)
    async with started(tmp_path) as coordinator:
        tells = pb.HeartbeatRequest(incarnation="1", inventory=pb.Inventory(full=True, version=1, more=True))
        tells.node.node_id, tells.node.quota_bytes = "late", 1
        coordinator.heartbeats.take(tells)
        for digest in digests:
            await coordinator.catalogue.register(digest.name, b"", None, parts(digest))
            await coordinator.catalogue.set_cache(digest.digest_id, setting)
        reading = [asyncio.create_task(read_first(coordinator, one.name, one.digest_id)) for one in digests]
        while len(coordinator.caching.loaded_ahead) < 5:
            await asyncio.sleep(0)
        assert not len(coordinator.caching.rotations)
        tells.inventory.version, tells.inventory.full, tells.inventory.more = 2, False, False
        coordinator.heartbeats.take(tells)
        assert await asyncio.gather(*reading) == [LeaseState.LEASED] * 5
    assert turns.stop() == (5, 1)


@on_loop
async def test_others_are_served_while_a_node_goes_that_held_some_of_many_data_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two hundred, of which it held some each, the loop was held up for 25 to 56 ms."""
    monkeypatch.setattr(in_parts, "PART_S", 0.0)
    monkeypatch.setattr(coordinator_module, "_GONE_AT_ONCE", 1)
    changed, turns = Caching.changed, Turns()

    def counted(self: Caching, changes: Any, loaded: bool = False) -> None:
        changes = list(changes)
        turns.did(len(changes))
        changed(self, changes, loaded)

    monkeypatch.setattr(Caching, "changed", counted)
    digests = [numbered_digest(10, f"data {number}") for number in range(8)]
    async with started(tmp_path) as coordinator:
        for digest in digests:
            await coordinator.catalogue.register(digest.name, b"", None, parts(digest))
            await read_first(coordinator, digest.name, digest.digest_id)
        beat(coordinator, "goes")
        tables = [coordinator.residency.table(digest.digest_id) for digest in digests]
        for table, digest in zip(tables, digests, strict=True):
            coordinator.residency.added("goes", of_rows(digest.hashes))
            assert table.resident_shards == 10
        coordinator._node_gone("goes")
        coordinator.caching.forget(digests[-1].digest_id)  # which is not followed any more
        while any(table.resident_shards for table in tables[:-1]):
            await asyncio.sleep(0)
    assert turns.stop() == (7, 1)


@on_loop
async def test_others_are_served_while_what_was_decided_of_many_jobs_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand jobs that have bandwidth it took the loop 15 ms at a time."""
    decisions = tuple(Decision(0.0, "job", f"job {number}", None, 1e6) for number in range(20))
    monkeypatch.setattr(in_parts, "PART_S", 0.0)
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        planning, turns = coordinator.replanning, Turns()
        assert planning
        await reads(coordinator, "job", FIRST)
        await planning.measure()
        monkeypatch.setattr(planning.planner, "replan", lambda view, now: Outcome(Plan(), decisions))
        monkeypatch.setattr(planning, "_journal", lambda record: turns.did(1))
        await planning.look()
    assert turns.stop() == (20, 1)


@on_loop
async def test_others_are_served_between_looking_who_reads_and_charging_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten thousand sessions of a thousand jobs that have limits it took 44 ms every second."""
    jobs_of, ticking, turns = Sessions.jobs_of, Budgets.ticking, Turns()

    def looked(self: Sessions) -> Any:
        turns.did(1)
        return jobs_of(self)

    def ticked(self: Budgets, *given: Any) -> Any:
        turns.did(1)
        return ticking(self, *given)

    async with started(tmp_path) as coordinator:
        await coordinator.allocate_remote_io("job", 1e6)
        for task in coordinator._tasks:
            task.cancel()
        await asyncio.sleep(0)
        monkeypatch.setattr(Sessions, "jobs_of", looked)
        monkeypatch.setattr(Budgets, "ticking", ticked)
        await coordinator.caretaker.care(0.0)
    assert turns.stop() == (2, 1)


@on_loop
async def test_others_are_served_while_many_that_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand jobs that read ten data sets each it took the loop 53 ms, with each plan and each `explain`."""
    threads, named = list[bool](), cluster_view.names_of

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return named(*given)

    monkeypatch.setattr(cluster_view, "names_of", noted)
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        planning = coordinator.replanning
        assert planning
        await reads(coordinator, "job", FIRST)
        await planning.measure()
        await planning.look()
        assert threads == [False] and list(planning._views.names.jobs.values()) == ["job"]


@on_loop
async def test_of_many_jobs_a_few_hundred_are_measured_in_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand are heard of every four seconds: to look at all of them every second was a twentieth of the loop."""
    monkeypatch.setattr(replanning, "_MEASURED_PER_S", 2)
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        planning = coordinator.replanning
        assert planning
        for number, pause_s in ((1, 1.0), (2, 1.0), (3, 1.5)):
            await reads(coordinator, f"job {number}", FIRST)
            await planning.measure()
            assert planning._measure_s() == pause_s
