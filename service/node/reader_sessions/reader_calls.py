"""What one reader asks of the coordinator, from OpenReader to CloseReader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats.drawn_shards import MOST_DRAWS
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2 as types_pb
from tfquiver.service.node.reader_sessions.instructions import Lease, LeaseState

_STATES = {
    pb.LeaseReply.STATE_LEASED: LeaseState.LEASED,
    pb.LeaseReply.STATE_WAIT: LeaseState.WAIT,
    pb.LeaseReply.STATE_END: LeaseState.END,
}


_PICKS_BYTES = 1 << 20  # that one reply has, or those of one draw
ACK_WITHIN_S, MAX_ACK_WITHIN_S = 0.02, 10.0  # a reader whose node dies says again what it has acked for 30 s


def ack_within_s(reply: pb.LeaseReply | pb.AckReply) -> float:
    """How long the next acknowledgements may wait for others."""
    return min(max(ACK_WITHIN_S, reply.ack_within_ms / 1000), MAX_ACK_WITHIN_S)


def order_of(wish: frames.Wish) -> types_pb.SessionOrder:
    return types_pb.SessionOrder(
        deterministic=wish.order == frames.ORDER_DETERMINISTIC, block_bytes=wish.block_bytes,
        order_seed=wish.order_seed, batch_records=wish.batch_records, files=wish.order == frames.ORDER_FILES,
    )  # fmt: skip


class Coordinator(Protocol):
    """Calls are repeated until they succeed, fail for good, or the coordinator is away for too long."""

    async def open_reader(self, request: pb.OpenReaderRequest) -> pb.OpenReaderReply: ...
    async def lease(self, request: pb.LeaseRequest) -> pb.LeaseReply: ...
    async def ack(self, request: pb.AckRequest) -> pb.AckReply: ...
    async def close_reader(self, request: pb.CloseReaderRequest) -> None: ...
    async def pick_records(self, request: pb.PickRecordsRequest) -> pb.PickRecordsReply: ...


class ReaderCalls:
    """Args:
    node: (node_id, incarnation).
    """

    def __init__(
        self,
        coordinator: Coordinator,
        node: tuple[str, str],
        label: str,
        opening: frames.Open,
        in_turn: bool = False,
    ) -> None:
        self._coordinator = coordinator
        self.places: dict[int, frames.Place] = {}  # of the shards that were leased and are not yet forgotten
        self.picks: dict[int, bytes] = {}  # the same, in a session of records by weight
        self.bypassed: set[int] = set()  # of these, those that are to be read past the cache
        self.missing: set[int] = set()  # those that stood on no node's disk
        self.ack_within_s = ACK_WITHIN_S
        self.joined = False  # the coordinator knows the reader: it must be told when it leaves
        self._request = pb.OpenReaderRequest(
            session_id=opening.session_id, reader_id=opening.reader_id, node_id=node[0], incarnation=node[1],
            label=label, digest_id=opening.digest_id, job=opening.job, session_key=opening.session_key,
            seed=opening.wish.seed, homogeneous=opening.wish.homogeneous, order=order_of(opening.wish),
            in_turn=in_turn,
            knows_draws=True,
            knows_picks=True,
            most_draws=MOST_DRAWS,
        )  # fmt: skip

    def report(self, frame: frames.Report, hit_bytes: int, missed_bytes: int) -> pb.ReaderReport:
        return pb.ReaderReport(
            session_id=self._request.session_id, reader_id=self._request.reader_id, records=frame.records,
            bytes=frame.size_bytes, waited_us=frame.waited_us, elapsed_us=frame.elapsed_us, hit_bytes=hit_bytes,
            missed_bytes=missed_bytes,
        )  # fmt: skip

    async def open(self, done_bitmap: bytes, held: Iterable[int]) -> pb.OpenReaderReply:
        self._request.done_bitmap = done_bitmap
        self._request.held[:] = held
        reply = await self._coordinator.open_reader(self._request)
        self.joined = True
        self._request.session_id = reply.session_id
        self._request.done_bitmap = b""
        del self._request.held[:]
        return reply

    async def open_again(self, held: Iterable[int]) -> Sequence[int]:
        """Those of `held` that are no longer this reader's."""
        self._request.held[:] = held
        self._request.has_drawn = True
        reply = await self._coordinator.open_reader(self._request)
        return list(reply.dropped)

    async def lease(self, order: Lease) -> tuple[LeaseState, list[tuple[int, str]]]:
        """(shard, owner) of each; what the order acknowledges is durable then.

        Raises NotFoundError when the reader has to be opened again.
        """
        request = pb.LeaseRequest(
            session_id=self._request.session_id, reader_id=self._request.reader_id, sequence=order.sequence,
            max_shards=order.max_shards, max_bytes=order.max_bytes, wait_ms=order.wait_ms, draining=order.draining,
            wanted=order.wanted, acked=order.acked,
        )  # fmt: skip
        reply = await self._coordinator.lease(request)
        if order.acked and not reply.acks_durable:
            await self.ack(order.acked, presumed=False)
        self.ack_within_s = ack_within_s(reply)
        if reply.state not in _STATES:
            raise errors.ProtocolError(f"the coordinator's LeaseReply has state {reply.state}")
        self.bypassed.difference_update(lease.shard for lease in reply.leases)
        self.bypassed.update(lease.shard for lease in reply.leases if lease.bypass)
        self.missing.difference_update(lease.shard for lease in reply.leases)
        self.missing.update(lease.shard for lease in reply.leases if not lease.resident)
        placed = [lease for lease in reply.leases if lease.unit or lease.HasField("block")]
        blocks = Counter(lease.block.position for lease in placed if lease.block.records)
        for lease in placed:
            block = lease.block
            shards = blocks[block.position] if block.records else 0
            self.places[lease.shard] = frames.Place(lease.unit, block.position, block.offset, block.records, shards)
        return _STATES[reply.state], [(lease.shard, lease.owner) for lease in reply.leases]

    async def pick(self, draws: Iterable[int], pick_bytes: Callable[[int], int]) -> None:
        """Asks which records these draws are of. `pick_bytes`: that say it of one.

        Raises NotFoundError when the reader has to be opened again.
        """
        group, room = list[int](), _PICKS_BYTES
        for draw in draws:
            room -= pick_bytes(draw)
            if group and room < 0:
                await self._pick(group, pick_bytes)
                group, room = [], _PICKS_BYTES - pick_bytes(draw)
            group.append(draw)
        if group:
            await self._pick(group, pick_bytes)

    async def _pick(self, draws: list[int], pick_bytes: Callable[[int], int]) -> None:
        reply = await self._coordinator.pick_records(
            pb.PickRecordsRequest(session_id=self._request.session_id, draws=draws)
        )
        if [len(picks) for picks in reply.picks] != [pick_bytes(draw) for draw in draws]:
            raise errors.ProtocolError("the coordinator's PickRecordsReply does not fit what it was asked for")
        self.picks.update(zip(draws, reply.picks, strict=True))

    def forget(self, shards: Iterable[int]) -> None:
        for shard in shards if self.picks else ():
            self.picks.pop(shard, None)
        for shard in shards if self.places else ():
            self.places.pop(shard, None)
        self.bypassed.difference_update(shards)
        self.missing.difference_update(shards)

    async def ack(self, shards: Sequence[int], presumed: bool) -> None:
        """`presumed`: as in AckRequest. Raises NotFoundError when the reader has to be opened again."""
        await self._coordinator.ack(
            pb.AckRequest(
                session_id=self._request.session_id,
                reader_id=self._request.reader_id,
                shards=shards,
                presumed=presumed,
            )
        )

    async def close(self, complete: bool) -> None:
        session_id, reader_id = self._request.session_id, self._request.reader_id
        await self._coordinator.close_reader(
            pb.CloseReaderRequest(session_id=session_id, reader_id=reader_id, complete=complete)
        )
