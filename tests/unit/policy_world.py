"""Clusters for policies, drawn at random: pins, shared data sets, jobs that are measured or not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    DatasetView,
    JobView,
)

GB = 10**9
POLICIES = ("benefit", "lru", "max_min_fair", "none", "quiver", "silod_greedy", "static")

_sizes = st.integers(1, 2000).map(lambda size: size * GB)
_rates = st.floats(1e6, 1e9)
_maybe = st.none() | _rates


@st.composite
def datasets(draw: st.DrawFn, name: str) -> DatasetView:
    size_bytes = draw(_sizes)
    resident_bytes = draw(st.integers(0, size_bytes))
    two_chunks = draw(st.integers(1, max(1, size_bytes // 5)))
    pin = draw(st.none() | st.none() | st.sampled_from(["none", "uniform", "cooperative", "lru"]))
    amount = 0 if pin == "none" else draw(st.integers(two_chunks, size_bytes))
    return DatasetView(
        name, size_bytes, two_chunks, pin=Allocation(pin, amount) if pin else None, resident_bytes=resident_bytes
    )


@st.composite
def jobs(draw: st.DrawFn, name: str, of: list[str]) -> JobView:
    return JobView(
        name,
        draw(st.sampled_from(of)),
        ideal_bytes_per_s=draw(_maybe),
        hit_bytes_per_s=draw(_maybe),
        miss_bytes_per_s=draw(_maybe),
        accelerators=draw(st.integers(1, 8)),
        irregular=draw(st.integers(0, 5)) == 0,
        remote_pin_bytes_per_s=draw(st.none() | st.none() | st.none() | st.floats(0, 1e8)),
        cooperative_bytes_per_s=draw(_maybe),
    )


@st.composite
def views(draw: st.DrawFn) -> ClusterView:
    names = [f"data{at}" for at in range(draw(st.integers(0, 6)))]
    there = tuple(draw(datasets(name)) for name in names)
    read = tuple(draw(jobs(f"job{at}", names)) for at in range(draw(st.integers(0, 8)) if names else 0))
    cache_bytes = draw(st.integers(0, 3000)) * GB
    remote = draw(st.none() | st.floats(0, 3e9))
    return ClusterView(cache_bytes, remote, there, read, accelerators=draw(st.none() | st.integers(1, 100)))


def one_job_each(
    sizes_gb: list[float], rates: list[float], cache_gb: float, remote: float | None, full: bool = True
) -> ClusterView:
    """Data set `d0` read by `j0` and so on; `full`: all that is allocated is resident."""
    there = tuple(
        DatasetView(f"d{at}", int(size * GB), int(size * GB / 20), resident_bytes=int(size * GB) if full else 0)
        for at, size in enumerate(sizes_gb)
    )
    read = tuple(JobView(f"j{at}", f"d{at}", ideal_bytes_per_s=rate) for at, rate in enumerate(rates))
    return ClusterView(int(cache_gb * GB), remote, there, read)


assert set(POLICIES) <= set(registry.names())


def settled(planner: Planner, view: ClusterView) -> ClusterView:
    """The view after all that is allocated has been loaded."""
    kept = planner.plan.allocations
    there = (replace(one, resident_bytes=kept.get(one.name, Allocation()).cache_bytes) for one in view.datasets)
    return replace(view, datasets=tuple(there))


def with_rates(view: ClusterView, *rates: float) -> ClusterView:
    jobs = (replace(job, ideal_bytes_per_s=rate) for job, rate in zip(view.jobs, rates, strict=True))
    return replace(view, jobs=tuple(jobs))
