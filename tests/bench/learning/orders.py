"""Orders in which a job sees the records of an epoch: source positions, shape [records].

`served` is what a session gets: the shipping rotation and sampler, in the simulator, before a store that is slower
than the cache; among other jobs that are elsewhere in their epochs; and the source's record pool behind that.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.chunk_rotation.chunk_cache import ChunkCache
from tfquiver.service.coordinator.chunk_rotation.relevance import Relevance
from tfquiver.service.coordinator.dataset_caching import chunk_counts
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout
from tfquiver.service.sim.shard_by_shard.chunked import ChunkedCache
from tfquiver.service.sim.shard_by_shard.engine import Engine
from tfquiver.service.sim.shard_by_shard.job import Job
from tfquiver.shard_owners_chunks_hash_prefixes import striping

Order = npt.NDArray[np.int64]
SHARE = 0.2  # of the data set that has room in the cache
# The default pool is 64 MiB and the default shard 2 MiB.
POOL_SHARDS = 32
# Of a homogeneous session, with 40 chunks of 4500 shards: a stripe unit is four of them, which is most of a batch.
LONG_UNIT_PARTITIONS = 28
JOBS = 3
FILES = 64
INTERLEAVED = 8
_EPOCH_S = 600.0
STORE_SPEED = 2.5  # data sets in the time of an epoch of speed 1
_LIMIT_S = 1000 * _EPOCH_S


@dataclass(frozen=True, slots=True)
class Shards:
    """Where the shards of a data set begin: record numbers, one more than there are shards."""

    starts: Order
    lengths: npt.NDArray[np.uint64]

    @classmethod
    def cut(cls, record_bytes: npt.NDArray[np.int64], records_a_shard: int) -> Shards:
        starts = np.append(np.arange(0, len(record_bytes), records_a_shard), len(record_bytes))
        return cls(starts, np.add.reduceat(record_bytes, starts[:-1]).astype(np.uint64))


class _Recorder(Job):
    """A job that writes down the shards of each epoch as it reads them."""

    def _begin(self) -> None:
        self.epochs: list[list[int]] = [*getattr(self, "epochs", []), []]
        super()._begin()

    def came(self, shard: int) -> None:
        self.epochs[-1].append(shard)
        super().came(shard)


def perfect(records: int, epochs: int, seed: int) -> Iterator[Order]:
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        yield rng.permutation(records)


def buffered(records: int, epochs: int, seed: int, buffer: int, interleaved: bool) -> Iterator[Order]:
    """tf.data's own: `shuffle(buffer)` behind the files in order, or behind 8 at a time of them in random order."""
    import tensorflow as tf

    starts = np.linspace(0, records, FILES + 1).astype(np.int64)
    files = tf.data.Dataset.from_tensor_slices((starts[:-1], starts[1:]))
    data = tf.data.Dataset.range(records)
    if interleaved:
        data = files.shuffle(FILES, seed=seed).interleave(tf.data.Dataset.range, cycle_length=INTERLEAVED)
    data = data.shuffle(buffer, seed=seed).batch(records)
    for _ in range(epochs):
        (order,) = data.as_numpy_iterator()
        yield order


def served(shards: Shards, epochs: int, seed: int, homogeneous: bool = False, chunks: int = 0) -> Iterator[Order]:
    """The orders of one of three jobs, from its second epoch on. Each record once an epoch, or AssertionError.

    `chunks` 0: as many as the default.
    """
    lengths = [int(length) for length in shards.lengths]
    allocation_bytes = int(SHARE * sum(lengths))
    chunks = chunks or chunk_counts.relevance_chunks(sum(lengths), allocation_bytes, len(lengths))
    striped = striping.stripe(shards.lengths, chunks, LONG_UNIT_PARTITIONS if homogeneous else 0)
    layout = ChunkLayout(striped, np.random.default_rng(seed), homogeneous)
    resident = bytearray(len(lengths))
    engine, rng = Engine(), random.Random(seed)
    cache = ChunkCache(layout, lengths, resident, allocation_bytes, lambda board: Relevance(board, _EPOCH_S / 4))
    chunked = ChunkedCache(engine, cache, resident, lengths, STORE_SPEED * sum(lengths) / _EPOCH_S, rng)
    jobs = [
        _Recorder(
            f"job {number}",
            engine,
            chunked,
            lengths,
            rng.uniform(1, 2) * sum(lengths) / _EPOCH_S,
            rng.uniform(0, _EPOCH_S),
        )
        for number in range(JOBS)
    ]
    if not engine.run(lambda: len(jobs[0].epoch_ends) > epochs, _LIMIT_S):
        raise RuntimeError(f"seed {seed}: the jobs stand still at {engine.now:.0f} s")
    for epoch in jobs[0].epochs[1 : epochs + 1]:
        order = pooled(shards, epoch, POOL_SHARDS * max(lengths), rng, striped.unit_of if homogeneous else None)
        assert len(order) == shards.starts[-1] == len(np.unique(order)), "not every record exactly once"
        yield order


def pooled(
    shards: Shards,
    sequence: list[int],
    pool_bytes: int,
    rng: random.Random,
    unit_of: npt.NDArray[np.uint32] | None = None,
) -> Order:
    """What leaves a record pool of `pool_bytes` that these shards enter one after the other.

    With `unit_of` [shards] no two units are in it together.
    """
    waiting, pool, order = deque(sequence), list[int](), list[int]()
    record_bytes = np.repeat(
        shards.lengths // np.diff(shards.starts).astype(np.uint64), np.diff(shards.starts)
    ).tolist()
    here_bytes, unit = 0, None
    while waiting or pool:
        while waiting and here_bytes < pool_bytes:
            if unit_of is not None and pool and unit_of[waiting[0]] != unit:
                break
            shard = waiting.popleft()
            unit = None if unit_of is None else unit_of[shard]
            inside = range(int(shards.starts[shard]), int(shards.starts[shard + 1]))
            pool.extend(inside)
            here_bytes += sum(record_bytes[record] for record in inside)
        at = int(rng.random() * len(pool))
        pool[at], pool[-1] = pool[-1], pool[at]
        record = pool.pop()
        here_bytes -= record_bytes[record]
        order.append(record)
    return np.array(order, np.int64)
