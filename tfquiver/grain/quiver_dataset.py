"""`tfquiver.grain.QuiverDataset`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import grain

from tfquiver import errors
from tfquiver.grain.iterator import QuiverIterator
from tfquiver.listing.listing import Source
from tfquiver.reader.batch import Batch
from tfquiver.reader.records import records
from tfquiver.reader.share import Share
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.users_arguments_checked.option_groups import Connection, FirstUse, Reading
from tfquiver.users_arguments_checked.orders import Order, Replay, Shuffled


class QuiverDataset(grain.IterDataset[Any]):
    """The records of TFRecord files, each exactly once an epoch, as the source of a pipeline of Grain.

    Elements are records, `bytes`; with `batch_size`, lists of so many, drawn at once, which is several times as fast
    for small ones. `map`, `batch`, `repeat` and the others are Grain's. Behind `repeat` every epoch has an order of
    its own. The first use of files scans them once, and caches them on the way.

    Each process that `sharding` counts reads every n-th shard, and so does each worker of `mp_prefetch` of those. An
    iterator's state is kilobytes, and goes on exactly where it was, with as many processes and workers as there were.

    Args:
      batch_size: records in an element; None: elements are single records.
      decode_batch: called with each `tfquiver.reader.Batch`, for elements without a copy of each record.
      sharding: of the processes of one run, such as `grain.sharding.ShardByJaxProcess()`. Those that have fewer records
        than others end sooner.

    The others, and what is raised, as for `tfquiver.dataset`; errors are those of `tfquiver.errors`.
    """

    def __init__(
        self,
        source: Source,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        service: str | None = None,
        quota: int | str | None = None,
        batch_size: int | None = None,
        drop_remainder: bool = False,
        decode_batch: Callable[[Batch], Any] | None = None,
        order: Order = Shuffled(),
        job: str | None = None,
        sharding: grain.sharding.ShardOptions | None = None,
        reading: Reading = Reading(),
        first_use: FirstUse = FirstUse(),
        connection: Connection = Connection(),
    ) -> None:
        super().__init__()
        if decode_batch is not None and (batch_size is None or not callable(decode_batch)):
            raise errors.InvalidArgumentError(f"decode_batch={decode_batch!r}: must be a function, with batch_size=")
        if isinstance(order, Replay) or (isinstance(order, Shuffled) and order.log_dir is not None):
            raise errors.InvalidArgumentError(f"order={order!r}: logs of orders are not for Grain")
        if sharding is not None and sharding.drop_remainder:
            raise errors.InvalidArgumentError(
                "sharding=: drop_remainder=True is not for whole shards of records: train for a number of steps"
            )
        self._share = Share(sharding.shard_index, sharding.shard_count) if sharding else Share()
        self._decode_batch = decode_batch
        self._batched = batch_size is not None
        self._records = records(
            source, cache_dir=cache_dir, service=service, quota=quota,
            batch_size=1 if batch_size is None else batch_size, drop_remainder=drop_remainder, order=order, job=job,
            reading=reading, first_use=first_use, connection=connection,
        )  # fmt: skip

    @property
    def num_records(self) -> int:
        """In the data set, whatever share of an epoch comes here."""
        return self._records.num_records

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Called by Grain in a worker: of what this reads, only a worker's share."""
        if sl.stop is not None or sl.step is None:
            raise errors.InvalidArgumentError(f"{sl}: only slice(worker, None, workers) is a share")
        self._share = self._share.every(sl.start or 0, sl.step)

    def __iter__(self) -> QuiverIterator:
        return QuiverIterator(self._records, self._share, self._element)

    def __str__(self) -> str:
        return f"QuiverDataset({many(self._records.num_records, 'record')})"

    def _element(self, batch: Batch) -> Any:
        if self._decode_batch is not None:
            return self._decode_batch(batch)
        return batch.to_list() if self._batched else bytes(batch[0])
