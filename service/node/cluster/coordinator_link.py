"""This node's line to the coordinator: heartbeats, the members they bring, and the readers' calls.

While the coordinator is away calls are repeated; the first heartbeat after that says whether it is a new one, which
readers must be opened at again. `on_lost` is told every few seconds for how long it has been away.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
from absl import logging

from tfquiver import errors
from tfquiver.content.digest import Digest
from tfquiver.content.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2
from tfquiver.service.node.cluster.inventory import Inventory
from tfquiver.wire import rpc

T = TypeVar("T")
CALL_TIMEOUT_S = 10.0
TICKET_DEADLINE_S = 2.0
TELL_EVERY_S = 5.0
_MISSING_DEADLINE_S = 2.0
PART_BYTES = 1 << 20
_SOONEST_S = 0.01  # between heartbeats that only carry news: each step of a rotation waits for one
_SOONEST_NODES = 4  # where there are more nodes the pause is longer: a heartbeat costs the coordinator about a ms
_ORDERS_WAIT_MS = 10_000
_ORDERS_PAUSE_S = 1.0  # after a call that failed
_ERROR_PAUSE_S = 1.0  # after an error that nobody has thought of
_FIRST_INTERVAL_MS = 1000
_LONGEST_INTERVAL_MS = 10_000


@dataclass(frozen=True, slots=True)
class CoordinatorPatience:
    connect_s: float = 20.0  # at the start
    lost_s: float = 600.0  # later


class CoordinatorLink:
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
        self.address, self.incarnation, self._node, self._patience = address, incarnation, node, patience
        self._on_new, self._on_lost = on_new, on_lost
        self._on_orders, self._on_members, self._on_return = on_orders, on_members, on_return
        self.inventory: Inventory
        self.digest_of: Callable[[bytes], Awaitable[Digest]]  # as this node has it
        self.on_removals: Callable[[int], None] = lambda removals: None  # told with the orders (OrdersReply.removals)
        self._metadata = rpc.metadata(token)
        self._channel = rpc.aio_channel(address)
        self._stub: Any = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._members: Sequence[types_pb2.NodeInfo] = ()
        self._members_version = 0
        self._coordinator = ""
        self._interval_ms = _FIRST_INTERVAL_MS
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def members(self) -> Sequence[types_pb2.NodeInfo]:
        """Every live node, as the last heartbeat told."""
        return self._members

    def wake(self) -> None:
        """There is news: do not wait for the next heartbeat to be due. On the loop only."""
        self._news.set()

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
        """Says good-bye, if there is somebody to hear it, and hangs up."""
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            try:
                request = pb.LeaveRequest(node_id=self._node().node_id, incarnation=self.incarnation)
                await self._stub.Leave(request, timeout=1.0, metadata=self._metadata)
            except grpc.RpcError as error:
                logging.info("leaving: %s", error.code())
        await self._channel.close()

    # Calls for readers.

    async def open_reader(self, request: pb.OpenReaderRequest) -> pb.OpenReaderReply:
        try:
            reply: pb.OpenReaderReply = await self._call(self._stub.OpenReader, request)
        except errors.DataLossError as error:
            if not await self._mended(request.digest_id, error):
                raise
            reply = await self._call(self._stub.OpenReader, request)
        return reply

    async def lease(self, request: pb.LeaseRequest) -> pb.LeaseReply:
        reply: pb.LeaseReply = await self._call(self._stub.Lease, request, CALL_TIMEOUT_S + request.wait_ms / 1000)
        return reply

    async def ack(self, request: pb.AckRequest) -> None:
        await self._call(self._stub.Ack, request)

    async def close_reader(self, request: pb.CloseReaderRequest) -> None:
        await self._call(self._stub.CloseReader, request)

    async def ticket(self, request: pb.TicketRequest) -> pb.TicketReply:
        """Soon, or UnavailableError: the dispatcher must not wait."""
        reply: pb.TicketReply = await self._call(self._stub.Ticket, request, TICKET_DEADLINE_S, TICKET_DEADLINE_S)
        return reply

    # Callers.

    async def identify(self, request: pb.IdentifyRequest, within_s: float) -> pb.IdentifyReply:
        reply: pb.IdentifyReply = await self._call(self._stub.Identify, request, within_s, within_s)
        return reply

    # Orders.

    async def missing(self, digest_id: bytes, shards: Sequence[int]) -> pb.MissingReply:
        """Those that no node, or another one, holds. Soon, or UnavailableError; NotFoundError: nothing is known."""
        request = pb.MissingRequest(digest_id=digest_id, shards=shards, node_id=self._node().node_id)
        soon_s = _MISSING_DEADLINE_S
        reply: pb.MissingReply = await self._call(self._stub.Missing, request, soon_s, soon_s)
        return reply

    # Data sets.

    async def removed_datasets(self, digest_ids: Sequence[bytes]) -> Sequence[bytes]:
        """Those that were removed. Soon, or UnavailableError."""
        request = pb.RemovedDatasetsRequest(digest_ids=digest_ids)
        reply: pb.RemovedDatasetsReply = await self._call(
            self._stub.RemovedDatasets, request, CALL_TIMEOUT_S, CALL_TIMEOUT_S
        )
        return list(reply.digest_ids)

    async def find_dataset(self, request: pb.FindDatasetRequest) -> types_pb2.Dataset | None:
        try:
            found: types_pb2.Dataset = await self._call(self._stub.FindDataset, request)
        except errors.NotFoundError:
            return None
        return found

    async def register_dataset(
        self, name: str, listing_key: bytes, terms: ListingTerms, digest: bytes
    ) -> types_pb2.Dataset:
        async def parts() -> AsyncIterator[pb.RegisterDatasetRequest]:
            yield pb.RegisterDatasetRequest(name=name, listing_key=listing_key, terms=terms.message())
            for at in range(0, len(digest), PART_BYTES):
                yield pb.RegisterDatasetRequest(part=digest[at : at + PART_BYTES])

        async def call() -> types_pb2.Dataset:
            registered: types_pb2.Dataset = await self._stub.RegisterDataset(
                parts(), timeout=self._patience.lost_s, metadata=self._metadata
            )
            return registered

        return await rpc.retry(call, f"registering data set {name!r} with {self.address}", self._patience.lost_s)

    async def _mended(self, digest_id: bytes, trouble: errors.DataLossError) -> bool:
        """Whether this node had a sound copy of a digest that is damaged in the coordinator's directory."""
        try:
            digest = await self.digest_of(digest_id)
            await self.register_dataset(digest.name, b"", ListingTerms(), await asyncio.to_thread(digest.to_bytes))
        except errors.TfquiverError as error:
            logging.warning("%s; nor is there a copy here: %s", str(trouble), str(error))
            return False
        logging.warning("%s; it has this node's copy now", str(trouble))
        return True

    async def digest_parts(self, digest_id: bytes) -> AsyncIterator[bytes]:
        """The digest file as the coordinator streams it; typed errors, no retries."""
        request = pb.GetDigestRequest(digest_id=digest_id)
        try:
            async for reply in self._stub.GetDigest(request, timeout=self._patience.lost_s, metadata=self._metadata):
                yield reply.part
        except grpc.RpcError as error:
            raise rpc.from_rpc_error(error, f"digest {digest_id.hex()} from {self.address}") from error

    async def _call(
        self, method: Callable[..., Any], request: Any, timeout_s: float = CALL_TIMEOUT_S, patience_s: float = 0.0
    ) -> Any:
        async def call() -> Any:
            return await method(request, timeout=timeout_s, metadata=self._metadata)

        return await rpc.retry(call, f"coordinator {self.address}", patience_s or self._patience.lost_s)

    # Heartbeats.

    async def _beat(self) -> None:
        report = self.inventory.report()
        request = pb.HeartbeatRequest(
            node=self._node(),
            incarnation=self.incarnation,
            inventory=report,
            members_version=self._members_version,
        )
        reply = await self._stub.Heartbeat(request, timeout=CALL_TIMEOUT_S, metadata=self._metadata)
        self.inventory.arrived(reply.resend_inventory)
        if reply.resend_inventory:
            self._on_return()
        if not reply.members_version or reply.members_version != self._members_version:
            self._members, self._members_version = tuple(reply.nodes), reply.members_version
        self._on_members()
        self._interval_ms = min(max(reply.heartbeat_interval_ms, 50), _LONGEST_INTERVAL_MS)
        was, self._coordinator = self._coordinator, reply.coordinator_incarnation
        if was and was != self._coordinator:
            logging.warning("coordinator %s was restarted: opening the readers again", self.address)
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
        version = 0
        while True:
            request = pb.OrdersRequest(
                node_id=self._node().node_id, incarnation=self.incarnation, version=version, wait_ms=_ORDERS_WAIT_MS
            )
            try:
                reply = await self._stub.Orders(
                    request, timeout=CALL_TIMEOUT_S + _ORDERS_WAIT_MS / 1000, metadata=self._metadata
                )
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:  # of that heartbeats tell
                    logging.log_every_n_seconds(logging.WARNING, "orders: %s: %s", 60, error.code(), error.details())
                await asyncio.sleep(_ORDERS_PAUSE_S * random.uniform(0.5, 1.0))
                continue
            if reply.version == version:
                await asyncio.sleep(_SOONEST_S)
                continue
            try:
                self._on_orders(reply.orders)
                self.on_removals(reply.removals)
                version = reply.version
            except Exception:  # noqa: BLE001 - whatever it was: without this task no order would come any more
                logging.exception("orders could not be taken; they are asked for again in %g s", _ERROR_PAUSE_S)
                await asyncio.sleep(_ERROR_PAUSE_S)

    async def _pause(self) -> None:
        await asyncio.sleep(_SOONEST_S * max(1.0, len(self._members) / _SOONEST_NODES))
        if self.inventory.waiting:
            return
        self._news.clear()
        try:
            async with asyncio.timeout(self._interval_ms / 1000 * random.uniform(0.8, 1.0)):
                await self._news.wait()
        except TimeoutError:
            pass
