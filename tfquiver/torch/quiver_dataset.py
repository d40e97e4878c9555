"""`tfquiver.torch.QuiverDataset`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch.utils.data

from tfquiver import errors
from tfquiver.cluster_address import naming
from tfquiver.listing.listing import Source
from tfquiver.reader.batch import Batch
from tfquiver.reader.records import records
from tfquiver.torch import participants, shares
from tfquiver.torch.elements import Elements
from tfquiver.torch.epochs import Iterations
from tfquiver.torch.iteration import Iteration
from tfquiver.users_arguments_checked.checks import check_integer
from tfquiver.users_arguments_checked.option_groups import Connection, FirstUse, Reading
from tfquiver.users_arguments_checked.orders import FILES, Order, Shuffled

_MAX_EPOCH = 1 << 62


class QuiverDataset(torch.utils.data.IterableDataset[Any]):
    """The records of TFRecord files, each exactly once an epoch, for `DataLoader(dataset, batch_size=None)`.

    All workers of a DataLoader, and all ranks of `torch.distributed`, share one epoch: each record goes to one of them,
    to whichever asks first; of a data set that is small for its ranks each has a share of its own, so that each has a
    batch. Ranks get about as many batches each, not exactly: with DistributedDataParallel train within
    `torch.distributed.algorithms.join.Join`, or for a number of steps. All ranks have to make the data set, and to
    iterate over it, in step. The first use of files scans them once, and caches them on the way.

    Iterators have `state_dict` and `load_state_dict`; torchdata's StatefulDataLoader goes on exactly where it was, with
    as many ranks and workers as it had.

    Args:
      batch_size: records in an element; None: elements are single records, which is slower by far for small ones.
      decode: what each record becomes, called in the worker with a read-only `memoryview`; such as
        `tfquiver.reader.parse_example`. None: `bytes`.
      decode_batch: instead: called with each `tfquiver.reader.Batch`; such as `tfquiver.torch.as_tensors`.
      collate: what a list of decoded records becomes; None: with `decode` PyTorch's `default_collate`, else the list.
      stream: a name; jobs that give it share their epochs: who comes joins the one under way.
      rank, world_size: None: of `torch.distributed`, or as `torchrun` says in the environment.

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
        decode: Callable[[memoryview], Any] | None = None,
        decode_batch: Callable[[Batch], Any] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        order: Order = Shuffled(),
        job: str | None = None,
        stream: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        reading: Reading = Reading(),
        first_use: FirstUse = FirstUse(),
        connection: Connection = Connection(),
    ) -> None:
        super().__init__()
        self._elements = Elements(batch_size is not None, decode, decode_batch, collate)
        # Of a stream it does not matter whose run this is.
        alone = stream is not None and rank is None and not os.environ.get("TORCHELASTIC_RUN_ID")
        self._ranks = participants.ranks(0 if alone else rank, 1 if alone else world_size)
        if order == FILES and self._ranks.world > 1:
            raise errors.InvalidArgumentError('order="files" is the order of one reader: not with several ranks')
        self._files = order == FILES
        key = f"{self._ranks.run}-{naming.program(sys.argv[0] if sys.argv else '')}"
        self._records = records(
            source, cache_dir=cache_dir, service=service, quota=quota,
            batch_size=1 if batch_size is None else batch_size,
            drop_remainder=drop_remainder, order=order, job=job, stream=stream, reading=reading, first_use=first_use,
            connection=connection, _session_key=key,
        )  # fmt: skip
        self._amounts = shares.Amounts(
            self._records.num_shards, self._records.num_records, self._records.num_bytes, batch_size or 1,
            drop_remainder,
        )  # fmt: skip
        told = self._records.options
        self._may_settle = not (self._records.stream or told.order_log or told.replay)
        if self._may_settle:
            shares.check(self._amounts, self._ranks.world)
        self._iterations = Iterations()
        self._begun = 0

    @property
    def num_records(self) -> int:
        """In the data set, whatever share of an epoch comes here."""
        return self._records.num_records

    def set_epoch(self, epoch: int) -> None:
        """The next iteration reads this epoch (what `Deterministic` orders are made of), those after it the next ones.
        It need not be called; also with `persistent_workers` it is heard by all workers."""
        self._iterations.set_epoch(check_integer("epoch", epoch, 0, _MAX_EPOCH))

    def __iter__(self) -> Iteration:
        worker = participants.worker()
        if self._files and worker.workers > 1:
            raise errors.InvalidArgumentError('order="files" is the order of one reader: num_workers=1, or 0')
        number, epoch = self._iterations.begin(worker, self._begun)
        self._begun += 1
        copy = self._iterations.copy if self._ranks.world == 1 else ""  # ranks may have been given one copy each
        rank, world = self._ranks.rank, self._ranks.world
        share = None
        if self._may_settle:
            share = shares.settled(self._amounts, rank, world, worker.number, worker.workers)
        return Iteration(
            self._records,
            rank * worker.workers + worker.number,
            world * worker.workers,
            share,
            f"{self._ranks.run}{copy}-{number}",
            epoch,
            lambda gone_on: self._iterations.set_epoch(gone_on + 1),
            self._elements,
        )
