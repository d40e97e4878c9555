"""SiloD's closed form against the paper's own figures, LRU's hit ratio against a played epoch; who lacks what."""

from __future__ import annotations

import random
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.policy_world import GB, one_job_each
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    DatasetView,
    JobView,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.closed_form import (
    cache_efficiency,
    hit_ratio,
    remote_demand,
    throughput,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import (
    demands,
    expected_rates,
    lacking_now,
    share_remote,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.filling import fill, whole_sum

MB = 1e6
shares, rates = st.floats(0, 1), st.floats(1, 1e10)


def test_the_papers_examples() -> None:
    assert cache_efficiency(114 * MB, 143 * GB) * GB == pytest.approx(0.8 * MB, rel=0.01)  # section 2.2
    # Section 7.1: with 700 GB of 1.3 TB a ResNet-50 still needs 52.6 MB/s.
    assert remote_demand(114 * MB, hit_ratio(Allocation("uniform", 700 * GB), 1300 * GB)) == pytest.approx(
        52.6 * MB, rel=0.001
    )
    # Figure 4: 107 MB/s with half of 1.4 TB for 1.36 TB. By equation 4 the text's 50 MB/s are each job's.
    half = hit_ratio(Allocation("uniform", 700 * GB), 1360 * GB)
    assert throughput(114 * MB, 50 * MB, half) == pytest.approx(107 * MB, rel=0.04)


@given(ideal=rates, remote=rates, share=shares)
def test_bandwidth_that_a_job_demands_is_what_it_needs(ideal: float, remote: float, share: float) -> None:
    assert throughput(ideal, remote_demand(ideal, share), share) == pytest.approx(ideal)
    assert throughput(ideal, remote, share) <= ideal
    assert throughput(ideal, remote * 2, share) >= throughput(ideal, remote, share)


@given(low=shares, high=shares, mode=st.sampled_from(["uniform", "lru", "cooperative"]))
def test_more_cache_never_hits_less(low: float, high: float, mode: str) -> None:
    low, high = sorted((low, high))
    ratios = [hit_ratio(Allocation(mode, int(share * GB)), GB) for share in (low, high)]  # type: ignore[arg-type]
    assert 0 <= ratios[0] <= ratios[1] <= 1


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_hit_ratio_of_lru_is_that_of_a_played_one(share: float) -> None:
    rng, records, cache, hits = random.Random(1), 4000, OrderedDict[int, None](), 0
    for epoch in range(6):
        for record in rng.sample(range(records), records):
            hits += epoch > 0 and record in cache
            cache[record] = None
            cache.move_to_end(record)
            if len(cache) > share * records:
                cache.popitem(last=False)
    assert hits / (5 * records) == pytest.approx(hit_ratio(Allocation("lru", int(share * GB)), GB), abs=0.01)


def test_jobs_that_read_a_rotating_data_set_take_what_the_fastest_lacks_once() -> None:
    readers = tuple(JobView(f"j{at}", "d", rate) for at, rate in enumerate((100.0, 50.0, 50.0)))
    view = ClusterView(100, None, (DatasetView("d", 100, 10),), (*readers, JobView("odd", "d", 40.0, irregular=True)))
    assert demands(view, {"d": Allocation("cooperative", 20)}) == pytest.approx(
        {"j0": 40, "j1": 20, "j2": 20, "odd": 32}
    )
    assert demands(view, {"d": Allocation("uniform", 20)}) == pytest.approx({"j0": 80, "j1": 40, "j2": 40, "odd": 32})
    assert sum(demands(view, {}).values()) == 240


def test_a_job_that_is_not_measured_counts_as_the_mean_of_the_others() -> None:
    view = one_job_each([1, 1, 1], [100.0, 50.0, 1.0], 0, None)
    view = ClusterView(0, None, view.datasets, (*view.jobs[:2], JobView("new", "d2")))
    assert demands(view, {})["new"] == 75


@given(total=st.floats(0, 1e10), caps=st.lists(st.floats(0, 1e9), min_size=1, max_size=8))
def test_bandwidth_is_shared_max_min(total: float, caps: list[float]) -> None:
    parts = fill(total, {str(at): cap for at, cap in enumerate(caps)})
    assert sum(parts.values()) == pytest.approx(min(total, sum(caps)), abs=1e-3)
    level = max(parts.values())
    assert all(parts[str(at)] == pytest.approx(min(cap, level), abs=1e-3) for at, cap in enumerate(caps))


def test_nobody_is_limited_while_there_is_enough_and_who_lacks_little_not_at_all() -> None:
    view = one_job_each([100, 100, 100], [1e8, 1e8, 1e7], 0, 3e8, full=False)
    assert share_remote(view, lacking_now(view, {})) == {}
    view = one_job_each([100, 100, 100], [1e8, 1e8, 1e7], 0, 1.1e8, full=False)
    assert share_remote(view, lacking_now(view, {})) == pytest.approx({"j0": 5e7, "j1": 5e7, "j2": 1e7})


def test_what_is_promised_saves_nothing_until_it_is_there() -> None:
    promised = {"d0": Allocation("uniform", 100 * GB)}
    there, coming = (one_job_each([100, 100], [1e8, 1e8], 100, 1e8, full=full) for full in (True, False))
    assert share_remote(there, lacking_now(there, promised)) == pytest.approx({"j0": 5e5, "j1": 9.95e7})
    assert share_remote(coming, lacking_now(coming, promised)) == pytest.approx({"j0": 5e7, "j1": 5e7})


def test_rates_that_are_expected_follow_the_limits() -> None:
    view = one_job_each([100, 100], [1e8, 1e8], 50, 1e8)
    rates = expected_rates(view, {"d0": Allocation("uniform", 50 * GB)}, {"j0": 2e7})
    assert rates == pytest.approx({"j0": 4e7, "j1": 8e7})


def test_sums_are_those_of_whole_numbers_of_any_size() -> None:
    assert whole_sum(np.array([], np.int64)) == 0
    assert whole_sum(np.array([1, 2], np.int64)) == 3
    assert whole_sum(np.full(9, 1 << 60)) == 9 << 60, "which is more than a column holds"
