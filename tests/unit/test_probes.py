"""Probes as the coordinator carries them out: reports of readers in, jobs that read past the cache out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import JobMeters
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meter import StepReading
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meters import StepMeters
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_load import StoreLoad
from tfquiver.service.coordinator.probing import probes
from tfquiver.service.coordinator.probing.probes import Held, Probes
from tfquiver.service.coordinator.probing.schedule import ProbeSchedule

DATA = b"d" * 32
KEY = "job", DATA
REPORT_S, MB = 2.0, 10**6


class World:
    """One job, alone; its node reports every two seconds. `hit_per_s` and `miss_per_s`: bytes/s from each."""

    def __init__(self, hit_per_s: int, miss_per_s: int, epoch_bytes: int = 0) -> None:
        self.clock, self.probed = ManualClock(100.0), set[tuple[str, bytes]]()
        self.meters = JobMeters(self.clock, self._session)
        self.steps = StepMeters(self.clock, self.meters)
        self.probes = Probes(self.clock, self.meters, self.probed, self.steps)
        self.hit_per_s, self.miss_per_s, self.epoch_bytes = hit_per_s, miss_per_s, epoch_bytes
        self.cached = True
        self.report = pb2.ReaderReport(session_id="s", reader_id="r")
        self.missed_s = 0.0
        self.begun: list[float] = []

    def _session(self, session_id: str) -> Any:
        if session_id != "s":
            raise errors.NotFoundError(session_id)
        return SimpleNamespace(reads=("job", DATA), job="job")

    def run(self, seconds: float, wanting: bool = True) -> World:
        for _ in range(round(seconds / REPORT_S)):
            misses = bool(self.probed) or not self.cached
            size_bytes = int((self.miss_per_s if misses else self.hit_per_s) * REPORT_S)
            self.clock.advance(REPORT_S)
            report = self.report
            report.records += size_bytes // 1000
            report.bytes += size_bytes
            report.elapsed_us += int(REPORT_S * 1e6)
            report.hit_bytes += 0 if misses else size_bytes
            report.missed_bytes += size_bytes if misses else 0
            if self.probed:
                self.missed_s += REPORT_S
                if self.cached:
                    self.probes.leased(*KEY, size_bytes)
            self.meters.take([report])
            before = bool(self.probed)
            held = Held(lambda: MB // 10, epoch_bytes=self.epoch_bytes)
            self.probes.tick({KEY: held}, {DATA} if wanting else set())
            if self.probed and not before:
                self.begun.append(self.clock.now())
        return self


def test_a_probe_begins_only_once_a_window_of_reports_can_be_paid_for() -> None:
    """A hundred mini-batches pass within a second here, and eight reports take sixteen."""
    world = World(hit_per_s=4 * MB, miss_per_s=1 * MB)
    world.run(200.0)
    assert not world.begun, "200 s of 4 MB/s allow 16 MB; 64 MB may have come from the cache in eight reports"
    assert "may be read from the store by now" in world.probes.told(*KEY, 0.0)["waits_for"]
    world.run(1000.0)
    told = world.probes.told(*KEY, 0.0)
    assert len(world.begun) == 1, "and then it comes to something at once"
    assert told["benefit"]["value"] == pytest.approx(4.0, rel=0.02)
    assert told["basis"] == "hit"
    assert told["extra_store_bytes"] <= 0.02 * world.report.bytes


@pytest.mark.parametrize("cached", [True, False])
def test_mini_batches_that_take_seconds_make_no_window_longer_than_a_minute(cached: bool) -> None:
    """A hundred of them take 14 minutes: a job that reads past the cache for so long has nothing kept meanwhile."""
    world = World(hit_per_s=4 * MB, miss_per_s=1 * MB)
    world.cached, batch = cached, 32768
    world.steps.take("job", "p", StepReading(0, 0.0, 0.0))
    for second in range(0, 4000, 10):
        world.run(10.0)
        steps = world.report.records // batch
        world.steps.take("job", "p", StepReading(steps, second, 0.0, steps * batch))
    told = world.probes.told(*KEY, 0.0)
    assert told["benefit"]["value"] == pytest.approx(4.0 if cached else 1.0, rel=0.02)
    assert 60.0 <= world.missed_s <= 0.05 * 4000
    assert told["extra_store_bytes"] <= 0.02 * world.report.bytes


def test_a_job_whose_data_is_not_cached_yet_is_probed_for_nothing() -> None:
    world = World(hit_per_s=4 * MB, miss_per_s=1 * MB)
    world.cached = False
    world.run(40.0)
    assert world.begun
    world.cached = True
    told = world.run(60.0).probes.told(*KEY, 1000.0)
    assert told["benefit"]["value"] == pytest.approx(4.0, rel=0.02)
    assert told["extra_store_bytes"] == 0
    assert told["at_s"] == pytest.approx(world.clock.now() + 1000.0, abs=60.0)


def test_what_probes_may_cost_does_not_begin_anew_after_a_pause() -> None:
    """Whoever validates for half a minute after each epoch counts as ended meanwhile. What it has read is remembered,
    and so is what its probes have cost: else each epoch could spend 2 % of all that was ever read."""
    world, read_bytes, missed_bytes = World(hit_per_s=4 * MB, miss_per_s=1 * MB), 0, 0
    for epoch in range(40):
        world.report = pb2.ReaderReport(session_id="s", reader_id=f"r{epoch}")
        for _ in range(100):
            world.run(REPORT_S)
            if world.probed:
                world.run(10.0)  # and the epoch ends in the middle of it
                break
        for _ in range(30):
            world.clock.advance(REPORT_S)
            world.probes.tick({}, {DATA})
        assert not world.probed
        read_bytes, missed_bytes = read_bytes + world.report.bytes, missed_bytes + world.report.missed_bytes
    assert 0 < missed_bytes <= 0.02 * read_bytes


def test_what_a_person_has_pinned_is_not_probed() -> None:
    world = World(hit_per_s=4 * MB, miss_per_s=1 * MB, epoch_bytes=10**12)
    assert not world.run(100.0, wanting=False).begun
    assert world.run(10.0).begun


def test_who_stops_reading_is_normal_at_once() -> None:
    world = World(hit_per_s=4 * MB, miss_per_s=1 * MB, epoch_bytes=10**12).run(6.0)
    assert world.probed == {("job", DATA)}
    world.probes.tick({}, {DATA})
    assert world.probed == set()


def test_what_missing_may_cost_ends_it_even_between_two_ticks() -> None:
    world = World(hit_per_s=4 * MB, miss_per_s=1 * MB, epoch_bytes=10**10).run(6.0)
    assert world.probed
    world.probes.leased(*KEY, 199 * MB)
    assert world.probed == set(), "2 % of 10 GB"


def test_a_mini_batch_is_what_the_job_says() -> None:
    """What missing would cost at least is a hundred of them."""

    def would_cost(records: int) -> float:
        world = World(hit_per_s=1 * MB, miss_per_s=1 * MB)
        world.run(REPORT_S)
        for seconds in (0, 5):
            world.clock.advance(seconds)
            reading = StepReading(seconds, 0.5 * seconds, 0.5 * seconds, records * seconds, accelerators=8)
            assert world.steps.take("job", "p", reading)
        world.run(REPORT_S)
        told = str(world.probes.told(*KEY, 0.0)["waits_for"])
        return float(told.rpartition(" would need ")[2].split()[-2].replace(",", "")) * MB

    assert would_cost(512) - would_cost(256) == pytest.approx(100 * 256 * 1000, rel=0.05)
    assert would_cost(256 * 1000) == would_cost(128 * 1000) == pytest.approx(60 * MB, rel=0.05), "in a minute"
    assert would_cost(0) == would_cost(32), "that is what is taken where nobody says"


def test_what_a_probe_would_need_is_told_no_more_exactly_than_it_is_known() -> None:
    """Each look has other reports, and other numbers: what people were told was never the same."""
    world, needs = World(hit_per_s=4 * MB, miss_per_s=1 * MB), set[str]()
    world.run(10.0)
    for number in range(20):
        world.hit_per_s = 4 * MB - number % 7 * 10_000
        said = str(world.run(REPORT_S).probes.told(*KEY, 0.0)["waits_for"])
        needs.add(said.rpartition(" would need ")[2])
    assert needs <= {"at least 79 MB", "at least 80 MB"}


def test_what_is_read_past_the_cache_twice_is_known_until_the_probe_is_over() -> None:
    world = World(hit_per_s=4 * MB, miss_per_s=1 * MB, epoch_bytes=10**10).run(6.0)
    assert world.probes.again(*KEY, [1, 2], 5) == []
    assert world.probes.again(*KEY, [2, 3], 5) == [2]
    world.probes.leased(*KEY, 199 * MB)
    assert world.probes.again(*KEY, [2, 3], 5) == []
    for _ in range(2):
        world.run(2.0)
        assert world.probes.again(*KEY, [2, 3], 5) == [], "what was on its way when it ended is not of the next one"


def test_a_job_that_was_not_heard_of_since_is_not_measured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a thousand nodes report, a job is heard of every few seconds, and looked at more often."""
    world, asked, ticks = World(hit_per_s=4 * MB, miss_per_s=1 * MB).run(10.0), 0, list[list[Any]]()
    ticking = ProbeSchedule.ticking

    def in_hand() -> int:
        nonlocal asked
        asked += 1
        return MB

    def seen(self: ProbeSchedule, now: float, jobs: Any, store: Any) -> Any:
        ticks.append(list(jobs))
        return ticking(self, now, jobs, store)

    monkeypatch.setattr(ProbeSchedule, "ticking", seen)
    for _ in range(3):
        world.clock.advance(0.5)
        world.probes.tick({KEY: Held(in_hand)}, {DATA})
    assert ticks[0] and ticks[1][0] is ticks[2][0]
    world.meters.take([world.report])
    world.probes.tick({KEY: Held(in_hand)}, {DATA})
    assert ticks[3][0] is not ticks[2][0]
    assert not asked, "what it has in hand matters to nobody while it may not be probed"


def test_what_is_heard_while_jobs_are_measured_is_measured_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a measurement of before would be kept as that of this report until the next one."""
    monkeypatch.setattr(probes, "_AT_A_TIME", 1)
    world = World(hit_per_s=4 * MB, miss_per_s=1 * MB).run(10.0)
    held, changed = {KEY: Held()}, 0
    for _ in range(20):
        world.clock.advance(REPORT_S)
        before = dict(world.meters)[KEY].measured()
        ticking = world.probes.ticking(held, {DATA}, StoreLoad(), {})
        next(ticking)
        world.report.records += 1000
        world.report.bytes += MB
        world.report.hit_bytes += MB
        world.report.elapsed_us += int(REPORT_S * 1e6)
        world.meters.take([world.report])
        for _ in ticking:
            pass
        world.probes.tick(held, {DATA})
        measured = dict(world.meters)[KEY].measured()
        assert measured is not None and before is not None
        changed += measured.bytes_per_s != before.bytes_per_s
        assert world.probes._seen[KEY][2].bytes_per_s == measured.bytes_per_s
    assert changed
