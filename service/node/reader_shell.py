"""Carries out what reader_session decides for one reader: coordinator calls, fetches, frames on the socket."""

from __future__ import annotations

import asyncio
import functools
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from absl import logging

from tfquiver import errors
from tfquiver.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node import frames, reader_session
from tfquiver.service.node.frame_socket import FrameSocket

ACK_DELAY_S = 0.02
MAX_HELD = 1 << 20
MAX_BITMAP_BYTES = 4 << 20
_MIN_WAIT_S = 0.02  # between Leases that gave nothing, should the coordinator not wait itself
_STATES = {
    pb.LeaseReply.STATE_LEASED: reader_session.LeaseState.LEASED,
    pb.LeaseReply.STATE_WAIT: reader_session.LeaseState.WAIT,
    pb.LeaseReply.STATE_END: reader_session.LeaseState.END,
}


class ReadyShard(Protocol):
    @property
    def kind(self) -> int: ...
    @property
    def fd(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def length_bytes(self) -> int: ...
    @property
    def crc32c(self) -> int: ...
    def close(self) -> None: ...


class Source(Protocol):
    async def get(self, digest: Digest, index: int, owner: str) -> ReadyShard: ...
    async def drop(self, hash: bytes, reason: str) -> None: ...


class Coordinator(Protocol):
    """What a reader asks of it. Calls are repeated until they succeed, fail for good, or it is lost for too long."""

    async def open_reader(self, request: pb.OpenReaderRequest) -> pb.OpenReaderReply: ...
    async def lease(self, request: pb.LeaseRequest) -> pb.LeaseReply: ...
    async def ack(self, request: pb.AckRequest) -> None: ...
    async def close_reader(self, request: pb.CloseReaderRequest) -> None: ...


class Reader:
    """One reader's connection, from HELLO on. Lives on the loop; `finish` or the peer ends it."""

    def __init__(
        self,
        label: str,
        coordinator: Coordinator,
        source: Source,
        digests: Callable[[bytes], Awaitable[Digest]],
        claim: Callable[[str, Reader], Awaitable[None]],
        node: tuple[str, str],
        limits: reader_session.Limits,
    ) -> None:
        self.label, self._coordinator, self._source, self._digests = label, coordinator, source, digests
        self._claim, self._node, self._limits = claim, node, limits
        self.socket: FrameSocket  # set by the server, which makes the two for each other
        self.reader_id = ""
        self.served_bytes = 0
        self._session: reader_session.ReaderSession | None = None
        self._request: pb.OpenReaderRequest | None = None
        self._digest: Digest
        self._held: list[int] = []
        self._ready: dict[int, ReadyShard] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lease_task: asyncio.Task[None] | None = None
        self._ack_timer: asyncio.TimerHandle | None = None
        self._ack_done = asyncio.Event()
        self._ack_error: errors.TfquiverError | None = None
        self._opening: asyncio.Task[None] | None = None
        self._joined = False
        self._reopening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    # From the socket.

    def on_frame(self, frame: frames.Frame, descriptors: list[int]) -> None:
        """Raises ProtocolError on a frame that does not belong here."""
        try:
            if isinstance(frame, frames.Open) and self._request is None:
                self._on_open(frame, descriptors)
                return
            if descriptors:
                raise errors.ProtocolError(f"{type(frame).__name__} frame: it came with a descriptor")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        match frame:
            case frames.Ping():
                return
            case frames.Held() if self._request is None:
                self._held += frame.shards
                if len(self._held) > MAX_HELD:
                    raise errors.ProtocolError(f"HELD frames with more than {MAX_HELD} shards")
            case frames.Close():
                self.finish(frame.complete)
            case frames.Credit() if self._session:
                self._apply(self._session.credit(frame.credit_bytes))
            case frames.Ack() if self._session:
                self._apply(self._session.ack(frame.shards))
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
        for task in (self._lease_task, *self._fetches.values()):
            if task:
                task.cancel()
        if self._ack_timer:
            self._ack_timer.cancel()
        for shard in self._ready.values():
            shard.close()
        self._ready.clear()
        try:
            if self._opening:  # to be closed it must have been opened
                await asyncio.wait([self._opening])
            if self._session:
                await self._settle_acks(self._session)
            if self._joined and self._request:
                session_id, reader_id = self._request.session_id, self.reader_id
                await self._coordinator.close_reader(
                    pb.CloseReaderRequest(session_id=session_id, reader_id=reader_id, complete=complete)
                )
        except errors.TfquiverError as error:
            logging.warning("reader %s: closing it: %s", self.reader_id, error)
        finally:
            for task in self._tasks:
                task.cancel()
            self.socket.bid_farewell(None)

    async def _settle_acks(self, session: reader_session.ReaderSession) -> None:
        self._flush_acks()
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
        node_id, incarnation = self._node
        self.reader_id = frame.reader_id
        self._request = pb.OpenReaderRequest(
            session_id=frame.session_id, reader_id=frame.reader_id, node_id=node_id, incarnation=incarnation,
            label=self.label, digest_id=frame.digest_id, job=frame.job, session_key=frame.session_key,
            held=self._held, seed=frame.seed,
        )  # fmt: skip
        self._opening = self._spawn(self._open(frame.credit_bytes, state))

    async def _open(self, credit_bytes: int, state: int) -> None:
        request = self._request
        assert request is not None
        if state >= 0:
            request.done_bitmap = await asyncio.to_thread(_read_state, state)
        await self._claim(self.reader_id, self)
        self._digest = await self._digests(request.digest_id)
        reply = await self._coordinator.open_reader(request)
        self._joined = True
        request.session_id = reply.session_id
        request.done_bitmap = b""
        if self._closing:
            return
        if reply.shards != self._digest.num_shards:
            raise errors.ProtocolError(f"{reply.shards} shards in the session, {self._digest.num_shards} in the digest")
        self._session = reader_session.ReaderSession(
            self._digest.lengths, credit_bytes, functools.partial(_shard_name, self._digest), self._limits
        )
        self.socket.send(frames.Opened(reply.session_id, reply.epoch, reply.shards, reply.records))
        self._apply(self._session.opened(self._held, reply.dropped))

    def _reopen(self) -> asyncio.Task[None]:
        if self._reopening is None or self._reopening.done():
            self._reopening = self._spawn(self._open_again())
        return self._reopening

    async def _open_again(self) -> None:
        assert self._session is not None and self._request is not None
        request = pb.OpenReaderRequest()
        request.CopyFrom(self._request)
        if self._lease_task:
            self._lease_task.cancel()
        request.held[:] = self._session.reopening()
        reply = await self._coordinator.open_reader(request)
        self._apply(self._session.reopened(reply.dropped))

    # Instructions.

    def _apply(self, instructions: Iterable[reader_session.Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case reader_session.Send():
                    self._send(instruction.shard)
                case reader_session.Fetch():
                    if not self._closing:
                        self._fetches[instruction.shard] = self._spawn(self._fetch(instruction))
                case reader_session.Lease():
                    if self._lease_task:
                        self._lease_task.cancel()
                    if not self._closing:
                        self._lease_task = self._spawn(self._lease(instruction))
                case reader_session.AcksWaiting():
                    if self._closing:
                        self._flush_acks()
                    elif self._ack_timer is None:
                        self._ack_timer = asyncio.get_running_loop().call_later(ACK_DELAY_S, self._flush_acks)
                case reader_session.SendAcks():
                    self._spawn(self._ack(instruction.shards))
                case reader_session.Discard():
                    if task := self._fetches.pop(instruction.shard, None):
                        task.cancel()
                    if ready := self._ready.pop(instruction.shard, None):
                        ready.close()
                case reader_session.SendDropped():
                    for part in _parts(instruction.shards, frames.MAX_INDEXES):
                        self.socket.send(frames.Dropped(part))
                case reader_session.SendEnd():
                    self.socket.send(frames.End())
                case reader_session.Tell():
                    self.tell(instruction.error, instruction.fatal)

    def _send(self, shard: int) -> None:
        ready = self._ready.pop(shard)
        self.served_bytes += ready.length_bytes
        frame = frames.Shard(
            shard, ready.kind, ready.offset, ready.length_bytes, ready.crc32c, int(self._digest.records[shard])
        )
        self.socket.send(frame, ready.fd)

    async def _fetch(self, order: reader_session.Fetch) -> None:
        session, shard = self._session, order.shard
        assert session is not None
        try:
            if order.after_s:
                await asyncio.sleep(order.after_s)
            if order.drop_first:
                await self._source.drop(self._digest.hashes[shard].tobytes(), f"reader {self.reader_id} found it bad")
            ready = await self._source.get(self._digest, shard, order.owner)
        except errors.TfquiverError as error:
            self._fetches.pop(shard, None)
            self._apply(session.fetch_failed(shard, error, self._now()))
            return
        except OSError as error:  # descriptors or memory run out: others will give theirs back
            self._fetches.pop(shard, None)
            trouble = errors.ResourceExhaustedError(f"{_shard_name(self._digest, shard)}: {error}")
            self._apply(session.fetch_failed(shard, trouble, self._now()))
            return
        self._fetches.pop(shard, None)
        if self._closing:
            ready.close()
            return
        self._ready[shard] = ready
        self._apply(session.fetched(shard))

    async def _lease(self, order: reader_session.Lease) -> None:
        assert self._session is not None and self._request is not None
        request = pb.LeaseRequest(
            session_id=self._request.session_id, reader_id=self.reader_id, sequence=order.sequence,
            max_shards=order.max_shards, max_bytes=order.max_bytes, wait_ms=order.wait_ms, draining=order.draining,
        )  # fmt: skip
        earliest_s = self._now() + _MIN_WAIT_S
        try:
            reply = await self._coordinator.lease(request)
        except errors.NotFoundError:
            self._reopen()  # the session repeats this Lease after that
            return
        state = _STATES.get(reply.state)
        if state is None:
            raise errors.ProtocolError(f"the coordinator's LeaseReply has state {reply.state}")
        if state is reader_session.LeaseState.WAIT:
            await asyncio.sleep(max(earliest_s - self._now(), 0))
        self._lease_task = None
        self._apply(self._session.leased(state, [(x.shard, x.owner) for x in reply.leases], self._now()))

    def _flush_acks(self) -> None:
        self._ack_timer = None
        if self._session:
            self._apply(self._session.flush_acks())

    async def _ack(self, shards: Sequence[int]) -> None:
        assert self._session is not None and self._request is not None
        request = pb.AckRequest(session_id=self._request.session_id, reader_id=self.reader_id, shards=shards)
        try:
            try:
                await self._coordinator.ack(request)
            except errors.NotFoundError:
                await asyncio.wait([self._reopen()])
                await self._coordinator.ack(request)
            self._apply(self._session.acks_durable())
        except errors.TfquiverError as error:
            self._ack_error = error
            raise
        finally:
            self._ack_done.set()

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except errors.TfquiverError as error:
            self.tell(error, fatal=True)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - one reader's trouble must not end the others
            logging.exception("reader %s", self.reader_id)
            self.tell(errors.TfquiverError(f"the node failed: {type(error).__name__}: {error}"), fatal=True)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _shard_name(digest: Digest, shard: int) -> str:
    ref = digest.shard(shard)
    return f"shard {shard} ({ref.file.uri} at {ref.offset}, {ref.length_bytes} bytes)"


def _parts(shards: Sequence[int], size: int) -> Iterable[tuple[int, ...]]:
    return (tuple(shards[at : at + size]) for at in range(0, len(shards), size))


def _read_state(descriptor: int) -> bytes:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BITMAP_BYTES:
            raise errors.ProtocolError(
                f"Open frame: the state is not a memory file of at most {MAX_BITMAP_BYTES} bytes"
            )
        return os.pread(descriptor, status.st_size, 0)
    finally:
        os.close(descriptor)
