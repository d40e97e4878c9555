"""What fills buffers at an epoch's beginning is not taken for the job's speed, nor a job that is faster for that."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tfquiver.service.coordinator.measuring_jobs_and_stores.after_pause import (
    AFTERWARDS_S,
    MOST_FILLING_S,
    MOST_PAUSE_S,
    AfterPause,
)
from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters
from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import JobMeter, Reading
from tfquiver.service.coordinator.probing.limits import ProbeLimits
from tfquiver.service.coordinator.probing.measurement import JobMeasurement
from tfquiver.service.coordinator.probing.probe import Phase, Probe, ProbeResult

MB = 10**6
STEP_S = 0.1
EPOCH_BYTES, STORE, CACHE = 27 * MB, 1 * MB, 50 * MB


def read(seconds: float, mb: float) -> Counters:
    return Counters(int(mb * 1000), int(mb * MB), 0.0, seconds, seconds)


def counted(after: AfterPause, deltas: list[Counters]) -> Counters:
    found = Counters()
    for delta in deltas:
        found = found.plus(after.read(delta))
    return found


def test_what_fills_a_buffer_is_counted_as_read_at_the_rate_of_afterwards() -> None:
    after = AfterPause()
    after.begin(6.0, 1.0 * MB)
    assert after.read(read(1.0, 6.0)) == Counters()
    found = counted(after, [read(1.0, 1.0)] * 4)
    assert found.size_bytes == 10 * MB and found.elapsed_s == pytest.approx(10.0)
    assert found.reader_s == pytest.approx(10.0), "nobody waited meanwhile"
    assert after.read(read(1.0, 9.0)) == read(1.0, 9.0), "it is over"


def test_by_no_more_than_the_pause() -> None:
    after = AfterPause()
    after.begin(2.0, 1.0 * MB)
    assert counted(after, [read(1.0, 6.0), read(3.0, 3.0)]).elapsed_s == pytest.approx(4.0 + 2.0)


@pytest.mark.parametrize(("pause_s", "rate"), [(inf, 1.0), (5.0, 0.0), (0.0, 1.0)])
def test_who_is_not_known_yet_is_counted_as_he_reads(pause_s: float, rate: float) -> None:
    after = AfterPause()
    after.begin(pause_s, rate * MB)
    assert after.read(read(1.0, 9.0)) == read(1.0, 9.0)


def test_of_a_long_pause_the_trainer_was_elsewhere_for_most() -> None:
    after = AfterPause()
    after.begin(600.0, 1.0 * MB)
    assert counted(after, [read(1.0, 90.0), read(3.0, 3.0)]).elapsed_s == pytest.approx(4.0 + MOST_PAUSE_S)


def test_who_waits_for_the_store_afterwards_was_not_filling() -> None:
    """What is resident comes first in an epoch that is cached in part."""
    after = AfterPause()
    after.begin(20.0, 1.0 * MB)
    waiting = replace(read(3.0, 3.0), waited_s=2.2)
    assert counted(after, [read(1.0, 4.0)] * 5 + [waiting]).elapsed_s == pytest.approx(8.0)


def test_a_report_of_before_the_first_record_decides_nothing() -> None:
    after = AfterPause()
    after.begin(6.0, 1.0 * MB)
    deltas = [read(0.005, 0.0), read(1.0, 6.0), *[read(1.0, 1.0)] * 4]
    assert counted(after, deltas).elapsed_s == pytest.approx(10.0, rel=0.01)


def test_readers_that_report_one_after_the_other_are_looked_at_together() -> None:
    """Each second counts once, for whoever tells of it first."""
    after = AfterPause()
    after.begin(6.0, 1.0 * MB)
    first, later = read(0.9, 2.0), replace(read(0.1, 2.0), reader_s=1.0)
    deltas = [first, later, later, *[replace(read(1.0, 1.0), reader_s=3.0)] * 4]
    found = counted(after, deltas)
    assert (found.size_bytes, found.elapsed_s) == (10 * MB, pytest.approx(10.0, rel=0.02))
    assert found.reader_s == pytest.approx(3 * found.elapsed_s, rel=0.1), "none of them waited meanwhile"


def test_a_pause_is_no_longer_than_it_was() -> None:
    """The reader that ended it had begun earlier: its first report came late."""
    after = AfterPause()
    after.begin(6.0, 1.0 * MB)
    after.shorten(4.0)
    assert counted(after, [read(1.0, 6.0), read(3.0, 3.0)]).elapsed_s == pytest.approx(4.0 + 2.0)


def test_a_probe_does_not_take_what_was_read_before_it_for_drained() -> None:
    totals, beginning = Counters(records=1, size_bytes=50 * MB, elapsed_s=50.0), {"buffer": lambda: 24 * MB}
    probe = Probe(
        JobMeasurement("job", "data", totals, kept_back_bytes=20 * MB, **beginning), 1 << 40, ProbeLimits(), 0.0
    )
    for read_mb in (20, 43):  # what was kept back is settled, and then as much as lay in buffers but a little
        probe.step(JobMeasurement("job", "data", totals.plus(read(1.0, read_mb)), **beginning), 1.0)
        assert probe.phase is Phase.MISS_DRAIN
    probe.step(JobMeasurement("job", "data", totals.plus(read(1.0, 44)), **beginning), 2.0)
    assert probe.phase is Phase.MISS


def test_whoever_stays_fast_has_become_faster() -> None:
    after = AfterPause()
    after.begin(20.0, 1.0 * MB)
    found = counted(after, [read(1.0, 4.0)] * 60)
    assert found == read(60.0, 240.0)


def test_whoever_is_as_fast_as_before_is_counted_at_once() -> None:
    after = AfterPause()
    after.begin(5.0, 1.0 * MB)
    assert after.read(read(1.0, 1.1)) == read(1.0, 1.1)


def test_the_next_pause_ends_what_is_kept_back() -> None:
    after = AfterPause()
    after.begin(5.0, 1.0 * MB)
    assert after.read(read(1.0, 5.0)) == Counters()
    assert after.kept_back == read(1.0, 5.0) == after.begin(5.0, 1.0 * MB)
    assert after.kept_back == Counters()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 1e7)),
            st.builds(lambda s, b: Counters(b, b, 0.0, s, s, b, 0), st.floats(0.0, 20.0), st.integers(0, 10**9)),
        ),
        max_size=40,
    )
)
def test_nothing_is_lost_and_no_more_time_is_made_up_than_passed(
    events: list[tuple[float, float] | Counters],
) -> None:
    after, told, found, paused_s = AfterPause(), Counters(), Counters(), 0.0
    totals = [Counters()]
    for event in events:
        if isinstance(event, Counters):
            told, found = told.plus(event), found.plus(after.read(event))
        else:
            paused_s += event[0]
            found = found.plus(after.begin(*event))
        kept = after.kept_back
        assert kept.elapsed_s <= 2 * MOST_FILLING_S + AFTERWARDS_S + 3 * 20.0
        totals.append(found.plus(kept))
        assert (totals[-1].size_bytes, totals[-1].hit_bytes) == (told.size_bytes, told.hit_bytes)
        assert -1e-6 <= totals[-1].elapsed_s - told.elapsed_s <= paused_s + 1e-6
    assert all(later.elapsed_s >= one.elapsed_s - 1e-6 for one, later in pairwise(totals)), "it never falls"


def probed(trainer: float, buffer_bytes: float, pause_s: float, begins_s: float) -> ProbeResult | None:
    """A job behind a buffer of tf.data service, epoch after epoch, reported of every second; the probe's result."""
    meter, now, epoch = JobMeter(), 0.0, 0
    probe: Probe | None = None
    while now < 1000.0:
        epoch += 1
        drawn = taken = hit = missed = waited_s = elapsed_s = 0.0
        report_at = now + 1.0
        meter.report(f"epoch {epoch}", Reading(0, 0, 0.0, 0.005), now + 0.005)  # when the node has answered
        while taken < EPOCH_BYTES - 1:
            now += STEP_S
            if drawn < EPOCH_BYTES - 1:
                misses = probe is None or probe.phase in (Phase.MISS_DRAIN, Phase.MISS)
                wanted = min(EPOCH_BYTES - drawn, taken + buffer_bytes - drawn)
                given = min(wanted, (STORE if misses else CACHE) * STEP_S)
                waited_s += STEP_S * (given < wanted - 1)
                drawn, elapsed_s = drawn + given, elapsed_s + STEP_S
                hit, missed = hit + given * (not misses), missed + given * misses
            taken = min(taken + trainer * STEP_S, drawn)
            if now < report_at:
                continue
            report_at += 1.0
            reading = Reading(int(drawn) // 1000, int(drawn), waited_s, elapsed_s, int(hit), int(missed))
            meter.report(f"epoch {epoch}", reading, now)
            if (found := meter.measured()) is None or now < begins_s:
                continue
            seen = JobMeasurement(
                "job", "data", meter.settled, ideal_bytes_per_s=found.ideal_bytes_per_s, buffer=lambda: MB,
                bytes_per_s=found.bytes_per_s, stall_share=found.stall_share,
            )  # fmt: skip
            if probe is None:
                probe = Probe(seen, 1 << 40, ProbeLimits(), now)
            else:
                probe.step(seen, now)
            if probe.over:
                return probe.result
        now += pause_s
    return None


@pytest.mark.parametrize("begins_s", [2.0, 7.0, 12.0, 25.0, 40.0])
@pytest.mark.parametrize(("buffer_bytes", "pause_s"), [(1 * MB, 0.0), (4 * MB, 0.0), (4 * MB, 5.0), (2 * MB, 20.0)])
@pytest.mark.parametrize("trainer", [0.6 * MB, 1.5 * MB, 4.0 * MB])
def test_a_probe_behind_a_buffer_finds_what_caching_is_worth(
    trainer: float, buffer_bytes: float, pause_s: float, begins_s: float
) -> None:
    result = probed(trainer, buffer_bytes, pause_s, begins_s)
    assert result is not None and result.basis == "hit"
    assert result.benefit.value == pytest.approx(max(trainer / STORE, 1.0), rel=0.05)
