"""The orders in which the sessions of a running cluster serve a data set: several jobs over one cache of 20 %."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.bench.experiment.jobs import JobSpec
from tests.bench.experiment.remote import Remote
from tests.bench.experiment.world import World
from tests.bench.learning.orders import LONG_UNIT_PARTITIONS, POOL_SHARDS, SHARE, STORE_SPEED, Order
from tests.support import numbered

# Records are small: only their numbers matter, and all bytes go through a store emulator.
RECORD_BYTES, FRAME_BYTES, FILES = 64, 16, 10
FASTEST_EPOCH_S = 6.0
DEADLINE_S = 240.0


def served_by_cluster(
    records: int, shard_records: int, chunks: int, epochs: int, jobs: int, batch: int, homogeneous: bool = False
) -> list[list[Order]]:
    """By job and epoch, from each job's second epoch on. Each record once an epoch, or AssertionError.

    The jobs' speeds differ by up to two, so that they are soon anywhere in their epochs.
    """
    rng = random.Random(jobs)
    partitions = LONG_UNIT_PARTITIONS if homogeneous else 0
    record_bytes = RECORD_BYTES + FRAME_BYTES
    pool_bytes = POOL_SHARDS * shard_records * record_bytes
    store_bytes_per_s = STORE_SPEED * records * record_bytes / FASTEST_EPOCH_S
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base,
        Remote.start(Path(base), store_bytes_per_s) as remote,
    ):
        data = remote.add("order", FILES, records // FILES, RECORD_BYTES, shard_records)
        with World(Path(base) / "run", remote, data.disk_bytes) as world:
            world.set_cache(
                data, "cooperative", share=SHARE, rotation="relevance", chunks=chunks, partitions=partitions
            )
            specs = [
                JobSpec(
                    f"job-{number}",
                    FASTEST_EPOCH_S / (records / batch) * rng.uniform(1, 2),
                    batch,
                    shuffle_bytes=pool_bytes,
                    readahead_bytes=pool_bytes,
                )
                for number in range(jobs)
            ]
            sources = [world.dataset(data, spec, homogeneous=homogeneous).repeat(epochs + 1) for spec in specs]
            readers = [numbered.EpochReader(source, spec.step_s) for source, spec in zip(sources, specs, strict=True)]
            streams = [reader.result(DEADLINE_S).reshape(epochs + 1, records) for reader in readers]
            del sources, readers
    for stream in streams:
        for epoch in stream:
            numbered.assert_each_once(epoch, records)
    return [list(stream[1:]) for stream in streams]
