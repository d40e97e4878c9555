"""The shards of one reader that are being got, and those that are ready to be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.logs import telling
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.node.reader_sessions.instructions import Fetch
from tfquiver.service.node.reader_sessions.numbered_shards import NumberedShards
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource

BATCH_SHARDS = 16  # the first of a batch waits for the last


class ShardFetches:
    """Most shards of a warm cache stand raw on the disk: those are got many at a time, the others one by one.

    Args:
    on_ready: the shard can be taken.
    on_failed: it could not be had; a typed error.
    job: of the reader, for the log.
    before: awaited before a shard is got that is got by itself, as each is that is got again; may raise TfquiverError.
    """

    def __init__(
        self,
        source: ShardSource,
        shards: NumberedShards,
        on_ready: Callable[[int], None],
        on_failed: Callable[[int, errors.TfquiverError], None],
        job: str = "",
        before: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._source, self._shards, self._job, self._before = source, shards, job, before
        self._on_ready, self._on_failed = on_ready, on_failed
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._batch: list[tuple[Fetch, bool]] = []
        self._batches: set[asyncio.Task[None]] = set()
        self._in_batches: set[int] = set()
        self._ready: dict[int, ReadyShard] = {}
        self._closed = False

    def start(self, order: Fetch, bypass: bool = False, missing: bool = False) -> None:
        """`bypass`, `missing`: as in ShardSource.get."""
        if self._closed:
            return
        if order.after_s or order.drop_first or bypass:
            self._start_one(order, bypass, missing)
            return
        self._in_batches.add(order.shard)
        self._batch.append((order, missing))
        if len(self._batch) == 1:
            asyncio.get_running_loop().call_soon(self._start_batches)

    def take(self, shard: int) -> ReadyShard:
        """The ready shard, which is the caller's from now on."""
        return self._ready.pop(shard)

    def discard(self, shard: int) -> None:
        self._in_batches.discard(shard)
        if task := self._tasks.pop(shard, None):
            task.cancel()
        if ready := self._ready.pop(shard, None):
            ready.close()

    def close(self) -> None:
        """Stops everything. Harmless when repeated."""
        self._closed = True
        for shard in (*self._tasks, *self._ready, *self._in_batches):
            self.discard(shard)

    def _start_one(self, order: Fetch, bypass: bool, missing: bool) -> None:
        self._tasks[order.shard] = asyncio.get_running_loop().create_task(self._fetch(order, bypass, missing))

    def _start_batches(self) -> None:
        orders, self._batch = self._batch, []
        for at in range(0, len(orders), BATCH_SHARDS):
            task = asyncio.get_running_loop().create_task(self._fetch_batch(orders[at : at + BATCH_SHARDS]))
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)

    async def _fetch_batch(self, orders: list[tuple[Fetch, bool]]) -> None:
        hashes = {order.shard: self._shards.hash(order.shard) for order, _ in orders}
        found: dict[bytes, ReadyShard] = {}
        try:
            found = dict(await self._source.get_raw(list(dict.fromkeys(hashes.values()))))
        except Exception as error:  # noqa: BLE001 - whatever it is, each shard will say it of itself
            logging.warning("opening shards: %s; trying them one by one", error)
        for order, missing in orders:
            ready = found.pop(hashes[order.shard], None)
            if order.shard not in self._in_batches:  # discarded meanwhile
                if ready:
                    ready.close()
                continue
            self._in_batches.discard(order.shard)
            if ready:
                self._ready[order.shard] = ready
                self._on_ready(order.shard)
            else:
                self._start_one(order, False, missing)

    async def _fetch(self, order: Fetch, bypass: bool, missing: bool) -> None:
        digest, shard = self._shards.digest, self._shards.shard(order.shard)
        with telling(job=self._job, dataset=digest.name, digest=digest.digest_id, shard=shard, alone=True):
            await self._fetched(order, bypass, missing)

    async def _fetched(self, order: Fetch, bypass: bool, missing: bool) -> None:
        try:
            ready = await self._get(order, bypass, missing)
        except errors.TfquiverError as error:
            if not isinstance(error, errors.CancelledError_):
                every_n_seconds(logging.WARNING, "a reader waits: %s", 10, error)
            self._failed(order.shard, error)
        except OSError as error:  # descriptors or memory run out: others will give theirs back
            name = self._shards.name(order.shard)
            self._failed(order.shard, errors.ResourceExhaustedError(f"{name}: {error}"))
        except Exception as error:  # noqa: BLE001 - one shard's trouble must not leave its reader waiting for ever
            logging.exception("fetching a shard")
            name = self._shards.name(order.shard)
            self._failed(order.shard, errors.TfquiverError(f"{name}: {type(error).__name__}: {error}"))
        else:
            self._tasks.pop(order.shard, None)
            self._ready[order.shard] = ready
            self._on_ready(order.shard)

    async def _get(self, order: Fetch, bypass: bool, missing: bool) -> ReadyShard:
        if order.after_s:
            await asyncio.sleep(order.after_s)
        if order.drop_first:
            await self._source.drop(self._shards.hash(order.shard), "its reader found it bad")
        if self._before:
            await self._before(order.shard)
        shard = self._shards.shard(order.shard)
        return await self._source.get(self._shards.digest, shard, order.owner, bypass, missing=missing)

    def _failed(self, shard: int, error: errors.TfquiverError) -> None:
        self._tasks.pop(shard, None)
        self._on_failed(shard, error)
