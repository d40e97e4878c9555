"""Time passes for one data set after the other: others may do something between."""

from __future__ import annotations

import random

import pytest

from tests.support.digests import numbered_digest
from tests.unit.cached import Cached
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.service.coordinator.sessions.sessions import Sessions


@pytest.fixture
def cached() -> Cached:
    clock = ManualClock()
    made = Cached([100] * 60, clock, "relevance")
    sessions = Sessions(clock, random.Random(1), lambda record: None, made.view)
    made.begin(sessions)
    return made


def test_there_is_a_turn_for_others_after_each_data_set(cached: Cached) -> None:
    assert list(cached.caching.rotations) == [cached.digest_id]
    parts = len(list(cached.caching.ticking({cached.digest_id})))
    cached.caching.set(cached.digest_id, None)
    assert parts - len(list(cached.caching.ticking({cached.digest_id}))) == 1


def test_a_data_set_that_stops_to_rotate_between_two_parts_is_passed_over(cached: Cached) -> None:
    ticking = cached.caching.ticking({cached.digest_id})
    next(ticking)
    cached.caching.set(cached.digest_id, None)
    assert list(ticking) == []
    assert cached.digest_id not in cached.caching.rotations


def test_of_many_data_sets_that_nobody_reads_any_more_some_go_each_time(cached: Cached) -> None:
    for number in range(200):
        cached.caching.residency.open(Table(numbered_digest(3, f"read {number}")))
    there = [len(cached.caching.residency.tables())]
    while there[-1] > 1:
        cached.caching.tick({cached.digest_id})
        there.append(len(cached.caching.residency.tables()))
        assert 0 < there[-2] - there[-1] <= 32
    assert cached.caching.residency.tables() == [cached.digest_id]
