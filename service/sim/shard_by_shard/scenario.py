"""One experiment of the simulator: some jobs over one data set, and what they loaded. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import ceil

import numpy as np

from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.chunk_rotation.chunk_cache import ChunkCache
from tfquiver.service.coordinator.chunk_rotation.cyclic import Cyclic
from tfquiver.service.coordinator.chunk_rotation.interface import Rotation
from tfquiver.service.coordinator.chunk_rotation.relevance import Relevance
from tfquiver.service.coordinator.dataset_caching import chunk_counts
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout
from tfquiver.service.sim.cache_contents.lru import LruCache
from tfquiver.service.sim.shard_by_shard.chunked import ChunkedCache
from tfquiver.service.sim.shard_by_shard.engine import Engine
from tfquiver.service.sim.shard_by_shard.job import Job
from tfquiver.shard_owners_chunks_hash_prefixes import striping

EPOCH_S = 600.0  # of a job of speed 1 that never waits
SHARD_BYTES = 1000
SHARDS = 800


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    speeds: tuple[float, ...]  # 1: an epoch in EPOCH_S
    offsets: tuple[float, ...]  # when each begins, in epochs of speed 1
    store_speed: float = 2.5  # data sets that the store delivers in EPOCH_S, by the fastest job's speed


@dataclass(frozen=True, slots=True)
class Outcome:
    loads: float  # data-set sizes read from the store per epoch of the fastest job
    slowdown: float  # the fastest job's time per epoch over that alone with everything cached
    worst_slowdown: float  # of all jobs
    most_chunks: int


def run(
    scenario: Scenario,
    order: str,
    seed: int,
    epochs: int = 6,
    *,
    warm_up: int = 2,
    share: float = 0.2,
    chunks: int = 0,
    timeout_epochs: float = 0.25,
    mix: int = 1,
) -> Outcome:
    """Args:
    order: cyclic, relevance or lru.
    epochs: of the fastest job, that are counted after `warm_up` others.
    share: of the data set that has room.
    chunks: 0: the order's default; of cyclic so many that two have room.
    timeout_epochs: the rotation's, in epochs of speed 1.
    """
    rng = random.Random(seed)
    engine = Engine()
    # Five shards a chunk, or more.
    lengths = [SHARD_BYTES] * max(SHARDS, ceil(160 / share))
    allocation_bytes = int(share * sum(lengths))
    fastest_speed = max(scenario.speeds)
    store_bytes_per_s = scenario.store_speed * fastest_speed * sum(lengths) / EPOCH_S
    cache: ChunkedCache | LruCache
    if order == "lru":
        cache = LruCache(engine, allocation_bytes, lengths, store_bytes_per_s, rng)
    else:
        timeout_s = timeout_epochs * EPOCH_S

        def rotation(board: Board) -> Rotation:
            return (Cyclic if order == "cyclic" else Relevance)(board, timeout_s)

        if not chunks:
            # As of a data set that has shards enough: here one stands for many.
            by_need = chunk_counts.relevance_chunks(sum(lengths), allocation_bytes, len(lengths) * striping.MAX_CHUNKS)
            chunks = ceil(2 / share) if order == "cyclic" else by_need
        columns = np.array(lengths, np.uint64)
        layout = ChunkLayout(striping.stripe(columns, chunks), np.random.default_rng(seed))
        resident = bytearray(len(lengths))
        chunked = ChunkCache(layout, lengths, resident, allocation_bytes, rotation)
        cache = ChunkedCache(engine, chunked, resident, lengths, store_bytes_per_s, rng, mix)
    jobs = [
        Job(f"job {number}", engine, cache, lengths, speed * sum(lengths) / EPOCH_S, offset * EPOCH_S)
        for number, (speed, offset) in enumerate(zip(scenario.speeds, scenario.offsets, strict=True))
    ]
    fastest = max(jobs, key=lambda job: job.bytes_per_s)
    limit_s = 200 * EPOCH_S
    if not engine.run(lambda: len(fastest.epoch_ends) >= warm_up, limit_s):
        raise RuntimeError(f"{scenario.name}, {order}, seed {seed}: the jobs stand still at {engine.now:.0f} s")
    begun_at, begun_bytes = engine.now, cache.store.fetched_bytes
    if not engine.run(lambda: len(fastest.epoch_ends) >= warm_up + epochs, limit_s):
        raise RuntimeError(f"{scenario.name}, {order}, seed {seed}: the jobs stand still at {engine.now:.0f} s")
    loads = (cache.store.fetched_bytes - begun_bytes) / epochs / sum(lengths)
    slowdown = (engine.now - begun_at) / epochs / (EPOCH_S / fastest_speed)
    worst = max(_slowdown(job, sum(lengths)) for job in jobs)
    return Outcome(loads, slowdown, worst, cache.most_chunks if isinstance(cache, ChunkedCache) else 0)


def _slowdown(job: Job, size_bytes: int) -> float:
    """Of the epochs it has finished; the first, in which it may have found nothing, apart from that."""
    ends = job.epoch_ends
    if len(ends) < 2:
        return 1.0
    return (ends[-1] - ends[0]) / (len(ends) - 1) / (size_bytes / job.bytes_per_s)


def in_step(jobs: int) -> Scenario:
    return Scenario(f"{jobs} in step", (1.0,) * jobs, (0.0,) * jobs)


def out_of_step(jobs: int, seed: int) -> Scenario:
    rng = random.Random(seed)
    speeds = tuple(rng.uniform(1.0, 2.0) for _ in range(jobs))
    return Scenario(f"{jobs} out of step, 1-2x", speeds, tuple(rng.random() for _ in range(jobs)))


def one_slow(seed: int) -> Scenario:
    rng = random.Random(seed)
    return Scenario("3 and one 10x slower", (1.0, 1.0, 1.0, 0.1), tuple(rng.random() for _ in range(4)))
