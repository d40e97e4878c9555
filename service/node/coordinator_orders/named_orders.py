"""The orders about data sets with names: their digests got, tasks begun and given up, removals told after that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2, types_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.coordinator_orders.dataset_tasks import DatasetTasks, Report
from tfquiver.service.node.coordinator_orders.named_list import NamedList

_TRY_AGAIN_S = 2.0
_LOOK_S = 2.5


class NamedWork:
    """Does one task. Each argument raises TfquiverError.

    Args:
      let_go: returns when nothing of that digest is being deleted.
      hindered: what keeps this node from keeping or letting go just now, for people; empty: nothing.
    """

    def __init__(
        self,
        scan: Callable[[str, pb.ScanTask, Report], Awaitable[types_pb2.Dataset]],
        warm: Callable[[bytes], AsyncGenerator[node_pb2.WarmProgress, None]],
        give_up: Callable[[Sequence[bytes]], Awaitable[str]],
        abandoned: Callable[[], None],
        evicted: Callable[[str, Sequence[bytes]], Awaitable[None]],
        let_go: Callable[[bytes], Awaitable[None]],
        hindered: Callable[[], str] = str,
    ) -> None:
        self._hindered = hindered
        self._scan, self._warm, self._give_up, self._abandoned = scan, warm, give_up, abandoned
        self._evicted, self._let_go = evicted, let_go

    async def do(self, task: pb.DatasetTask, report: Report) -> pb.ReportTaskRequest:
        match task.WhichOneof("work"):
            case "scan":
                dataset = await self._scan(task.task_id, task.scan, report)
                return pb.ReportTaskRequest(digest_id=dataset.digest_id)
            case "warm":
                await self._let_go(task.warm.digest_id)
                last = node_pb2.WarmProgress()
                async with aclosing(self._warm(task.warm.digest_id)) as progress:
                    async for last in progress:
                        report(last.resident_bytes, last.total_bytes, self._hindered() or last.trouble)
                return pb.ReportTaskRequest(
                    done_bytes=last.resident_bytes, total_bytes=last.total_bytes, trouble=last.trouble,
                    lacks_room_bytes=last.lacks_room_bytes,
                )  # fmt: skip
            case "evict":
                if task.evict.abandoned:
                    self._abandoned()
                stays = await self._let_know(self._give_up(task.evict.digest_ids), report)
                await self._evicted(task.task_id, task.evict.digest_ids)
                if not task.evict.abandoned:  # of what is deleted nobody asks why something of it is there
                    return pb.ReportTaskRequest(trouble=stays)
        return pb.ReportTaskRequest()

    async def _let_know(self, work: Awaitable[str], report: Report) -> str:
        """Does it, and tells meanwhile what is in the way, or that nothing is any more."""
        doing, said = asyncio.ensure_future(work), ""
        try:
            while not (await asyncio.wait([doing], timeout=_LOOK_S))[0]:
                if (why := self._hindered()) or said:
                    report(0, 0, why)
                said = why
        except asyncio.CancelledError:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)
            raise
        return doing.result()


class NamedOrders:
    """Lives on one loop. `close` it.

    Args:
      here: ids of the digests that this node has.
      digest: the digest with that id, got if it is not here; raises TfquiverError.
      removals: told the coordinator's number of removals, and what `named` says.
      report_stale: tells the coordinator; raises TfquiverError.
      use: told the data sets that have names, and with what each is read, when that is another list.
      ordered: told the tasks of all nodes.
    """

    def __init__(
        self,
        tasks: DatasetTasks,
        here: Callable[[], Collection[bytes]],
        digest: Callable[[bytes], Awaitable[Digest]],
        removals: Callable[[int, Sequence[pb.NamedDigest]], None],
        use: Callable[[Sequence[pb.NamedDigest]], None],
        report_stale: Callable[[bytes, str], Awaitable[None]],
        ordered: Callable[[Sequence[pb.DatasetTask]], None] = lambda tasks: None,
    ) -> None:
        self.tasks, self._ordered = tasks, ordered
        self._here, self._digest, self._removals, self._use = here, digest, removals, use
        self._report_stale = report_stale
        self._list, self._used = NamedList(), object()
        self._getting: asyncio.Task[None] | None = None
        self._names: dict[bytes, list[str]] = {}
        self._stale: set[bytes] = set()  # that the coordinator has been told of
        self._telling: set[asyncio.Task[None]] = set()

    @property
    def version(self) -> int:
        """Of what this node knows of the data sets that have names: the next orders say what is other since."""
        return self._list.version

    def receive(self, orders: coordinator_pb2.OrdersReply) -> None:
        """The newest ones, which replace all before them. Raises ProtocolError."""
        named = self._list.take(orders)
        if named is not self._used:
            self._use(named)
            self._names = {}
            for one in named:
                self._names.setdefault(one.digest_id, []).append(one.name)
            self._stale &= self._names.keys()
            self._used = named
        self._ordered(orders.tasks)
        self.tasks.receive([task for task in orders.tasks if not task.HasField("evict") or self.tasks.has(task)])
        if self._getting:
            self._getting.cancel()
        self._getting = asyncio.get_running_loop().create_task(self._get(orders, named))

    def stale(self, digest_id: bytes, why: str) -> None:
        """A file is another one than when that version was scanned. On the loop."""
        if digest_id in self._names and digest_id not in self._stale:
            self._stale.add(digest_id)
            task = asyncio.get_running_loop().create_task(self._tell_stale(digest_id, why))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    def names(self, digest_id: bytes) -> Sequence[str]:
        """Of the data sets of which that is a version."""
        return self._names.get(digest_id, ())

    async def _tell_stale(self, digest_id: bytes, why: str) -> None:
        try:
            await self._report_stale(digest_id, why)
        except errors.TfquiverError as error:  # the next read of that file says it again
            self._stale.discard(digest_id)
            logging.warning(
                "data set %s: %s",
                ", ".join(self.names(digest_id)),
                error,
                extra=about(dataset=", ".join(self.names(digest_id)), digest=digest_id),
            )

    async def close(self) -> None:
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)
        if self._getting:
            self._getting.cancel()
            await asyncio.gather(self._getting, return_exceptions=True)
        await self.tasks.close()

    async def _get(self, orders: coordinator_pb2.OrdersReply, all_named: Sequence[pb.NamedDigest]) -> None:
        """First the digests: of what is evicted, or was removed, the shards stay that another data set has."""
        here = set(self._here())
        for named in all_named:
            while named.digest_id not in here:
                try:
                    await self._digest(named.digest_id)
                    break
                except errors.UnavailableError as error:
                    every_n_seconds(
                        logging.WARNING,
                        "data set %s: %s",
                        30,
                        named.name,
                        error,
                        extra=about(dataset=named.name, digest=named.digest_id),
                    )
                    await asyncio.sleep(_TRY_AGAIN_S)
                except errors.NotFoundError:  # it was removed meanwhile, as newer orders say
                    break
                except errors.TfquiverError as error:  # damaged: newer orders say so
                    logging.warning(
                        "data set %s: %s", named.name, error, extra=about(dataset=named.name, digest=named.digest_id)
                    )
                    break
        if any(task.HasField("evict") and not self.tasks.has(task) for task in orders.tasks):
            self.tasks.receive(orders.tasks)
        self._removals(orders.removals, all_named)
