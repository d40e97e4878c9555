"""What sessions lease when their job's bytes from the store run out; and jobs that read past the cache."""

from __future__ import annotations

import random

from tests.unit.cached import Cached
from tests.unit.session_bench import LIMITS
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.sessions.lease import LeaseResult, LeaseState
from tfquiver.service.coordinator.sessions.readers import ReaderRequest
from tfquiver.service.coordinator.sessions.session_book import Record
from tfquiver.service.coordinator.sessions.sessions import Sessions

SHARDS, SHARD_BYTES = 60, 16
WAIT = LeaseState.WAIT


class Place:
    """Jobs, each with one reader that asks for much, over one data set."""

    def __init__(self, *jobs: str, rotation: str = "") -> None:
        self.clock = ManualClock()
        self.cached = Cached([SHARD_BYTES] * SHARDS, self.clock, rotation)
        self.budgets, self.probed = Budgets(self.clock), set[tuple[str, bytes]]()
        log: list[Record] = []
        self.sessions = Sessions(
            self.clock, random.Random(1), log.append, self.cached.view, limits=LIMITS, budgets=self.budgets,
            probed=self.probed,
        )  # fmt: skip
        self.cached.begin(self.sessions, self.budgets)
        self._sequence = 0
        self.session_of = {
            job: self.sessions.admission.ticket(job, f"{job}:1", 0, False, self.cached.digest_id, SHARDS, job)
            for job in jobs
        }
        for job, session_id in self.session_of.items():
            assert session_id
            self.sessions.readers.open(session_id, ReaderRequest(job, "n", "1"), [], True)
        self.budgets.tick(self.sessions.jobs_of(), [self.cached.digest_id])

    def lease(self, job: str, most: int = SHARDS) -> LeaseResult:
        session_id = self.session_of[job] or ""
        self._sequence += 1
        reader = self.sessions.readers.find(session_id, job)
        return self.sessions.readers.lease(session_id, reader, self._sequence, most, 1 << 40, True, True)

    def counters(self, job: str) -> tuple[int, int]:
        counted = self.sessions.session(self.session_of[job] or "").counters
        return counted.resident_leases, counted.missing_leases


def test_in_debt_a_reader_is_given_what_is_resident_or_waits_and_goes_on_when_it_is_paid() -> None:
    place = Place("a")
    place.budgets.pins.allocate("a", 10 * SHARD_BYTES)
    assert place.lease("a").state is WAIT, "nothing has come in yet"
    place.cached.hold(range(20))
    assert sorted(place.lease("a").shards) == list(range(20))
    place.clock.advance(0.15)
    assert len(place.lease("a").shards) == 2, "1.5 shards' bytes pay for two"
    assert place.lease("a").state is WAIT
    pause_s = place.budgets.pause_s("a")
    assert pause_s and 0.05 <= pause_s <= 0.06
    place.clock.advance(pause_s + 1e-6)
    assert len(place.lease("a").shards) == 1
    assert place.counters("a") == (20, 3)
    place.budgets.pins.allocate("a", 0)
    assert len(place.lease("a").shards) == SHARDS - 23, "without a rate all of it"


def test_a_session_that_waits_for_its_budget_is_not_over() -> None:
    place = Place("a")
    place.budgets.pins.allocate("a", SHARD_BYTES)
    place.cached.hold(range(SHARDS - 1))
    given = place.lease("a").shards
    assert place.lease("a").state is WAIT
    place.sessions.readers.ack(place.session_of["a"] or "", "a", given)
    assert place.lease("a").state is WAIT
    place.clock.advance(0.1)
    last = place.lease("a").shards
    assert len(last) == 1
    place.sessions.readers.ack(place.session_of["a"] or "", "a", last)
    assert place.lease("a").state is LeaseState.END


def test_what_one_job_loads_for_all_is_paid_by_all_and_what_nodes_load_too() -> None:
    place = Place("a", "b", rotation="relevance")
    for job in "ab":
        place.budgets.pins.allocate(job, 1e6)
    assert [place.lease(job).state for job in "ab"] == [WAIT] * 2, "nothing is being loaded yet"
    place.cached.look()
    place.clock.advance(0.2)

    def paid() -> list[float]:
        return [200_000 - (place.budgets.left_bytes(job) or 0.0) for job in "ab"]

    leased = place.lease("a", 10).shards
    assert len(leased) == 10
    assert paid() == [5 * SHARD_BYTES] * 2
    place.cached.hold(leased)
    assert paid() == [5 * SHARD_BYTES] * 2, "once"
    place.cached.obey(10)
    assert paid() == [10 * SHARD_BYTES] * 2


def test_a_job_without_a_rate_is_not_held_back_by_that_of_another() -> None:
    place = Place("a", "b")
    place.budgets.pins.allocate("a", SHARD_BYTES)
    assert place.lease("a").state is WAIT
    assert len(place.lease("b").shards) == SHARDS
    assert place.budgets.left_bytes("a") == 0, "what it reads for itself it pays for itself"


def test_a_probed_job_reads_past_the_cache_and_pays_for_all_of_it() -> None:
    place = Place("a", "b")
    place.cached.hold(range(SHARDS))
    place.probed.add(("a", place.cached.digest_id))
    assert place.lease("a", 5).bypass
    assert not place.lease("b", 5).bypass
    assert (place.counters("a"), place.counters("b")) == ((0, 5), (5, 0))
    place.budgets.pins.allocate("a", 10 * SHARD_BYTES)
    assert place.lease("a").state is WAIT
    place.clock.advance(0.2)
    assert len(place.lease("a").shards) == 2
    assert place.lease("a").state is WAIT
    assert place.lease("b").shards
    place.probed.clear()
    result = place.lease("a")
    assert result.shards and not result.bypass
    assert place.counters("a") == (SHARDS - 7, 7)


def test_a_lease_that_is_asked_again_is_the_same_also_in_how_it_is_to_be_read() -> None:
    place = Place("a")
    place.probed.add(("a", place.cached.digest_id))
    first = place.lease("a", 3)
    place.probed.clear()
    place._sequence -= 1
    assert place.lease("a", 3) == first
