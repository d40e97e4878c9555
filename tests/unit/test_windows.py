"""A store that gives less than is wanted is shared by what is under way at it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.flow_world import EPOCH_S, SIZE, SPEED, Fixed
from tfquiver.service.coordinator.job_schedulers.fifo import Fifo
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation
from tfquiver.service.node.coordinator_orders.load_plan import PARALLEL_LOADS
from tfquiver.service.sim.job_queue_rates_store_bandwidth.simulation import simulate
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, SimJob, Stored, Workload

SHARDS = 100
SHARD_BYTES = SIZE / SHARDS


def a_second(*jobs: SimJob, cooperative: str = "") -> dict[str, float]:
    """The part of its speed at which each read, one epoch long, from a store that gives what one wants."""
    sizes = {job.dataset: SIZE for job in jobs}
    workload = Workload(sizes, jobs, dict.fromkeys(sizes, Stored(SIZE, SHARDS, SIZE // 100)))
    allocations = {cooperative: Allocation("cooperative", SIZE // 10)} if cooperative else {}
    made = simulate(workload, Cluster(len(jobs), SIZE, SPEED), Fixed(allocations), Fifo())
    return {job.name: EPOCH_S / jct_s for job, jct_s in zip(jobs, made.jct_s, strict=True)}


def job(name: str, dataset: str, window_bytes: float | None, speed: float = SPEED) -> SimJob:
    return SimJob(name, dataset, speed, SIZE, window_bytes=window_bytes)


def test_who_has_more_under_way_gets_more() -> None:
    """2 to 1, until the first has ended: 1.5 epochs; the other has read half of its own by then."""
    rates = a_second(job("large", "a", 2e5), job("small", "b", 1e5))
    assert rates == pytest.approx({"large": 1 / 1.5, "small": 1 / 2})


def test_by_jobs_where_none_is_known_and_like_the_others_where_one_is_not() -> None:
    rates = a_second(job("one", "a", None), job("other", "b", None))
    assert rates == pytest.approx({"one": 1 / 2, "other": 1 / 2})
    rates = a_second(job("known", "a", 2e5), job("unknown", "b", None))
    assert rates == pytest.approx({"known": 1 / 2, "unknown": 1 / 2})


@pytest.mark.parametrize("readers", [1, 3])
def test_a_cooperative_data_set_is_loaded_so_many_shards_at_a_time_whoever_reads_it(readers: int) -> None:
    many = [job(f"many {n}", "many", 1.0) for n in range(readers)]
    rates = a_second(*many, job("few", "few", PARALLEL_LOADS * SHARD_BYTES / 2), cooperative="many")
    for one in many:
        assert rates[one.name] == pytest.approx(1 / 1.5, rel=0.02)
    assert rates["few"] == pytest.approx(1 / 2, rel=0.02)


def test_a_store_that_gives_what_all_want_is_not_shared() -> None:
    slow = [replace(job(name, name, window), ideal_bytes_per_s=SPEED / 4) for name, window in (("a", 1.0), ("b", 1e9))]
    assert a_second(*slow) == pytest.approx({"a": 1 / 4, "b": 1 / 4})
