"""FIFO, shortest job first over several resources, and max-min fairness in rounds."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from tfquiver import errors
from tfquiver.service.coordinator.job_schedulers import registry
from tfquiver.service.coordinator.job_schedulers.gavel import Gavel, equal_bytes_per_s
from tfquiver.service.coordinator.job_schedulers.interface import (
    Capacity,
    JobRequest,
    JobRequests,
    Scheduler,
    first_that_fit,
    in_order,
)
from tfquiver.service.coordinator.job_schedulers.interface import choose as numbers_of
from tfquiver.service.coordinator.job_schedulers.sjf import ShortestJobFirst

GB = 1e9
CAPACITY = Capacity(4, 100 * GB, GB)


def job(name: str, **more: object) -> JobRequest:
    plain = JobRequest(name, 1, 0.0, 10 * GB, 0.1 * GB, 100 * GB)
    return replace(plain, **more)  # type: ignore[arg-type]


def choose(
    scheduler: Scheduler, running: list[JobRequest], waiting: list[JobRequest], capacity: Capacity, now: float
) -> list[str]:
    jobs = [*running, *waiting]
    runs = np.arange(len(jobs)) < len(running)
    return [jobs[number].name for number in numbers_of(scheduler, JobRequests.of(jobs), runs, capacity, now).tolist()]


def test_fifo_lets_nobody_pass_one_that_does_not_fit() -> None:
    waiting = [job("small", submitted_at_s=2.0), job("large", submitted_at_s=1.0, accelerators=4)]
    assert choose(registry.make("fifo"), [job("runs")], waiting, CAPACITY, 9.0) == ["runs"]
    assert choose(registry.make("fifo"), [], waiting, CAPACITY, 9.0) == ["large"]


def test_sjf_counts_what_a_job_needs_of_cache_and_store() -> None:
    """SiloD section 5.1: of two equal jobs the one with the smaller data set is more efficient, and goes first."""
    small, large = job("small", dataset_bytes=5 * GB), job("a large one", dataset_bytes=80 * GB)
    assert choose(ShortestJobFirst(), [], [large, small], Capacity(1, 100 * GB, GB), 0.0) == ["small"]
    vanilla = registry.make("sjf_accelerators")
    assert choose(vanilla, [], [large, small], Capacity(1, 100 * GB, GB), 0.0) == ["a large one"], "by name: all equal"


@pytest.mark.parametrize("seed", range(5))
def test_equation_7_is_the_least_over_all_allocations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = job("j", dataset_bytes=rng.uniform(1, 300) * GB, ideal_bytes_per_s=rng.uniform(0.01, 1) * GB)
    (key,) = ShortestJobFirst().keys(JobRequests.of([one]), CAPACITY, 1, 0.0)
    size, cache_bytes = one.dataset_bytes, CAPACITY.cache_bytes
    scores = [
        one.remaining_bytes / speed * (1 / 4 + cached / cache_bytes + speed * (1 - cached / size) / GB)
        for cached in np.linspace(0, min(one.dataset_bytes, CAPACITY.cache_bytes), 101)
        for speed in np.linspace(0.01, 1, 100) * one.ideal_bytes_per_s
    ]  # fmt: skip
    assert key == pytest.approx(min(scores), rel=1e-9)


def test_gavel_gives_the_next_round_to_who_had_least() -> None:
    had = job("had", done_bytes=50 * GB, served_s=500.0)
    waits = job("waits", submitted_at_s=400.0, accelerators=4)
    assert choose(Gavel(), [had], [waits], CAPACITY, 1000.0) == ["waits"]
    assert choose(Gavel(joint=False), [had], [waits], CAPACITY, 1000.0) == ["waits"]


def test_the_joint_rule_sees_that_a_job_waited_for_data() -> None:
    """Both had their accelerators all the time; one was starved of bandwidth."""
    fed, starved = job("fed", done_bytes=90 * GB, served_s=1000.0), job("starved", done_bytes=9 * GB, served_s=1000.0)
    one = Capacity(1, 100 * GB, GB)
    assert choose(Gavel(), [fed], [starved], one, 1000.0) == ["starved"]
    assert choose(Gavel(joint=False), [fed], [starved], one, 1000.0) == ["fed"]


def test_an_equal_division() -> None:
    """Figure 4 of SiloD: two ResNet-50 over 1.36 TB, 1.4 TB of cache, 50 MB/s: an equal part is half of each."""
    resnet = JobRequests.of([job("resnet", dataset_bytes=1360 * GB, ideal_bytes_per_s=0.114 * GB)])
    figure4 = Capacity(2, 1400 * GB, 0.05 * GB)
    assert equal_bytes_per_s(resnet, figure4, 2) == pytest.approx(0.025 * GB / (1 - 700 / 1360))
    assert equal_bytes_per_s(resnet, Capacity(1, 0.0, inf), 4) == pytest.approx(0.114 * GB / 4)


def test_nothing_is_divided_by_nothing() -> None:
    """A job that comes as the round begins; one whose data set is whole on an equal part."""
    new, whole = job("new", submitted_at_s=5.0), job("whole", dataset_bytes=GB, done_bytes=GB)
    assert choose(Gavel(), [], [whole, new], Capacity(1, 100 * GB, GB), 5.0) == ["new"]
    assert choose(Gavel(joint=False), [], [], CAPACITY, 5.0) == []
    assert choose(ShortestJobFirst(), [], [whole], Capacity(1, 0.0, inf), 5.0) == ["whole"]


@pytest.mark.parametrize("name", registry.names())
def test_of_equals_who_was_submitted_first_then_by_name(name: str) -> None:
    waiting = [job("b", submitted_at_s=3.0), job("a", submitted_at_s=3.0), job("c", submitted_at_s=1.0)]
    assert choose(registry.make(name), [], waiting, Capacity(2, 100 * GB, GB), 3.0)[-1:] == ["a"]


@pytest.mark.parametrize(("pass_over", "runs"), [(True, [0, 2]), (False, [0])])
def test_one_that_does_not_fit(pass_over: bool, runs: list[int]) -> None:
    assert first_that_fit([2.0, 3.0, 2.0, 1.0], 4, pass_over) == runs


@pytest.mark.parametrize("seed", range(8))
def test_of_very_many_those_run_that_an_order_of_them_all_gives(seed: int) -> None:
    """Only those that come first are looked at, where they fill the cluster; of many equal ones, and of large ones that
    are passed over, they may not."""
    drawn = np.random.default_rng(seed)
    sizes = drawn.choice([1, 3, 4] if seed % 2 else [3], 300)
    sizes[-3:] = 1
    jobs = JobRequests.of(
        [
            job(f"{at:03}", accelerators=int(size), done_bytes=float(done) * GB, submitted_at_s=float(came))
            for at, (size, done, came) in enumerate(
                zip(sizes, drawn.integers(0, 4, 300), drawn.integers(0, 3, 300), strict=True)
            )
        ]
    )
    every = in_order(Gavel(), jobs, CAPACITY, 1000.0)
    fit = first_that_fit(jobs.accelerators[every].tolist(), CAPACITY.accelerators, pass_over=True)
    runs = np.zeros(300, np.bool_)
    assert numbers_of(Gavel(), jobs, runs, CAPACITY, 1000.0).tolist() == every[fit].tolist()


def test_an_unknown_scheduler() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="scheduler: 'best' is none of fifo, gavel"):
        registry.make("best")
