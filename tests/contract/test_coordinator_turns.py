"""What thousands of nodes tell is merged in turns: others are served meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, read_first, started
from tfquiver.content.prefixes import of_rows
from tfquiver.service.coordinator.cache.caching import Caching
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.residency import residency
from tfquiver.service.coordinator.residency.holdings import Holdings
from tfquiver.service.coordinator.residency.residency import Table
from tfquiver.service.coordinator.sessions.lease import LeaseState


class Turns:
    """Of the loop, and how much was done in each."""

    def __init__(self) -> None:
        self.now, self.done = 0, Counter[int]()
        self._task = asyncio.create_task(self._pass())

    def did(self, much: int) -> None:
        self.done[self.now] += much

    def stop(self) -> None:
        self._task.cancel()

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
    turns.stop()
    assert turns.done.total() == 200
    assert max(turns.done.values()) == 10


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
    turns.stop()
    assert turns.done.total() == 200
    assert max(turns.done.values()) == 10
