"""What readers report of themselves becomes one job's throughput, stall share and f*, whoever reports what and when."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import (
    FORGET_READER_S,
    MOST_BYTES_PER_S,
    JobMeter,
    Reading,
)

MB = 10**6


def reading(seconds: float, mb_per_s: float, stall: float = 0.0) -> Reading:
    size_bytes = int(seconds * mb_per_s * MB)
    return Reading(size_bytes // 1000, size_bytes, seconds * stall, seconds, hit_bytes=size_bytes)


def test_one_reader() -> None:
    meter = JobMeter()
    assert meter.measured() is None
    for second in range(1, 61):
        meter.report("r", reading(second, 30.0, 0.4), 1000.0 + second)
    measured = meter.measured()
    assert measured is not None
    assert measured.bytes_per_s == pytest.approx(30 * MB)
    assert measured.stall_share == pytest.approx(0.4)
    assert measured.ideal_bytes_per_s == pytest.approx(50 * MB)
    assert meter.totals.elapsed_s == pytest.approx(60)


def test_readers_at_a_time_add_up_and_one_after_the_other_do_not() -> None:
    at_a_time, in_turn = JobMeter(), JobMeter()
    for second in range(1, 41):
        for name in "abc":
            at_a_time.report(name, reading(second, 10.0, 0.5), float(second))
        in_turn.report(f"epoch {second // 8}", reading(second % 8 or 8, 10.0), float(second))
    measured = at_a_time.measured()
    assert measured is not None
    assert measured.bytes_per_s == pytest.approx(30 * MB)
    assert measured.stall_share == pytest.approx(0.5)
    assert measured.ideal_bytes_per_s == pytest.approx(60 * MB)
    measured = in_turn.measured()
    assert measured is not None
    assert measured.bytes_per_s == pytest.approx(10 * MB, rel=0.01)


def test_reports_that_come_more_or_less_late_lose_no_time() -> None:
    """Epochs of ten seconds, each read by another reader; a heartbeat takes a report along when it is due."""
    meter, rng = JobMeter(), random.Random(5)
    for epoch in range(30):
        for second in range(2, 11, 2):
            meter.report(f"epoch {epoch}", reading(second, 10.0), epoch * 10.0 + second + rng.uniform(0.0, 1.9))
    assert meter.totals.elapsed_s == pytest.approx(300, rel=0.02)
    assert meter.totals.bytes_per_s == pytest.approx(10 * MB, rel=0.02)


def test_time_without_a_reader_does_not_count() -> None:
    """The validation between two epochs."""
    meter = JobMeter()
    for epoch in range(4):
        for second in range(1, 21):
            meter.report(f"r{epoch}", reading(second, 10.0), epoch * 100.0 + second)
    assert meter.totals.elapsed_s == pytest.approx(80)
    assert meter.totals.bytes_per_s == pytest.approx(10 * MB)


def test_one_who_always_waits_says_nothing_of_what_he_could_do() -> None:
    meter = JobMeter()
    for second in range(1, 31):
        meter.report("r", reading(second, 1.0, 0.99), float(second))
    measured = meter.measured()
    assert measured is not None
    assert measured.ideal_bytes_per_s is None


def test_late_and_repeated_reports_change_nothing() -> None:
    meter, rng, reports = JobMeter(), random.Random(3), []
    for second in range(1, 101):
        reports.append((reading(second, 20.0, 0.1), second + rng.random() * 2))
    for one, at in sorted(reports * 2, key=lambda report: report[1]):
        meter.report("r", one, at)
    measured = meter.measured()
    assert measured is not None
    assert measured.bytes_per_s == pytest.approx(20 * MB, rel=0.1)
    assert meter.totals.size_bytes <= 100 * 20 * MB


def test_a_reader_that_an_earlier_coordinator_knew_counts_from_here_on() -> None:
    meter = JobMeter()
    meter.report("r", reading(5000, 500.0), 1.0)
    for second in range(1, 21):
        later = reading(5000, 500.0)
        more = reading(second, 10.0)
        size_bytes = later.size_bytes + more.size_bytes
        meter.report("r", Reading(later.records, size_bytes, 0.0, 5000.0 + second, size_bytes), 1.0 + second)
    assert meter.totals.bytes_per_s == pytest.approx(10 * MB)


def test_what_was_handed_is_counted_on_when_the_node_begins_anew() -> None:
    meter = JobMeter()
    for second, (hits, misses) in enumerate([(30, 10), (60, 20), (5, 5), (20, 10)], start=1):
        meter.report("r", Reading(second, 100 * second, 0.0, float(second), hits, misses), float(second))
    assert (meter.totals.hit_bytes, meter.totals.missed_bytes) == (80, 30)
    measured = meter.measured()
    assert measured is not None
    assert measured.hit_share == pytest.approx(80 / 110)


def test_hits_of_one_that_is_handed_nothing_for_long_are_those_of_what_it_was_handed_last() -> None:
    """Its buffers last for minutes."""
    meter = JobMeter()
    for second in range(1, 101):
        handed = 30 if second < 15 else 1000
        meter.report(
            "r", Reading(second, second, 0.0, float(second), handed, 70 if second < 15 else 1070), float(second)
        )
    measured = meter.measured()
    assert measured is not None
    assert measured.hit_share == pytest.approx(970 / 1970)
    for second in range(101, 1001):
        meter.report("r", Reading(second, second, 0.0, float(second), 1000, 1070), float(second))
    measured = meter.measured()
    assert measured is not None
    assert measured.hit_share == pytest.approx(1000 / 2070), "it is long ago: of all that it ever was"


def test_nobody_reads_more_than_he_was_handed_nor_faster_than_time_passes_here() -> None:
    """Who seems fast is given the cache of others."""
    more, faster = JobMeter(), JobMeter()
    for second in range(1, 61):
        handed = second * 10 * MB
        more.report("r", Reading(second, second * 10**12, 0.0, float(second), handed), float(second))
        faster.report("r", Reading(second, handed, 0.0, second / 1000, handed), float(second))
    measured = more.measured()
    assert measured and measured.bytes_per_s == pytest.approx(10 * MB)
    assert faster.totals.size_bytes <= 60 * MB
    assert faster.measured() is None


def test_what_is_delivered_after_a_reader_has_gone_to_another_node_counts() -> None:
    meter = JobMeter()
    for second in range(1, 61):
        handed = (second if second < 30 else second - 29) * 10 * MB  # since it was connected
        delivered = max(0, second - 5) * 10 * MB  # the rest is in buffers
        meter.report("r", Reading(second, delivered, 0.0, float(second), handed), float(second))
    assert meter.totals.size_bytes == 550 * MB


numbers = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 10**9))
seconds = st.one_of(st.floats(0, 1e13), st.floats(0, 100))
readings = st.builds(Reading, numbers, numbers, seconds, seconds, numbers, numbers)
times = st.one_of(st.floats(-1e9, 1e9), st.floats(0, 100))


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abc"), readings, times), max_size=40))
def test_nonsense_is_bounded(reports: list[tuple[str, Reading, float]]) -> None:
    meter = JobMeter()
    before = meter.totals
    first = latest = None
    for name, one, now in reports:
        meter.report(name, one, now)
        first = now if first is None else first
        latest = now if latest is None else max(latest, now)
        delta = meter.totals.since(before)
        before = meter.totals
        assert min(delta.records, delta.size_bytes, delta.waited_s, delta.elapsed_s, delta.reader_s) >= 0
        assert min(delta.hit_bytes, delta.missed_bytes) >= 0
        assert delta.waited_s <= delta.reader_s + 1e-6
        assert delta.size_bytes <= MOST_BYTES_PER_S * (delta.reader_s + 1e-6)
        assert meter.totals.elapsed_s <= latest - first + 15.0 + 1e-3
        measured = meter.measured()
        if measured is not None:
            assert 0 <= measured.stall_share <= 1
            assert measured.bytes_per_s >= 0
            assert measured.ideal_bytes_per_s is None or measured.ideal_bytes_per_s >= 0


def test_readers_of_epochs_long_gone_are_forgotten_and_count_once() -> None:
    """Of a thousand jobs with four thousand readers each it would be two gigabytes."""
    meter = JobMeter()
    for epoch in range(1000):
        for second in (0, 10, 20):
            meter.report(f"epoch {epoch}", reading(second, 10.0), 20.0 * epoch + second)
    assert len(meter._readers) <= FORGET_READER_S / 20 + 1
    before = meter.totals
    assert before.size_bytes == pytest.approx(20_000 * 10 * MB, rel=0.01)
    meter.report("epoch 0", reading(20, 10.0), 20_001.0)
    assert meter.totals == before, "what it has told is not counted again"
    meter.report("epoch 0", reading(22, 10.0), 20_003.0)
    assert meter.totals.since(before).size_bytes == 20 * MB
