"""Weights of records that are being sent: those that many send at once come once, and all together are bounded."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats import record_weights
from tfquiver.messages_and_binary_formats.record_weights import Header, RecordWeights
from tfquiver.sizes_durations_amounts.amounts import many

_COMING_BYTES = 2 * record_weights.MOST_BYTES
_PATIENCE_S, _SLOWEST_BYTES_PER_S = 10.0, 1 << 20  # who is slower is not waited for by others who have the same
_WHERE = "the weights that were sent"


class _Upload:
    """`over` is set when it is kept, or given up."""

    def __init__(self, sending: asyncio.Timeout) -> None:
        self.over = asyncio.Event()
        self.received_bytes = 0
        self.refusal: errors.ResourceExhaustedError | None = None  # what others would be told, too, had they sent all
        self.ended = False
        self._sending = sending
        self.begin()

    def begin(self) -> None:
        """From now on its sender is waited for."""
        self._began_s = asyncio.get_running_loop().time()

    def wait(self) -> None:
        """Not its sender is waited for now."""
        self._began_s = math.inf

    @property
    def late_at_s(self) -> float:
        return self._began_s + _PATIENCE_S + self.received_bytes / _SLOWEST_BYTES_PER_S

    def end(self) -> None:
        """Ends its sending: others want the room."""
        self.ended = True
        self._sending.reschedule(0.0)


class ComingWeights:
    """Lives on one loop. What weights are is known from their first bytes: all ranks of a job send the same, and one of
    them is read. The others wait for that, and one of them sends when it fails or is slow."""

    def __init__(
        self,
        find: Callable[[bytes], Awaitable[RecordWeights | None]],
        keep: Callable[[RecordWeights, memoryview], Awaitable[None]],
        check_room: Callable[[int], object],
    ) -> None:
        """`find`: those that are here already; `keep`: makes them durable; `check_room` raises ResourceExhaustedError
        where so many bytes could not be kept."""
        self._find, self._keep, self._check_room = find, keep, check_room
        self._uploads: dict[bytes, _Upload] = {}  # the one that others wait for
        self._sent: set[_Upload] = set()  # not over
        self._keeping: set[asyncio.Task[RecordWeights]] = set()
        self._coming_bytes = 0  # of all, for as long as there is memory for them

    async def put(self, parts: AsyncIterator[bytes], digest: Digest) -> RecordWeights:
        """Those of this data set, kept. Raises InvalidArgumentError, ResourceExhaustedError; UnavailableError: too many
        are coming, or it was too slow for that."""
        sending = asyncio.timeout(None)
        upload = _Upload(sending)
        self._sent.add(upload)
        try:
            async with sending:
                start = await self._start(parts, upload)
                header = _header_for(bytes(start[: record_weights.HEADER_BYTES]), digest)
                if (found := await self._joined(header.weights_id, upload)) is not None:
                    self._over(upload)
                    return found
                with _told_to_others(upload):
                    self._check_room(header.all_bytes)
                data = await self._received(start, parts, upload, header)
        except BaseException as error:
            self._over(upload)
            if isinstance(error, TimeoutError) and sending.expired():
                raise _too_slow() from error
            raise
        upload.wait()
        # Also when whoever sends has left: the thread would still have the bytes, and others wait for them.
        keeping = asyncio.get_running_loop().create_task(self._kept(data, upload))
        self._keeping.add(keeping)
        keeping.add_done_callback(lambda done: self._done(done, upload))
        del data
        return await asyncio.shield(keeping)

    async def _start(self, parts: AsyncIterator[bytes], upload: _Upload) -> bytearray:
        start = bytearray()
        async for part in parts:
            self._count(upload, len(part))
            start += part
            if len(start) >= record_weights.HEADER_BYTES:
                break
        return start

    async def _joined(self, weights_id: bytes, upload: _Upload) -> RecordWeights | None:
        """None: this upload is the one that is read. Raises what the one before was refused with."""
        loop = asyncio.get_running_loop()
        upload.wait()
        while True:
            first = self._uploads.get(weights_id)
            if first is None or loop.time() >= (late_at_s := first.late_at_s):
                upload.begin()  # all others' patience, too: each of them would find it late otherwise, and send as well
                self._uploads[weights_id] = upload  # at once: others come while this one looks
                return await self._find(weights_id)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(late_at_s):
                    await first.over.wait()
            if first.over.is_set() and (found := await self._find(weights_id)) is not None:
                return found
            if first.refusal:
                raise errors.ResourceExhaustedError(str(first.refusal)) from first.refusal

    async def _received(
        self, start: bytearray, parts: AsyncIterator[bytes], upload: _Upload, header: Header
    ) -> npt.NDArray[np.uint8]:
        data = np.empty(header.all_bytes, np.uint8)  # takes memory as it is filled
        filled = _put(data, 0, start)
        start.clear()
        async for part in parts:
            self._count(upload, len(part))
            filled = _put(data, filled, part)
        return data[:filled]

    async def _kept(self, data: npt.NDArray[np.uint8], upload: _Upload) -> RecordWeights:
        try:
            weights = await asyncio.to_thread(record_weights.decoded, data, _WHERE)
        except errors.DataLossError as error:
            raise errors.InvalidArgumentError(f"part: {error}") from error
        with _told_to_others(upload):
            await self._keep(weights, data.data)
        return weights

    def _count(self, upload: _Upload, size_bytes: int) -> None:
        if upload.ended:
            raise _too_slow()
        upload.received_bytes += size_bytes
        self._coming_bytes += size_bytes
        if self._coming_bytes > _COMING_BYTES:
            self._end_late(but=upload)
        if self._coming_bytes > _COMING_BYTES:
            raise errors.UnavailableError("too many weights are being sent: try again later")

    def _end_late(self, but: _Upload) -> None:
        """Until there is room. What they have brought goes as soon as the loop comes to them."""
        now_s = asyncio.get_running_loop().time()
        for upload in sorted(self._sent - {but}, key=lambda one: one.late_at_s):
            if self._coming_bytes <= _COMING_BYTES or upload.late_at_s > now_s:
                return
            upload.end()
            self._sent.discard(upload)
            self._coming_bytes -= upload.received_bytes
            upload.received_bytes = 0

    def _done(self, keeping: asyncio.Task[RecordWeights], upload: _Upload) -> None:
        self._keeping.discard(keeping)
        if not keeping.cancelled():
            keeping.exception()  # whoever sent them may have left
        self._over(upload)

    def _over(self, upload: _Upload) -> None:
        self._sent.discard(upload)
        self._coming_bytes -= upload.received_bytes
        self._uploads = {key: one for key, one in self._uploads.items() if one is not upload}
        upload.over.set()


@contextlib.contextmanager
def _told_to_others(upload: _Upload) -> Iterator[None]:
    try:
        yield
    except errors.ResourceExhaustedError as error:
        upload.refusal = error
        raise


def _too_slow() -> errors.UnavailableError:
    return errors.UnavailableError("the weights came slower than 1 MiB/s, and others needed the room: try again")


def _header_for(start: bytes, digest: Digest) -> Header:
    try:
        header = record_weights.read_header(start, _WHERE)
    except errors.DataLossError as error:
        raise errors.InvalidArgumentError(f"part: {error}") from error
    if header.content_root != digest.content_root or header.records != digest.num_records:
        raise errors.InvalidArgumentError(
            f"part: weights of {many(header.records, 'record')}, of other data than this data set has"
        )
    return header


def _put(data: npt.NDArray[np.uint8], at: int, part: bytes | bytearray) -> int:
    """Returns the end of what is there now."""
    end = at + len(part)
    if end > len(data):
        raise errors.InvalidArgumentError(f"part: more than {len(data)} bytes, which weights of that data set have")
    data[at:end] = np.frombuffer(part, np.uint8)
    return end
