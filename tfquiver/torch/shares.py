"""Of a data set that is small for its ranks each has a share that is settled beforehand. Pure.

Readers of one session get what they ask for, some shards and some batches at a time. Of few the first to come may have
all, and with DistributedDataParallel the others wait for ever for the rank that has none, or it for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver import errors
from tfquiver.reader.share import Share
from tfquiver.sizes_durations_amounts.amounts import many

_LEAST_SHARDS, _LEAST_BATCHES = 8, 32  # of each reader, where it is left to them which of them reads what
_SUGGESTED_SHARDS = 16  # of each rank
_LEAST_CUT_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of a data set, and of a batch of it."""

    shards: int
    records: int
    size_bytes: int
    batch_size: int
    drop_remainder: bool


def check(amounts: Amounts, ranks: int) -> None:
    """Raises InvalidArgumentError: some rank would have no batch, whatever is done."""
    if ranks == 1 or not amounts.records:
        return
    records, each = many(amounts.records, "record"), "a batch for each, and training waits for ever for who has none"
    if amounts.records < ranks:
        raise errors.InvalidArgumentError(f"{records} and {ranks} ranks: not {each}; train with fewer ranks")
    if amounts.drop_remainder and amounts.records < ranks * amounts.batch_size:
        raise errors.InvalidArgumentError(
            f"{records} and {ranks} ranks: with drop_remainder=True and batch_size={amounts.batch_size} not {each}; "
            "take a smaller batch_size, or fewer ranks"
        )
    if amounts.shards < ranks:
        target = max(_LEAST_CUT_BYTES, amounts.size_bytes // (_SUGGESTED_SHARDS * ranks))
        raise errors.InvalidArgumentError(
            f"{many(amounts.shards, 'shard')} and {ranks} ranks: not {each}. Where files are given, cut them into "
            f"smaller shards: first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(min_bytes={max(1, target // 4)}, "
            f"target_bytes={target}, max_bytes={4 * target})); else train with fewer ranks"
        )


def settled(amounts: Amounts, rank: int, ranks: int, worker: int, workers: int) -> Share | None:
    """What worker `worker` of `workers` of a rank reads. None: there is enough for all to read what they ask for."""
    readers = ranks * workers
    enough = amounts.shards >= _LEAST_SHARDS * readers
    if ranks == 1 or (enough and amounts.records >= _LEAST_BATCHES * readers * amounts.batch_size):
        return None
    # First a shard for each rank, then one for the second worker of each, ...: a worker may have none.
    most = amounts.shards // ranks
    if amounts.drop_remainder:
        most = min(most, amounts.records // (2 * ranks * amounts.batch_size))
    reading = max(1, min(workers, most))
    if worker >= reading:
        return Share(amounts.shards, amounts.shards + 1)
    return Share(rank, ranks).every(worker, reading)
