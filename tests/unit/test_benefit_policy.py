"""The default policy: whole where it fits, rotating where not, and by what a byte spares where several compete."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.policy_world import GB, one_job_each
from tfquiver.service.coordinator.policies.benefit import BenefitPolicy
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    Computed,
    DatasetView,
    JobView,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import demands


def kept(view: ClusterView) -> dict[str, tuple[str, int]]:
    plan = BenefitPolicy().plan(view, 0.0)
    return {name: (given.mode, given.cache_bytes // GB) for name, given in plan.allocations.items()}


def test_one_that_does_not_fit_rotates_in_all_the_room_there_is() -> None:
    assert kept(one_job_each([100], [1e8], 40, None)) == {"d0": ("cooperative", 40)}


def test_with_less_than_two_chunks_what_came_first_is_kept() -> None:
    view = one_job_each([100], [1e8], 4, None)
    assert kept(view) == {"d0": ("uniform", 4)}
    assert (
        BenefitPolicy()
        .plan(view, 0.0)
        .reasons["d0"]
        .endswith("; refused: cooperative: two chunks take 5.0 GB, 4.0 GB were left")
    )


@pytest.mark.parametrize(
    ("size_bytes", "more"), [(100 * GB, "a GB more would spare at most 1.0 MB/s"), (GB // 10, "a MB more would spare")]
)
def test_no_more_is_spoken_of_than_the_data_set_lacks(size_bytes: int, more: str) -> None:
    view = one_job_each([100], [1e8], 40, None)
    view = replace(view, cache_bytes=size_bytes // 2, datasets=(replace(view.datasets[0], size_bytes=size_bytes),))
    assert more in BenefitPolicy().plan(view, 0.0).reasons["d0"]


def test_two_chunks_for_many_jobs_come_before_all_of_a_small_one() -> None:
    view = one_job_each([100, 50], [1e8, 1e8], 50, None)
    four = replace(view, jobs=(*view.jobs, *(JobView(f"more{at}", "d0", 1e8) for at in range(3))))
    assert kept(view) == {"d1": ("uniform", 50)}
    assert kept(four) == {"d0": ("cooperative", 5), "d1": ("cooperative", 45)}


def test_a_job_that_gains_nothing_leaves_the_room_to_others() -> None:
    view = one_job_each([50, 100], [1e9, 1e7], 100, None)
    assert kept(view)["d0"] == ("uniform", 50)
    idle = replace(view.jobs[0], hit_bytes_per_s=1e9, miss_bytes_per_s=1e9)
    busy = replace(view.jobs[1], hit_bytes_per_s=1e7, miss_bytes_per_s=2e6)
    assert kept(replace(view, jobs=(idle, busy))) == {"d1": ("uniform", 100)}
    assert kept(replace(view, jobs=(idle, busy), cache_bytes=150 * GB))["d0"] == ("uniform", 50)


def test_a_job_that_is_not_probed_counts_as_those_that_are() -> None:
    view = one_job_each([100, 100], [1e8, 1e8], 100, None)
    probed = replace(view.jobs[1], hit_bytes_per_s=1e8, miss_bytes_per_s=9e7)
    tie = BenefitPolicy().worth(replace(view, jobs=(view.jobs[0], probed)), {"d0": Allocation("uniform", 100 * GB)})
    assert tie == pytest.approx(1e7)


def test_irregular_jobs_share_no_rounds() -> None:
    view = one_job_each([100], [1e8], 40, None)
    assert kept(replace(view, jobs=(replace(view.jobs[0], irregular=True),))) == {"d0": ("lru", 40)}


def test_a_guest_changes_nothing_for_the_regular_jobs_of_its_data_set() -> None:
    view = one_job_each([100, 100], [1e8, 1e8], 60, None)
    guest = JobView("guest", "d0", 9e9, irregular=True, accelerators=8)
    with_guest = replace(view, jobs=(*view.jobs, guest))
    plan, alone = (BenefitPolicy().plan(one, 0.0) for one in (with_guest, view))
    assert plan.allocations == alone.allocations
    assert (plan.reasons["d0"], plan.reasons["d1"]) == (alone.reasons["d0"], alone.reasons["d1"])
    assert "it finds what regular jobs keep of its data set" in plan.reasons["guest"]
    assert BenefitPolicy().worth(with_guest, plan.allocations) == BenefitPolicy().worth(view, plan.allocations)


def test_a_partition_of_its_own_is_by_accelerators() -> None:
    view = one_job_each([100, 100], [1e8, 1e8], 80, None)
    odd = replace(view.jobs[1], irregular=True, accelerators=3)
    plan = BenefitPolicy().plan(replace(view, jobs=(view.jobs[0], odd)), 0.0)
    assert plan.allocations == {"d0": Allocation("cooperative", 20 * GB), "d1": Allocation("lru", 60 * GB)}
    assert plan.reasons["d1"].startswith("irregular: its jobs do not read each record once an epoch; 60.0 GB of ")


def test_a_data_set_that_nobody_reads_has_what_others_leave() -> None:
    view = one_job_each([100, 100, 50], [1e8, 1e8, 1e8], 130, None, full=False)
    there = replace(view.datasets[2], resident_bytes=50 * GB)
    view = replace(view, datasets=(*view.datasets[:2], there), jobs=view.jobs[:1])
    assert kept(view) == {"d0": ("uniform", 100), "d2": ("cooperative", 30)}


@given(
    st.lists(
        st.tuples(st.integers(2, 40), st.integers(1, 4), st.lists(st.integers(1, 50), min_size=1, max_size=3)),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 90),
)
def test_no_division_spares_the_store_much_more(drawn: list[tuple[int, int, list[int]]], cache: int) -> None:
    """Against all divisions by whole units; two chunks that just did not fit are what greed may lose."""
    datasets, jobs = [], []
    for at, (size, chunks, rates) in enumerate(drawn):
        datasets.append(DatasetView(f"d{at}", size, min(chunks, size)))
        jobs += [JobView(f"j{at}.{one}", f"d{at}", float(rate)) for one, rate in enumerate(rates)]
    view = ClusterView(cache, None, tuple(datasets), tuple(jobs))
    everything = sum(demands(view, {}).values())

    def spared(allocations: dict[str, Allocation]) -> float:
        return everything - sum(demands(view, allocations).values())

    plan = BenefitPolicy().plan(view, 0.0)
    choices = [
        [
            Allocation("cooperative" if dataset.cooperative_bytes <= amount < dataset.size_bytes else "uniform", amount)
            for amount in sorted({0, dataset.cooperative_bytes, dataset.size_bytes // 2, dataset.size_bytes})
        ]
        for dataset in datasets
    ]
    best = max(
        spared({dataset.name: given for dataset, given in zip(datasets, made, strict=True)})
        for made in product(*choices)
        if sum(given.cache_bytes for given in made) <= cache
    )
    lost_to_chunks = max(len(rates) * 50 for _, _, rates in drawn)
    assert spared(dict(plan.allocations)) >= best - lost_to_chunks
    if all(dataset.cooperative_bytes <= cache / len(drawn) for dataset in datasets):
        assert spared(dict(plan.allocations)) >= 0.95 * best


def computed(cpu_s: float, bytes_per_s: float, read_cpu_s: float = 1.0) -> Computed:
    """Of a thousand shards that have become four times as large."""
    return Computed(1000, 25 * GB, 100 * GB, cpu_s, read_cpu_s, bytes_per_s)


def test_room_goes_where_jobs_would_wait_longest_for_what_is_computed_again() -> None:
    """Two derived data sets, one job each, as fast; neither is probed yet."""
    view = one_job_each([100, 100], [1e8, 1e8], 100, None)
    assert set(kept(view)) == {"d0"}
    fast, slow = (
        replace(view.datasets[0], computed=computed(900.0, 9e7)),
        replace(view.datasets[1], computed=computed(9000.0, 1e7)),
    )
    derived = replace(view, datasets=(fast, slow))
    assert kept(derived) == {"d1": ("uniform", 100)}
    as_fast = replace(derived, datasets=(replace(fast, computed=computed(900.0, 2e8)), view.datasets[1]))
    assert kept(as_fast) == {"d1": ("uniform", 100)}  # computing keeps up with the job
    probed = replace(view.jobs[0], hit_bytes_per_s=1e8, miss_bytes_per_s=1e6)  # what is measured counts first
    assert kept(replace(derived, jobs=(probed, view.jobs[1]))) == {"d0": ("uniform", 100)}


def test_where_reading_back_takes_more_cpu_than_computing_nothing_is_kept_and_it_is_said() -> None:
    view = one_job_each([100], [1e8], 200, None)
    cheap = replace(view.datasets[0], computed=computed(3.9, 1e8))  # reading four times the input takes 4 s
    plan = BenefitPolicy().plan(replace(view, datasets=(cheap,)), 0.0)
    assert plan.allocations == {}
    assert (
        "computing a shard took 0.0039 s of CPU, reading 100 MB in its place takes 0.004 s: keeping it does not pay, a "
        "miss is computed" in plan.reasons["d0"]
    )
    dear = replace(cheap, computed=computed(104.0, 1e8))
    plan = BenefitPolicy().plan(replace(view, datasets=(dear,)), 0.0)
    assert plan.allocations == {"d0": Allocation("uniform", 100 * GB)}
    assert "takes 0.004 s: keeping it pays, 0.1 s a shard" in plan.reasons["d0"]
    pinned = replace(cheap, pin=Allocation("uniform", 100 * GB))  # a person's word
    assert BenefitPolicy().plan(replace(view, datasets=(pinned,)), 0.0).allocations == {
        "d0": Allocation("uniform", 100 * GB)
    }
