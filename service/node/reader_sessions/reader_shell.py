"""Carries out what reader_session decides for one reader: coordinator calls, fetches, frames on the socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from absl import logging

from tfquiver import errors
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.logs import about
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats.drawn_shards import KEY_MARK, MOST_DRAWS, drawn_shards
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.metrics.instruments import STALL
from tfquiver.service.node.reader_sessions import instructions
from tfquiver.service.node.reader_sessions.ack_timer import AckTimer
from tfquiver.service.node.reader_sessions.held_shards import HeldShards
from tfquiver.service.node.reader_sessions.numbered_shards import NumberedShards
from tfquiver.service.node.reader_sessions.reader_calls import Coordinator, ReaderCalls
from tfquiver.service.node.reader_sessions.reader_session import ReaderLimits, ReaderSession
from tfquiver.service.node.reader_sessions.reader_stalls import ReaderStalls
from tfquiver.service.node.reader_sessions.shard_fetches import ShardFetches
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.service.node.unix_socket_clients.frame_socket import FrameSocket, want_no_descriptors
from tfquiver.service.tracing.shard_spans import ReaderSpans, ShardSpans
from tfquiver.sizes_durations_amounts.amounts import many

REPORT_MS = 1000
MAX_BITMAP_BYTES = 4 << 20
_MIN_WAIT_S = 0.02  # between Leases that gave nothing, should the coordinator not wait itself


class ReaderShell:
    """One reader's connection, from HELLO on. Lives on the loop; `finish` or the peer ends it."""

    def __init__(
        self,
        label: str,
        coordinator: Coordinator,
        source: ShardSource,
        digests: Callable[[bytes], Awaitable[Digest]],
        claim: Callable[[str, ReaderShell], Awaitable[None]],
        node: tuple[str, str],
        limits: ReaderLimits,
        heard: Callable[[pb.ReaderReport], None] = lambda report: None,
        in_turn: bool = False,
        spans: ShardSpans | None = None,
    ) -> None:
        """`in_turn`: as in OpenReaderRequest."""
        self.label, self._coordinator, self._source, self._digests = label, coordinator, source, digests
        self._claim, self._node, self._limits, self._heard = claim, node, limits, heard
        self._in_turn, self._spans = in_turn, spans
        self._traced: ReaderSpans | None = None
        self._stalls = ReaderStalls(STALL.observe, self._now)
        self.socket: FrameSocket  # set by the server, which makes the two for each other
        self.reader_id = ""
        self.served_bytes = self._missed_bytes = 0
        self._calls: ReaderCalls | None = None
        self._about = about()
        self._session: ReaderSession | None = None
        self._fetches: ShardFetches | None = None
        self._shards: NumberedShards
        self._held = HeldShards()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening: asyncio.Task[None] | None = None
        self._lease_task: asyncio.Task[None] | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._ack_timer = AckTimer(self._flush_acks, self._now, lambda s, call: loop.call_later(s, call).cancel)
        self._ack_done = asyncio.Event()
        self._ack_error: errors.TfquiverError | None = None
        self._answered = False  # its first PING
        self._leaving = False  # acknowledgements are presumptions from here on

    def heartbeat_goes(self, next_s: float) -> None:
        self._ack_timer.heartbeat_goes(next_s)

    # From the socket.

    def on_frame(self, frame: frames.Frame, descriptors: list[int]) -> None:
        """Raises ProtocolError on a frame that does not belong here."""
        if isinstance(frame, frames.Open) and self._calls is None:
            try:
                self._on_open(frame, descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            return
        want_no_descriptors(frame, descriptors)
        match frame:
            case frames.Ping() if self._answered and self.socket.blocked:
                return  # who asks on and takes no answers does not fill memory with them
            case frames.Ping():
                self._answered = True
                self.socket.send(frames.Pong(REPORT_MS))
            case frames.Report() if self._calls and self._calls.joined:
                self._stalls.heard(frame)
                self._heard(self._calls.report(frame, self.served_bytes - self._missed_bytes, self._missed_bytes))
            case frames.Held() if self._calls is None:
                self._held.add(frame.shards)
            case frames.Close():
                self.finish(frame.complete)
            case frames.Credit() | frames.Want() | frames.Draining() | frames.Bad() if self._closing:
                return  # nothing is sent any more; acknowledgements still count
            case frames.Credit() if self._session:
                self._apply(self._session.credit(frame.credit_bytes))
            case frames.Leaving() if self._session:
                self._leaving = self._session.leaving = True
            case frames.Ack() if self._session and self._calls:
                self._calls.forget(frame.shards)
                if self._traced:
                    self._traced.acked(frame.shards)
                self._apply(self._session.ack(frame.shards))
            case frames.Want() if self._session:
                self._apply(self._session.want(frame.shards))
            case frames.Draining() if self._session:
                self._apply(self._session.draining(frame.shards_received))
            case frames.Bad() if self._session:
                self._apply(self._session.bad(frame.shard, self._now()))
            case _:
                raise errors.ProtocolError(f"{type(frame).__name__} frame: not expected from a reader here")

    def on_gone(self) -> None:
        self.finish(complete=False)

    def on_blocked(self, blocked: bool) -> None:
        if self._session and not self._closing:
            self._apply(self._session.blocked(blocked))

    # From the server.

    def tell(self, error: errors.TfquiverError, fatal: bool) -> None:
        if fatal:
            self.socket.bid_farewell(frames.error(error, fatal=True))
            self.finish(complete=False)
        else:
            self.socket.send(frames.error(error, fatal=False))

    def coordinator_is_new(self) -> None:
        if self._session and not self._closing:
            self._reopen()

    def finish(self, complete: bool) -> asyncio.Task[None]:
        """Stops everything, then tells the coordinator; the task ends when that is done."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._finish(complete))
        return self._closing

    async def _finish(self, complete: bool) -> None:
        if self._lease_task:
            self._lease_task.cancel()
        if self._session:
            self._session.lease_given_up()
        if self._fetches:
            self._fetches.close()
        try:
            if self._opening:  # to be closed it must have been opened
                await asyncio.wait([self._opening])
            if self._session:
                await self._settle_acks(self._session)
            if self._calls and self._calls.joined:
                await self._close(self._calls, complete)
        except errors.TfquiverError as error:
            logging.warning("reader %s: closing it: %s", self.reader_id, error, extra=self._about)
        finally:
            self._stalls.gone()
            if self._traced:
                self._traced.gone(complete)
            for task in self._tasks:
                task.cancel()
            self.socket.bid_farewell(None)

    async def _close(self, calls: ReaderCalls, complete: bool) -> None:
        if not complete:
            await self._give_back(calls)
        try:
            await calls.close(complete)
        except errors.NotFoundError:  # the coordinator is new: it has to know what was held before it can believe this
            await asyncio.wait([self._reopen()])
            await calls.close(complete)

    async def _give_back(self, calls: ReaderCalls) -> None:
        """What was leased ahead and never sent: of all else that goes back the coordinator has to think, and says, that
        it may be read twice."""
        session = self._session
        if session is None or len(given := session.given()) == len(session.held()):
            return
        with contextlib.suppress(errors.TfquiverError):  # then that of all of it
            await calls.open_again(given)

    async def _settle_acks(self, session: ReaderSession) -> None:
        self._ack_timer.end()
        while session.acks_unsettled():
            self._ack_done.clear()
            await self._ack_done.wait()
            if self._ack_error:
                raise self._ack_error

    # Opening.

    def _on_open(self, frame: frames.Open, descriptors: list[int]) -> None:
        if not frame.reader_id:
            raise errors.ProtocolError("Open frame: reader_id is empty")
        if frame.has_state != (len(descriptors) == 1):
            raise errors.ProtocolError("Open frame: one descriptor comes with it exactly when has_state is 1")
        state = os.dup(descriptors[0]) if frame.has_state else -1
        self.reader_id = frame.reader_id
        self._about = about(job=frame.job, digest=frame.digest_id)
        self._calls = ReaderCalls(self._coordinator, self._node, self.label, frame, self._in_turn)
        self._opening = self._spawn(self._open(self._calls, frame, state))

    async def _open(self, calls: ReaderCalls, frame: frames.Open, state: int) -> None:
        done_bitmap = await asyncio.to_thread(_read_state, state) if state >= 0 else b""
        await self._claim(self.reader_id, self)
        digest = await self._digests(frame.digest_id)
        if digest.format != formats.TFRECORD:
            raise errors.InvalidArgumentError(
                f"this data set has format {digest.format}: it has no records to read; `tfquiver mount` shows its files"
            )
        held = self._held.take(MOST_DRAWS if KEY_MARK in frame.session_key else digest.num_shards)
        reply = await calls.open(done_bitmap, held)
        drawn = None
        if reply.HasField("drawn"):  # of millions it takes a while
            drawn = await asyncio.to_thread(drawn_shards, reply.drawn, digest.num_shards)
        self._shards = shards = NumberedShards(digest, drawn)
        if reply.shards != shards.count:
            raise errors.ProtocolError(f"{many(reply.shards, 'shard')} in the session, {shards.count} in the digest")
        if self._closing:
            return
        self._session = session = ReaderSession(
            shards.lengths, frame.credit_bytes, shards.name, self._limits,
            ordered=frame.wish.order != frames.ORDER_ANY, wanting=frame.wish.order == frames.ORDER_WANTED,
        )  # fmt: skip
        if self._spans:
            self._traced = self._spans.reader(frame.job or self.label, shards.name)
        self._fetches = ShardFetches(
            self._source,
            shards,
            lambda shard: self._apply(session.fetched(shard)),
            lambda shard, error: self._apply(session.fetch_failed(shard, error, self._now())),
            frame.job,
            self._know_picks,
        )
        self.socket.send(frames.Opened(reply.session_id, reply.epoch, reply.shards, reply.records))
        self._apply(session.opened(held, reply.dropped))

    def _reopen(self) -> asyncio.Task[None]:
        if self._reopening is None or self._reopening.done():
            self._reopening = self._spawn(self._open_again())
        return self._reopening

    async def _open_again(self) -> None:
        assert self._session and self._calls
        if self._lease_task:
            self._lease_task.cancel()
        dropped = await self._calls.open_again(self._session.reopening())
        self._calls.forget(dropped)
        self._apply(self._session.reopened(dropped))

    # Instructions.

    def _apply(self, ordered: Iterable[instructions.Instruction]) -> None:
        fetches, calls = self._fetches, self._calls
        assert fetches and calls
        for instruction in ordered:
            match instruction:
                case instructions.Send():
                    self._send(instruction.shard)
                case instructions.Fetch():
                    shard = instruction.shard
                    fetches.start(instruction, bypass=shard in calls.bypassed, missing=shard in calls.missing)
                case instructions.Lease():
                    self._start_lease(instruction)
                case instructions.AcksWaiting():
                    self._flush_acks_soon()
                case instructions.SendAcks():
                    self._spawn(self._ack(instruction.shards))
                case instructions.Discard():
                    fetches.discard(instruction.shard)
                case instructions.SendDropped():
                    for at in range(0, len(instruction.shards), frames.MAX_INDEXES):
                        self.socket.send(frames.Dropped(tuple(instruction.shards[at : at + frames.MAX_INDEXES])))
                case instructions.SendEnd():
                    self.socket.send(frames.End())
                case instructions.Tell():
                    self.tell(instruction.error, instruction.fatal)

    def _send(self, shard: int) -> None:
        assert self._fetches and self._calls
        picks = self._calls.picks.get(shard, b"")
        if len(picks) != self._shards.pick_bytes(shard):  # the reader would emit all of its records
            what = f"{self._shards.name(shard)}: which of its records draw {shard} is of is not known here"
            self.tell(errors.ProtocolError(what), fatal=True)
            return
        ready = self._fetches.take(shard)
        self.served_bytes += ready.length_bytes
        self._missed_bytes += ready.length_bytes if ready.left_the_store else 0
        if self._traced:
            self._traced.sent(shard, ready.source, ready.length_bytes)
        records = self._shards.records(shard)
        place = self._calls.places.get(shard, frames.NO_PLACE)
        for part in frames.picks_of(shard, picks):
            self.socket.send(part)
        frame = frames.Shard(shard, ready.kind, ready.offset, ready.length_bytes, ready.crc32c, records, place)
        self.socket.send(frame, ready.fd)

    async def _know_picks(self, shard: int) -> None:
        """Of a shard that its reader held when it came, and that is sent again: of all that it held they may be
        gigabytes. Raises TfquiverError."""
        assert self._calls
        try:
            if self._shards.picks and shard not in self._calls.picks:
                await self._calls.pick([shard], self._shards.pick_bytes)
        except errors.NotFoundError as error:
            self._reopen()
            raise errors.UnavailableError(f"{self._shards.name(shard)}: {error}") from error

    def _start_lease(self, order: instructions.Lease) -> None:
        if self._lease_task:
            self._lease_task.cancel()
        if not self._closing:
            self._lease_task = self._spawn(self._lease(order))

    async def _lease(self, order: instructions.Lease) -> None:
        assert self._session and self._calls
        earliest_s = self._now() + _MIN_WAIT_S
        asked_ns = self._traced.now_ns() if self._traced else 0
        try:
            state, leases = await self._calls.lease(order)
            if self._shards.picks:
                await self._calls.pick((shard for shard, _ in leases), self._shards.pick_bytes)
        except errors.NotFoundError:
            self._reopen()  # the session repeats this Lease after that
            return
        if state is instructions.LeaseState.WAIT:
            await asyncio.sleep(max(earliest_s - self._now(), 0))
        self._lease_task = None
        if self._traced:
            self._traced.leased((shard for shard, _ in leases), asked_ns)
        self._apply(self._session.leased(state, leases, self._now()))

    def _flush_acks_soon(self) -> None:
        if self._closing:
            self._flush_acks()
        elif self._calls:
            self._ack_timer.begin(self._calls.ack_within_s)

    def _flush_acks(self) -> None:
        if self._session:
            self._apply(self._session.flush_acks())

    async def _ack(self, shards: Sequence[int]) -> None:
        assert self._session and self._calls
        try:
            try:
                await self._calls.ack(shards, self._leaving)
            except errors.NotFoundError:
                await asyncio.wait([self._reopen()])
                await self._calls.ack(shards, self._leaving)
            self._apply(self._session.acks_durable())
        except errors.TfquiverError as error:
            self._ack_error = error
            raise
        finally:
            self._ack_done.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, errors.TfquiverError):
            self.tell(error, fatal=True)
        elif error is not None:  # one reader's trouble must not end the others
            logging.error("reader %s", self.reader_id, exc_info=error, extra=self._about)
            self.tell(errors.TfquiverError(f"the node failed: {type(error).__name__}: {error}"), fatal=True)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _read_state(descriptor: int) -> bytes:
    try:
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes > MAX_BITMAP_BYTES:
            raise errors.ProtocolError(f"Open frame: the state is larger than {MAX_BITMAP_BYTES} bytes")
        return os.pread(descriptor, size_bytes, 0)
    finally:
        os.close(descriptor)
