"""What the flow simulator remembers between moments says what looking at everything anew would."""

from __future__ import annotations

import time
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.coordinator.policies.views_and_plans.interface import MODES
from tfquiver.service.sim.cache_contents.contents import LRU, NONE, UNIFORM, Contents
from tfquiver.service.sim.cache_contents.lru_window import LruWindow
from tfquiver.service.sim.cache_contents.trail import Trail
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Floats

JOBS = 5
# Who reads, how far each of these comes, whether the trail is told, and whether the oldest moment is forgotten.
reads = st.tuples(st.sets(st.integers(0, JOBS - 1)), st.integers(1, 9), st.booleans(), st.booleans())


@given(st.lists(reads, max_size=30))
def test_a_trail_is_what_rows_of_all_jobs_are(steps: list[tuple[set[int], int, bool, bool]]) -> None:
    trail, done = Trail(JOBS), np.zeros(JOBS)
    rows: list[tuple[float, Floats]] = [(0.0, done.copy())]
    since = 0.0
    for now, (who, far, told, forgets) in enumerate(steps, start=1):
        moving = np.array(sorted(who), np.int64)
        done[moving] += far
        if told:  # else nobody looks at an LRU window, and jobs read on
            trail.add(float(now), done, moving, since)
            rows.append((float(now), done.copy()))
        since = float(now)
        if forgets and len(rows) > 1:
            trail.forget_oldest()
            del rows[0]
        assert len(trail) == len(rows)
        assert (trail.oldest_s, trail.oldest.tolist()) == (rows[0][0], rows[0][1].tolist())
        if len(rows) > 1:
            assert (trail.next_s, trail.next.tolist()) == (rows[1][0], rows[1][1].tolist())
            between = (rows[0][0] + rows[1][0]) / 2
            assert trail.part(between) == 0.5
            assert trail.part(now + 1.0) == 1.0


@given(st.lists(st.tuples(st.sets(st.integers(0, JOBS - 1)), st.integers(1, 9)), min_size=20, max_size=40))
def test_of_a_long_trail_fewer_moments_are_kept_each_as_it_was(steps: list[tuple[set[int], int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfquiver.service.sim.cache_contents.trail.MOST_MOMENTS", 12)
        trail, done = Trail(JOBS), np.zeros(JOBS)
        rows = {0.0: done.tolist()}
        for now, (who, far) in enumerate(steps, start=1):
            moving = np.array(sorted(who), np.int64)
            done[moving] += far
            trail.add(float(now), done, moving, now - 1.0)
            rows[float(now)] = done.tolist()
            assert len(trail) <= 12
        kept = []
        while trail.next_s < inf:
            assert trail.next.tolist() == rows[trail.next_s]
            trail.forget_oldest()
            assert trail.oldest.tolist() == rows[trail.oldest_s]
            kept.append(trail.oldest_s)
        assert kept == sorted(kept) and kept[0] == 1.0 and kept[-1] == len(steps)


def test_after_a_pause_a_long_trail_takes_no_longer_than_a_short_one() -> None:
    trail, done, took_s = Trail(JOBS), np.zeros(JOBS), []
    for now in range(1, 4001):
        done[now % JOBS] += 1
        began_s = time.perf_counter()
        trail.add(float(now), done, np.array([now % JOBS]), now - 0.5)
        took_s.append(time.perf_counter() - began_s)
    assert sorted(took_s[-500:])[250] < 5 * sorted(took_s[:500])[250]


def test_what_a_window_holds_is_counted_when_somebody_looks() -> None:
    contents = Contents(np.array([100.0, 100.0, 100.0]), 3, cache_bytes=100.0)
    contents.resident[:] = 7.0
    everyone = np.arange(3)
    contents.apply(np.array([0, 1]), np.array([LRU, LRU]), np.array([50, 50]), everyone)
    asked = []

    def held() -> tuple[np.ndarray, np.ndarray]:
        asked.append(1)
        return np.array([1, 2]), np.array([30.0, 40.0])

    contents.hold(held)
    contents.begin_epoch(everyone[:0], everyone[:0])
    assert not asked
    contents.begin_epoch(np.array([1]), np.array([1]))
    assert contents.effective.tolist() == [0.0, 0.3, 0.0]
    assert contents.resident.tolist() == [0.0, 30.0, 0.0], "the third is not under LRU"
    assert len(asked) == 1
    contents.hold(lambda: (np.array([0]), np.array([20.0])))
    assert contents.resident.tolist() == [20.0, 0.0, 0.0], "of the second there is nothing any more"
    contents.hold(held)
    contents.apply(np.array([1]), np.array([UNIFORM]), np.array([10]), everyone)
    assert contents.resident.tolist() == [0.0, 10.0, 0.0], "what was held when the plan came is cut to it"
    assert contents.effective.tolist() == [0.0, 0.3 * (10 / 30), 0.0]


@given(st.lists(st.lists(st.integers(0, len(MODES) - 1), min_size=4, max_size=4), min_size=1, max_size=5))
def test_who_is_under_lru_follows_the_plan(plans: list[list[int]]) -> None:
    contents, datasets = Contents(np.full(4, 100.0), 4, cache_bytes=100.0), np.array([0, 1, 3])
    for modes in plans:
        for of in (np.array([2]), datasets):
            lru, count = contents.under_lru(of)
            assert lru.tolist() == (contents.mode[of] == LRU).tolist()
            assert count == lru.sum()
        planned = np.flatnonzero(np.array(modes) != NONE)
        contents.apply(planned, np.array(modes)[planned], np.full(len(planned), 20), np.arange(4))
        lru, count = contents.under_lru(datasets)
        assert (lru.tolist(), count) == ((np.array(modes)[datasets] == LRU).tolist(), lru.sum())
        others = 20.0 * sum(mode not in (NONE, LRU) for mode in modes)
        assert contents.pool_bytes == (100.0 - others if LRU in modes else 0.0)


@given(
    st.lists(st.tuples(st.sets(st.integers(0, JOBS - 1), min_size=1), st.floats(1.0, 60.0)), min_size=1, max_size=25)
)
def test_a_window_begins_where_what_was_read_since_just_fits(steps: list[tuple[set[int], float]]) -> None:
    """And which jobs' hits change with their epoch is as by the definition, from all that each has read."""
    sizes, capacity = np.array([50.0, 80.0, 100.0, 120.0, 200.0]), 150.0
    window, done = LruWindow(np.arange(JOBS), sizes, [None] * JOBS, JOBS, shared=False), np.zeros(JOBS)
    past = [(0.0, done.copy())]
    for now, (who, far) in enumerate(steps, start=1):
        running = np.array(sorted(who))
        done[running] += far
        past.append((float(now), done.copy()))
        window.read(float(now), now - 1.0, done, running, capacity)
        start = now - 32 * window.step_s(float(now), 0.0) if window.full else 0.0
        back = np.array(
            [np.interp(start, [at for at, _ in past], [row[job] for _, row in past]) for job in range(JOBS)]
        )
        began, part = np.floor(done / sizes), done / sizes % 1
        former = np.clip(began - back / sizes, 0.0, 1.0)
        covered = np.where(back >= began * sizes, (done - back) / sizes, part + former * (1 - part))
        held = np.zeros(JOBS)
        datasets, of_each = window.resident()
        held[datasets] = of_each
        np.testing.assert_allclose(held, covered * sizes, atol=1e-6 * capacity)
        assert held.sum() <= capacity * (1 + 2e-6)
        np.testing.assert_allclose(
            window.hit_parts(float(now), running, done, np.zeros(JOBS)), former[running], atol=1e-6
        )
        off = abs(began * sizes - back - sizes) > 1e-4  # by less who counts is a matter of rounding
        counts = (began * sizes - back < sizes)[running]
        assert (window.epoch_counts(float(now), running, done) == counts)[off[running]].all()
