"""The conversation with the node of this machine: GET out, GOT with a descriptor or FAILED in; again after a restart.

Needs trio. Lives on one trio loop; only `found` may be called from other threads.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio
from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats import frames_received
from tfquiver.messages_and_binary_formats import reader_frames as frames

MOST_ASKED = 128  # half of what a node takes
_HELLO_S = 10.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
# For a shard, where nothing was had for all the patience there is. The kernel has few reads of a mount under way at a
# time (12, where they come through its pages), and asks anew for what has failed: each would wait after the other.
_AFTER_S = 1.0
_PASSES = (errors.UnavailableError, errors.ResourceExhaustedError, errors.DeadlineError, errors.CancelledError_)


Answer = frames.Got | frames.These


@dataclass(slots=True)
class _Asked:
    frame: frames.Get | frames.Which
    answered: trio.Event = field(default_factory=trio.Event)
    outcome: tuple[Answer, int] | errors.TfquiverError | None = None


class NodeLine:
    """Args:
    digest: of all that is asked for.
    patience_s: how long a shard is asked for, over restarts of the node and failures that pass; a second, where nothing
      has come for so long already.
    known_again: asked where the node does not find something: whether to ask the node once more.
    is_told: whether what was connected to the path leads to the node that is meant (endpoints.is_told).
    """

    def __init__(
        self,
        digest: Digest,
        label: str,
        patience_s: float,
        known_again: Callable[[], Awaitable[bool]] | None = None,
        is_told: Callable[[str, trio.socket.SocketType], bool] = lambda path, sock: True,
    ) -> None:
        self._known_again, self._is_told = known_again, is_told
        self._digest, self._label, self._patience_s = digest, label, patience_s
        self._path = ""
        self._token: trio.lowlevel.TrioToken | None = None
        self._moved = trio.Event()
        self._sock: trio.socket.SocketType | None = None
        self._asked: dict[int, _Asked] = {}
        self._made = 0
        self._shown, self._show_at = -1, math.inf  # as what the node was told what is shown, and when it is again
        self._places = trio.CapacityLimiter(MOST_ASKED)
        self._sending = trio.Lock()
        self._said = False
        self._had_at, self._gives_nothing = -math.inf, False
        self.refuses: errors.PermissionError_ | None = None  # what is answered to all that is asked from now on

    def found(self, path: str) -> None:
        """Where the node's socket is from now on. For any thread."""
        self._path = path
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(lambda: self._moved.set())

    @property
    def gives_nothing(self) -> bool:
        """A shard had to be given up, and nothing has come since."""
        return self._gives_nothing

    def give_up_at(self) -> float:
        """Until when that is asked for which is wanted from now on."""
        return trio.current_time() + (min(_AFTER_S, self._patience_s) if self._gives_nothing else self._patience_s)

    async def get(self, shard: int, again: bool = False, give_up_at: float = math.inf) -> tuple[frames.Got, int]:
        """A shard, and the descriptor that it is in, which is the caller's. `again`: what came was damaged.

        Raises UnavailableError: the node stays away, or cannot have it for so long. StaleDigestError, DataLossError,
        NotFoundError, PermissionError_: as the node says.
        """
        hash = self._digest.hashes[shard].tobytes()
        answer, fd = await self._asked_until_answered(
            lambda request: frames.Get(request, self._digest.digest_id, shard, hash, again), give_up_at
        )
        assert isinstance(answer, frames.Got)
        return answer, fd

    async def resident(self) -> bytes:
        """Which shards are cached at the node, as ShardSource.resident says it. Raises UnavailableError and others."""
        _, fd = await self._asked_until_answered(lambda request: frames.Which(request, self._digest.digest_id))
        try:
            return os.pread(fd, -(-self._digest.num_shards // 8), 0)
        finally:
            os.close(fd)

    async def _asked_until_answered(
        self, frame_of: Callable[[int], frames.Get | frames.Which], give_up_at: float = math.inf
    ) -> tuple[Answer, int]:
        give_up_at, pause_s = min(give_up_at, self.give_up_at()), _PAUSE_S
        trouble: errors.TfquiverError = errors.UnavailableError(f"the node at {self._path} does not answer")
        while True:
            if self.refuses is not None:
                raise errors.PermissionError_(str(self.refuses))
            with trio.move_on_at(give_up_at):
                try:
                    return await self._ask(frame_of)
                except _PASSES as error:
                    trouble = error
                except errors.NotFoundError as error:
                    if self._known_again is None or not await self._known_again():
                        raise
                    trouble = error
                await trio.sleep(pause_s)
            if trio.current_time() >= give_up_at:
                self._gives_nothing = trio.current_time() - self._had_at >= self._patience_s
                raise errors.UnavailableError(f"{trouble} (for {self._patience_s:g} s)") from trouble
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def run(self) -> None:
        """Keeps the line up until it is cancelled."""
        self._token = trio.lowlevel.current_trio_token()
        pause_s = _PAUSE_S
        while True:
            try:
                await self._converse()
                pause_s = _PAUSE_S
            except (OSError, errors.ProtocolError, trio.TooSlowError) as error:
                if not self._said:
                    what = f"no WELCOME within {_HELLO_S:g} s" if isinstance(error, trio.TooSlowError) else error
                    logging.warning("the node at %s: %s; trying again", self._path, what)
                    self._said = True
            self._moved = trio.Event()
            with trio.move_on_after(pause_s):
                await self._moved.wait()
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _ask(self, frame_of: Callable[[int], frames.Get | frames.Which]) -> tuple[Answer, int]:
        async with self._places:
            self._made = (self._made + 1) & 0xFFFFFFFF
            number = self._made
            asked = self._asked[number] = _Asked(frame_of(number))
            try:
                await self._send(asked.frame)
                await asked.answered.wait()
            except BaseException:
                if isinstance(asked.outcome, tuple):  # it has come, and nobody will take it
                    os.close(asked.outcome[1])
                raise
            finally:
                self._asked.pop(number, None)
        if isinstance(asked.outcome, errors.TfquiverError):
            raise asked.outcome
        assert asked.outcome is not None
        return asked.outcome

    async def _send(self, frame: frames.Frame) -> None:
        """Into the void when the line is down: what is not answered is said again when it is up."""
        async with self._sending:
            if self._sock is not None:
                with contextlib.suppress(OSError):
                    await self._sock.send(frames.encode(frame))

    async def _converse(self) -> None:
        with trio.socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            path = self._path
            with trio.fail_after(_HELLO_S) if path else contextlib.nullcontext():
                await sock.connect(path)
                await sock.send(frames.encode(frames.Hello(frames.ROLE_MOUNT, os.getpid(), self._label)))
                first, fd = await _received(sock)
            if isinstance(first, frames.Error):
                raise errors.ProtocolError(f"{first.message}: is the node older than this tfquiver? restart it")
            if not isinstance(first, frames.Welcome) or fd >= 0:
                raise errors.ProtocolError(f"a {type(first).__name__} frame came where WELCOME was due")
            if not self._is_told(path, sock):
                raise ConnectionError("it was started again, and has not been told yet how object stores are reached")
            self._had_at, self._gives_nothing = trio.current_time(), False
            if self._said:
                logging.info("the node at %s is there again", self._path)
                self._said = False
            try:
                async with self._sending:
                    self._sock = sock
                    await sock.send(frames.encode(self._shows()))
                    for asked in list(self._asked.values()):
                        await sock.send(frames.encode(asked.frame))
                while True:
                    with trio.move_on_at(self._show_at) as until:
                        received = await _received(sock)
                    if not until.cancelled_caught:
                        self._take(*received)
                        continue
                    async with self._sending:
                        await sock.send(frames.encode(self._shows()))
            finally:
                self._sock = None

    def _shows(self) -> frames.Which:
        """So that the node knows what is mounted, also while nobody reads; nobody takes the answer."""
        self._made = (self._made + 1) & 0xFFFFFFFF
        self._shown, self._show_at = self._made, math.inf
        return frames.Which(self._made, self._digest.digest_id)

    def _take(self, frame: frames.Frame, fd: int) -> None:
        if isinstance(frame, Answer):
            self._had_at, self._gives_nothing = trio.current_time(), False
        if isinstance(frame, frames.Error):
            if fd >= 0:
                os.close(fd)
            raise errors.ProtocolError(frame.message)
        if isinstance(frame, frames.Failed) and frame.request == self._shown and _passes(frame):
            self._show_at = trio.current_time() + _LONGEST_PAUSE_S
        asked = self._asked.get(frame.request) if isinstance(frame, frames.Failed | Answer) else None
        if asked is None or asked.answered.is_set():
            if fd >= 0:
                os.close(fd)
            return
        if isinstance(frame, frames.Failed):
            asked.outcome = errors.from_number(frame.code, frame.message)
        elif isinstance(frame, Answer):
            asked.outcome = self._checked(asked.frame, frame, fd)
        asked.answered.set()

    def _checked(self, asked: frames.Get | frames.Which, answer: Answer, fd: int) -> tuple[Answer, int]:
        if isinstance(answer, frames.Got):
            is_so = isinstance(asked, frames.Get) and answer.length_bytes == int(self._digest.lengths[asked.shard])
        else:
            is_so = isinstance(asked, frames.Which) and answer.shards == self._digest.num_shards
        if fd < 0 or not is_so:
            if fd >= 0:
                os.close(fd)
            raise errors.ProtocolError(f"{answer} came for {type(asked).__name__} {asked.request}, or no descriptor")
        return answer, fd


def _passes(failed: frames.Failed) -> bool:
    return isinstance(errors.from_number(failed.code, failed.message), _PASSES)


async def _received(sock: trio.socket.SocketType) -> tuple[frames.Frame, int]:
    """The next frame and its descriptor (-1: none). Raises ConnectionResetError, ProtocolError."""
    message, control, _, _ = await sock.recvmsg(*frames_received.HOW)
    return frames_received.with_one_at_most(message, control)
