"""This node's line to the coordinator: heartbeats, the members they bring, and orders; calls besides.

While the coordinator is away calls are repeated; the first heartbeat after that says whether it is a new one, which
readers must be opened at again. `on_lost` is told every few seconds for how long it has been away.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc
from absl import logging

from tfquiver import errors
from tfquiver.clock import SystemClock
from tfquiver.grpc_plumbing import rpc
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, types_pb2
from tfquiver.service.node.coordinator_link.coordinator_calls import CALL_TIMEOUT_S, CoordinatorCalls
from tfquiver.service.node.coordinator_link.inventory_reports import InventoryReports
from tfquiver.service.node.coordinator_link.reader_reports import ReaderReports
from tfquiver.sizes_durations_amounts.amounts import many

TELL_EVERY_S = 5.0
_SOONEST_S = 0.01  # between heartbeats that only carry news: each step of a rotation waits for one
_SCANNING_S = 0.1  # the same while this node scans: entries come all the time, and nobody waits for each
_SOONEST_NODES = 4  # for more, the pause is longer, and so after orders: each costs the coordinator about a ms
_ORDERS_WAIT_MS = 10_000
# Of the pause after orders, when they are asked for by themselves, and from when on with a heartbeat: half of what a
# thousand calls a second cost the coordinator is the messages that they come in and are answered by.
_LATEST_ORDERS, _SOONEST_ORDERS = 2.0, 0.8
_ORDERS_PAUSE_S = 1.0  # after a call that failed
_ERROR_PAUSE_S = 1.0  # after an error that nobody has thought of
_FIRST_INTERVAL_MS = 1000
_MET_S = 5.0
_LONGEST_INTERVAL_MS = 10_000


@dataclass(frozen=True, slots=True)
class CoordinatorPatience:
    connect_s: float = 20.0  # at the start
    lost_s: float = 600.0  # later


class CoordinatorLink(CoordinatorCalls):
    """Args:
    node: this node as it is now (its used bytes change).
    on_new: the coordinator is another process than before: readers must be opened again.
    on_lost: called while it is away with the seconds since, every TELL_EVERY_S.
    on_orders: the newest ones, which replace all before them.
    on_members: called after every heartbeat that was answered.
    on_return: the coordinator had lost sight of this node.
    """

    def __init__(
        self,
        address: str,
        token: str,
        incarnation: str,
        node: Callable[[], types_pb2.NodeInfo],
        patience: CoordinatorPatience,
        on_new: Callable[[], None],
        on_lost: Callable[[float], None],
        on_orders: Callable[[Sequence[pb.DatasetOrders]], None] = lambda orders: None,
        on_members: Callable[[], None] = lambda: None,
        on_return: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(address, token, node, patience.lost_s)
        self.incarnation, self._patience = incarnation, patience
        self._on_new, self._on_lost = on_new, on_lost
        self._on_orders, self._on_members, self._on_return = on_orders, on_members, on_return
        self.inventory: InventoryReports
        self.reader_reports = ReaderReports(SystemClock())
        self.store_reads: Callable[[], pb.StoreReads | None] = lambda: None  # told with every heartbeat
        # Told before the orders themselves: the version (OrdersReply.places_version), and where data sets are kept.
        self.on_places: Callable[[int, Sequence[pb.DatasetPlaces]], None] = lambda version, places: None
        self.moves: Callable[[], Sequence[pb.MoveReport]] = tuple  # told with every heartbeat
        self.scans: Callable[[], int] = int  # told with every heartbeat
        self.mounts: Callable[[], Sequence[pb.MountReport]] = tuple  # told with every heartbeat
        # Told with the orders: of data sets that have names, and of removals.
        self.on_named: Callable[[pb.OrdersReply], None] = lambda reply: None
        # Called before each heartbeat, and a turn of the loop before it is sent: what is asked then goes with it. So
        # many seconds may pass before the next: as before this one.
        self.on_heartbeat: Callable[[float], None] = lambda next_s: None
        self.on_lost_sight: Callable[[], None] = lambda: None  # as `on_return`; the orders come next
        self.named_version: Callable[[], int] = int  # of what was taken so
        self._members: Sequence[types_pb2.NodeInfo] = ()
        self._members_version = 0
        self._orders_version = 0
        self._asking: asyncio.Task[pb.OrdersReply] | None = None
        self._coordinator = ""
        self._interval_ms = _FIRST_INTERVAL_MS
        self._heard_s = -math.inf
        self._news, self._beaten, self._hurry = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._beating, self._beat_s = asyncio.Event(), math.inf
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = self._answered = self._wanted = 0  # heartbeats, by number
        self._used_told = -1  # bytes on the disk, as the last heartbeat that was answered told

    def members(self) -> Sequence[types_pb2.NodeInfo]:
        """Every live node, as the last heartbeat told."""
        return self._members

    def silent_s(self) -> float:
        """For how long the coordinator has not answered a heartbeat; infinite: it never has."""
        return asyncio.get_running_loop().time() - self._heard_s

    def wake(self) -> None:
        """There is news: do not wait for the next heartbeat to be due. On the loop only."""
        self._news.set()

    async def report_task(self, request: named_datasets_pb2.ReportTaskRequest) -> bool:
        """That it is over is told after what it has brought or taken away, and the room that is left: who waits for a
        task looks at that next."""
        if request.over:
            await self._all_held_told()
        return await super().report_task(request)

    async def met(self) -> None:
        """From then on `members` are those of when it was asked, or later: a node that has joined is known to this one
        only after its next heartbeat. Goes on with those that are known when the coordinator does not answer."""
        wanted = self._ask_soon()
        try:
            async with asyncio.timeout(_MET_S):
                while self._answered < wanted:
                    await self._beaten.wait()
        except TimeoutError:
            logging.warning(
                "coordinator %s does not say who is there: %s known",
                self.address,
                many(len(self._members), "node is", "nodes are"),
            )

    async def connect(self) -> None:
        """The first heartbeat. Raises UnavailableError when the coordinator cannot be reached in time."""
        what = f"--coordinator={self.address}"
        try:
            async with asyncio.timeout(self._patience.connect_s + _SOONEST_S):
                await rpc.retry(self._beat, what, self._patience.connect_s)
        except (errors.UnavailableError, errors.DeadlineError, TimeoutError) as error:
            late = f"{what}: no answer within {self._patience.connect_s:g} s"
            raise errors.UnavailableError(f"{late} ({error})" if str(error) else late) from error
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._beat_on()), loop.create_task(self._follow_orders())]

    async def leave(self) -> None:
        """Says good-bye, if there is somebody to hear it: this node is no member any more. Harmless when repeated."""
        tasks, self._tasks = self._tasks, []
        if tasks:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            try:
                request = pb.LeaveRequest(node_id=self._node().node_id, incarnation=self.incarnation)
                await self._stub.Leave(request, timeout=1.0, metadata=self._metadata)
            except grpc.RpcError as error:
                logging.info("leaving: %s", error.code())

    async def close(self) -> None:
        """Leaves, and hangs up."""
        await self.leave()
        self._stream.close()
        self._readers.close()
        await self._channel.close()

    def _ask_soon(self) -> int:
        """The number of a heartbeat that has not begun, and is about to."""
        self._wanted = self._begun + 1
        self._hurry.set()
        self.wake()
        return self._wanted

    async def _all_held_told(self) -> None:
        made, wanted = self.inventory.made, 0
        self._hurry.set()
        if self._node().used_bytes != self._used_told:  # an entry that has gone has its room back a moment later
            wanted = self._ask_soon()
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                while self.inventory.told < made or self._answered < wanted:
                    await self._beaten.wait()
        except TimeoutError as error:
            raise errors.UnavailableError(f"--coordinator={self.address}: no answer to heartbeats") from error

    # Heartbeats.

    async def _beat(self) -> None:
        self._beating.set()
        self._beating = asyncio.Event()
        before_s, self._beat_s = self._beat_s, asyncio.get_running_loop().time()
        self.on_heartbeat(self._beat_s - before_s)
        await asyncio.sleep(0)
        self._begun += 1
        begun, report = self._begun, self.inventory.report()
        request = pb.HeartbeatRequest(
            node=self._node(),
            incarnation=self.incarnation,
            inventory=report,
            members_version=self._members_version,
            readers=self.reader_reports.report(),
            store_reads=self.store_reads(),
            moves=self.moves(),
            scans=self.scans(),
            mounts=self.mounts(),
        )
        reply = await self._stream.heartbeat(request, CALL_TIMEOUT_S)
        self._heard_s = asyncio.get_running_loop().time()
        self.inventory.arrived(reply.resend_inventory)
        self.reader_reports.arrived()
        self._answered, self._used_told = begun, request.node.used_bytes
        if reply.resend_inventory:
            self.on_lost_sight()
            if self._asking and self._orders_version:  # that would be answered when something else is ordered
                self._asking.cancel()
            self._orders_version = 0  # whatever was ordered meanwhile
            self._on_return()
        if not reply.members_version or reply.members_version != self._members_version:
            self._members, self._members_version = tuple(reply.nodes), reply.members_version
        self._beaten.set()
        self._beaten = asyncio.Event()
        self._on_members()
        self._interval_ms = min(max(reply.heartbeat_interval_ms, 50), _LONGEST_INTERVAL_MS)
        was, self._coordinator = self._coordinator, reply.coordinator_incarnation
        if was and was != self._coordinator:
            logging.warning("coordinator %s was restarted: opening the readers again", self.address)
            self._stream.try_again()
            self._on_new()

    async def _beat_on(self) -> None:
        loop = asyncio.get_running_loop()
        seen_s, tell_at_s = loop.time(), 0.0
        while True:
            await self._pause()
            try:
                await self._beat()
                if tell_at_s:
                    logging.info("coordinator %s is back", self.address)
                seen_s, tell_at_s = loop.time(), 0.0
            except grpc.RpcError as error:
                tell_at_s = tell_at_s or seen_s + TELL_EVERY_S
                if loop.time() >= tell_at_s:
                    tell_at_s = loop.time() + TELL_EVERY_S
                    logging.warning("coordinator %s: %s: %s", self.address, error.code(), error.details())
                    self._on_lost(loop.time() - seen_s)
            except Exception:  # noqa: BLE001 - whatever it was: a node whose heartbeats end is lost to all others
                logging.exception("a heartbeat failed; the next one is sent in %g s", _ERROR_PAUSE_S)
                await asyncio.sleep(_ERROR_PAUSE_S)

    async def _follow_orders(self) -> None:
        """For as long as this node lives, however long the coordinator is away: nothing else asks for them."""
        while True:
            version = self._orders_version
            request = pb.OrdersRequest(
                node_id=self._node().node_id, incarnation=self.incarnation, version=version, wait_ms=_ORDERS_WAIT_MS,
                named_version=self.named_version(),
            )  # fmt: skip
            asking = self._asking = asyncio.create_task(
                self._stream.orders(request, CALL_TIMEOUT_S + _ORDERS_WAIT_MS / 1000)
            )
            try:
                await asyncio.wait([asking])
            finally:
                asking.cancel()
            if asking.cancelled():
                if self._orders_version == version:  # not by the heartbeat that makes them be asked for anew
                    await asyncio.sleep(_ORDERS_PAUSE_S * random.uniform(0.5, 1.0))
                continue
            try:
                reply = asking.result()
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:  # of that heartbeats tell
                    every_n_seconds(logging.WARNING, "orders: %s: %s", 60, error.code(), error.details())
                await asyncio.sleep(_ORDERS_PAUSE_S * random.uniform(0.5, 1.0))
                continue
            if reply.version == version:
                await asyncio.sleep(_SOONEST_S)
                continue
            try:
                self.on_places(reply.places_version, reply.places)
                self._on_orders(reply.orders)
                self.on_named(reply)
                if self._orders_version == version:  # else it was asked for before this node was lost sight of
                    self._orders_version = reply.version
                await self._pause_after_orders()
            except Exception:  # noqa: BLE001 - whatever it was: without this task no order would come any more
                logging.exception("orders could not be taken; they are asked for again in %g s", _ERROR_PAUSE_S)
                await asyncio.sleep(_ERROR_PAUSE_S)

    async def _pause_after_orders(self) -> None:
        """Where many nodes ask for them, until the next heartbeat that takes the question along."""
        pause_s = _SOONEST_S * (len(self._members) // _SOONEST_NODES)
        await asyncio.sleep(_SOONEST_ORDERS * pause_s)
        if not pause_s:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((_LATEST_ORDERS - _SOONEST_ORDERS) * pause_s):
                await self._beating.wait()

    async def _pause(self) -> None:
        await asyncio.sleep(_SOONEST_S * max(1.0, len(self._members) / _SOONEST_NODES))
        if self.scans():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SCANNING_S):
                    await self._hurry.wait()
        self._hurry.clear()
        if self.inventory.waiting or self._begun < self._wanted:
            return
        self._news.clear()
        try:
            async with asyncio.timeout(self._interval_ms / 1000 * random.uniform(0.8, 1.0)):
                await self._news.wait()
        except TimeoutError:
            pass
