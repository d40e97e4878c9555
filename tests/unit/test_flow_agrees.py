"""The flow model and the simulator that follows every shard say the same of scenarios that both can do, within 2 %."""

from __future__ import annotations

import random

import pytest

from tests.unit.flow_world import EPOCH_S, one_data_set
from tfquiver.service.coordinator.policies.views_and_plans.interface import Mode
from tfquiver.service.sim.cache_contents.lru import LruCache
from tfquiver.service.sim.shard_by_shard import scenario
from tfquiver.service.sim.shard_by_shard.engine import Engine
from tfquiver.service.sim.shard_by_shard.job import Job

WITHIN = 0.02
SHARDS = 2000
AHEAD_SHARDS = 8  # a flow waits for nothing but its rate: as one that reads far ahead


class UniformCache(LruCache):
    """Keeps what came first, and never evicts."""

    def _arrived(self, shard: int) -> None:
        if self._kept_bytes + self._lengths[shard] <= self._allocation_bytes:
            super()._arrived(shard)


def by_shards(jobs: int, mode: Mode, share: float, epochs: int, store_speed: float) -> tuple[float, float]:
    """When the last job is done, and the data sets that it took from the store; of every shard."""
    engine, lengths = Engine(), [1000] * SHARDS
    speed = sum(lengths) / EPOCH_S
    made = UniformCache if mode == "uniform" else LruCache
    cache = made(engine, int(share * sum(lengths)), lengths, store_speed * speed, random.Random(1))
    running = [Job(f"job {number}", engine, cache, lengths, speed, 0.0) for number in range(jobs)]
    assert engine.run(lambda: all(len(job.epoch_ends) >= epochs for job in running), 1e6)
    return max(job.epoch_ends[epochs - 1] for job in running), cache.store.fetched_bytes / sum(lengths)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["uniform", "lru", "none"])
@pytest.mark.parametrize(
    ("jobs", "share", "store_speed"), [(1, 0.3, 10.0), (1, 0.6, 0.5), (4, 0.3, 2.5), (4, 0.7, 2.0)]
)
def test_jobs_in_step_over_one_data_set(
    mode: Mode, jobs: int, share: float, store_speed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfquiver.service.sim.shard_by_shard.job.AHEAD_SHARDS", AHEAD_SHARDS)
    share = 0.0 if mode == "none" else share
    took_s, loads = by_shards(jobs, mode, share, 4, store_speed)
    flow = one_data_set(jobs, mode, share, 4, store_speed)
    assert flow.makespan_s == pytest.approx(took_s, rel=WITHIN)
    assert flow.store_bytes / 1e6 == pytest.approx(loads, rel=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "share"), [(1, 0.2), (4, 0.2), (4, 0.5)])
def test_chunks_in_rotation(jobs: int, share: float) -> None:
    """The coordinator's own rotation, shard by shard; the first epochs, in which all must come, apart."""
    warm_up, epochs = 2, 4
    shards = scenario.run(scenario.in_step(jobs), "relevance", 1, epochs, warm_up=warm_up, share=share, chunks=80)
    first, all_ = (one_data_set(jobs, "cooperative", share, n, 2.5) for n in (warm_up, warm_up + epochs))
    assert (all_.store_bytes - first.store_bytes) / 1e6 / epochs == pytest.approx(shards.loads, rel=WITHIN)
    slowdown = (all_.makespan_s - first.makespan_s) / epochs / EPOCH_S
    assert slowdown == pytest.approx(shards.slowdown, rel=WITHIN)
