"""The streams of this node: who is in which, batches given out, written to the disk, forgotten. On one loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from absl import logging

from tfquiver import errors
from tfquiver.messages_and_binary_formats import stream_frames
from tfquiver.service.node.hanging_disk.disk_threads import OnDisk
from tfquiver.service.node.shared_batches.member import Member
from tfquiver.service.node.shared_batches.one_pass import Answer, OnePass, Sum
from tfquiver.service.node.shared_batches.shares import grant, left, refusal, too_large
from tfquiver.service.node.shared_batches.spill_files import SpillFiles
from tfquiver.service.node.shared_batches.window import MOST_SEGMENTS, Delete, Forget, InMemory, Spill, Step, Window
from tfquiver.sizes_durations_amounts.amounts import of_bytes

MOST_STREAMS = 64
MOST_PASSES = 16  # of a stream, at one time
MOST_MEMORY_BYTES = 2 << 30  # of all windows
MOST_ON_DISK = 4096  # segments of all windows: each is a descriptor, of which readers need most
LEAST_WINDOW_BYTES = 64 << 10
MOST_CHECKPOINT_BYTES = 16 << 20
_LINGER_S = 60.0  # with nobody in it
_DISK_PAUSE_S = 5.0
_MOST_KNOWN = 1024  # processes
_CHECKPOINTS_SHARE = 4  # those of a pass are at most one part in so many of the window's memory


@dataclass(slots=True)
class _Pass:
    state: OnePass = field(default_factory=OnePass)
    members: dict[int, Member] = field(default_factory=dict)
    room: int = 0
    leaving: asyncio.TimerHandle | None = None


class Stream:
    def __init__(
        self, streams: Streams, key: tuple[int, str], likeness: bytes, window: Window, asked_bytes: int
    ) -> None:
        """`asked_bytes`: for the window, which may have been given less."""
        self._streams, self.key, self.likeness, self.window = streams, key, likeness, window
        self._asked_bytes = asked_bytes
        self.passes: dict[int, _Pass] = {}
        self.segments: dict[int, tuple[int, int]] = {}  # descriptor, bytes
        # Since all began: the pass that each process was in last; who was in one last, last.
        self._reached: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # Members.

    def enter(self, number: int, member: Member) -> None:
        found = self.passes.get(number)
        if found is None:
            left_alone = (old for old, one in sorted(self.passes.items()) if not one.members)
            if len(self.passes) >= MOST_PASSES and (old := next(left_alone, None)) is not None:
                self._forget_pass(old)
            if len(self.passes) >= MOST_PASSES:
                raise errors.ResourceExhaustedError(f"stream {self.key[1]!r} is in {MOST_PASSES} passes already")
            found = self.passes[number] = _Pass()
            self._let_linger(number)
        found.members[member.number] = member

    def leave(self, number: int, member: Member) -> None:
        one = self.passes.get(number)
        if one is None or one.members.pop(member.number, None) is None:
            return  # it was dismissed
        if one.state.leave(member.number):
            self._wake(number)
        if not one.state.cursors and one.leaving is None:
            self._let_linger(number)
        self._see_to_window()

    def ask(self, number: int, member: Member, index: int, made: Sum | None) -> None:
        """Raises InvalidArgumentError."""
        one = self.passes[number]
        if member.number not in one.state.cursors:  # who asks again may have had all made by a maker that has left
            if index == 0 and made is None and self._is_alone(number, member):
                self._begin_anew(number)
            self._note(number, member)
        one.state.ask(member.number, index, made)
        if one.leaving is not None:
            one.leaving.cancel()
            one.leaving = None
        member.wants = index
        self._answer(number, member)
        self._tell_room(one)
        self._see_to_window()

    def _is_alone(self, number: int, member: Member) -> bool:
        """Nobody else is there; nor was it there itself, in an earlier pass, with those who have made what is here."""
        if self._reached.get(member.process, number) < number:
            return False
        return all(one.members.keys() <= {member.number} for one in self.passes.values())

    def _note(self, number: int, member: Member) -> None:
        self._reached.pop(member.process, None)
        self._reached[member.process] = number
        while len(self._reached) > _MOST_KNOWN:
            del self._reached[next(iter(self._reached))]

    def _begin_anew(self, number: int) -> None:
        """Whoever made what is here has left, and maybe changed the pipeline since: who begins at the beginning now has
        nobody to be alike. Of other passes, too: in those others may be there when it comes to them."""
        for other in [other for other in self.passes if other != number]:
            self._forget_pass(other)
        one = self.passes[number]
        self._drop(number, one)
        one.state = OnePass()
        self._reached.clear()

    @property
    def deserted(self) -> bool:
        return not any(one.members for one in self.passes.values())

    def forget(self) -> None:
        """All of it, whoever is in it."""
        for number in list(self.passes):
            self._forget_pass(number)

    def make(self, number: int, member: Member) -> int | None:
        """From which batch on; None: not at all. The checkpoint that it begins with is sent before."""
        one = self.passes[number]
        first = one.state.make(member.number)
        if first is not None:
            self._send_checkpoint(one, member, first)
            one.room = 0
        return first

    def begun(self, number: int) -> None:
        """The maker has been told."""
        self._tell_room(self.passes[number])

    def made(self, number: int, member: Member, index: int, sum: Sum, descriptor: int) -> None:
        """Owns `descriptor` (-1: none came), also where it raises. Raises InvalidArgumentError, ProtocolError,
        ResourceExhaustedError."""
        state = self.passes[number].state
        try:
            if not self.window.fits(sum.length_bytes):
                raise errors.NeverFitsError(too_large(sum.length_bytes, self.window.memory_bytes, self._asked_bytes))
            if descriptor < 0 and index >= state.head:
                raise errors.ProtocolError("a new batch without its memory")
            new = state.made(member.number, index, sum)
        except errors.TfquiverError:
            _close(descriptor)
            raise
        if not new:
            _close(descriptor)
            return
        for step in self.window.put(number, index, descriptor, sum.length_bytes):
            self._carry_out(step)
        self._see_to_window()
        self._wake(number)

    def finished(self, number: int, member: Member, batches: int) -> None:
        """Of the maker; or of a trainer that has made its batches again to the end. Raises InvalidArgumentError,
        ProtocolError."""
        state = self.passes[number].state
        if member.number in state.cursors:
            state.ends(member.number, batches)
            member.over(batches)
            return
        state.finish(member.number, batches)
        self._wake(number)

    def checkpoint(self, number: int, member: Member, batches: int, descriptor: int) -> None:
        """Owns `descriptor`. Of the maker; or of a trainer whose node was restarted."""
        state, most_bytes = self.passes[number].state, self.window.memory_bytes // _CHECKPOINTS_SHARE
        known = state.maker == member.number or not state.checkpoints
        small = os.fstat(descriptor).st_size <= most_bytes
        unneeded = state.keep_checkpoint(batches, descriptor) if known and small else descriptor
        if unneeded is not None:
            os.close(unneeded)
        while sum(os.fstat(fd).st_size for fd in state.checkpoints.values()) > most_bytes:
            given_up = state.thin()
            assert given_up is not None  # one by itself is small
            os.close(given_up)

    # Inside.

    def _wake(self, number: int) -> None:
        one = self.passes[number]
        for member in list(one.members.values()):
            if member.wants is not None:
                self._answer(number, member)

    def _answer(self, number: int, member: Member) -> None:
        one, index = self.passes[number], member.wants
        assert index is not None
        match one.state.answer(index):
            case Answer.WAIT:
                return
            case Answer.UNMADE:
                member.unmade(index)
            case Answer.OVER:
                member.over(one.state.head)
            case Answer.GIVE:
                self._send_checkpoint(one, member, index)
                self._give(number, one, member, index)
        member.wants = None

    def _give(self, number: int, one: _Pass, member: Member, index: int) -> None:
        place, sum = self.window.place(number, index), one.state.sum_of(index)
        try:
            if place is None or sum is None:
                member.behind(index)
            elif isinstance(place, InMemory):
                member.give(index, sum, os.dup(place.handle), 0, False)
            else:
                member.give(index, sum, os.dup(self.segments[place.segment][0]), place.offset, True)
        except OSError as error:  # out of descriptors
            logging.warning("stream %r: %s: a trainer makes batch %d again", self.key[1], error.strerror, index)
            member.behind(index)

    def _send_checkpoint(self, one: _Pass, member: Member, index: int) -> None:
        before = one.state.checkpoint_for(index)
        if before is None or before <= member.checkpoint:
            return
        try:
            member.take_checkpoint(before, os.dup(one.state.checkpoints[before]))
        except OSError as error:
            logging.warning("stream %r: %s: a trainer keeps its older checkpoint", self.key[1], error.strerror)
            return
        member.checkpoint = before

    def _tell_room(self, one: _Pass) -> None:
        if one.state.maker is None or one.state.maker not in one.members:
            return
        room = one.state.room(self.window.memory_bytes)
        if room > one.room:
            one.room = room
            one.members[one.state.maker].room(room)

    def _see_to_window(self) -> None:
        while (step := self.window.step(self._wanted)) is not None:
            self._carry_out(step)

    def _wanted(self, number: int) -> int | None:
        one = self.passes.get(number)
        return one.state.lowest if one else None

    def _carry_out(self, step: Step) -> None:
        match step:
            case Forget():
                for handle in step.handles:
                    os.close(handle)
            case Delete():
                fd, size_bytes = self.segments.pop(step.segment)
                os.close(fd)
                self._streams.deleted(size_bytes)
            case Spill():
                descriptors: list[int] = []
                trouble: OSError | None = None
                try:
                    for handle in step.handles:  # at once: some may be dropped, and their numbers given to others
                        descriptors.append(os.dup(handle))
                except OSError as error:
                    trouble = error
                task = asyncio.get_running_loop().create_task(self._spill(step, descriptors, trouble))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _spill(self, spill: Spill, descriptors: list[int], trouble: OSError | None) -> None:
        """`trouble`: with opening `descriptors`, which are all otherwise; they are closed."""
        fd = -1
        try:
            if trouble is not None:
                raise trouble
            fd = await self._streams.write(descriptors, spill.size_bytes)
            self.segments[spill.segment] = fd, spill.size_bytes
        except OSError as error:
            logging.warning("stream %r: not on the disk: %s", self.key[1], error.strerror)
            asyncio.get_running_loop().call_later(_DISK_PAUSE_S, self._try_disk_again)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        for step in self.window.spilled(fd >= 0):
            self._carry_out(step)
        self._see_to_window()

    def _try_disk_again(self) -> None:
        self.window.try_disk_again()
        self._see_to_window()

    def _let_linger(self, number: int) -> None:
        self.passes[number].leaving = asyncio.get_running_loop().call_later(_LINGER_S, self._forget_pass, number)

    def _forget_pass(self, number: int) -> None:
        one = self.passes.pop(number)
        if one.leaving is not None:
            one.leaving.cancel()
        for member in one.members.values():
            member.dismiss()
        self._drop(number, one)
        if not self.passes:
            self._streams.forget(self)

    def _drop(self, number: int, one: _Pass) -> None:
        """What was made."""
        for fd in one.state.checkpoints.values():
            os.close(fd)
        for step in self.window.drop_pass(number):
            self._carry_out(step)

    async def close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.forget()


class Streams:
    """By (user, name): what one user's trainers have made no other user's are given.

    Args:
      on_disk: what waits for the disk.
      disk_waits_s: for how long the oldest read of the disk has been under way.
    """

    def __init__(
        self, files: SpillFiles, on_disk: OnDisk = asyncio.to_thread, disk_waits_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._files, self._on_disk, self.disk_waits_s = files, on_disk, disk_waits_s
        self._streams: dict[tuple[int, str], Stream] = {}
        self._memory_bytes = self._disk_bytes = self._segments = 0  # of all windows, whether used or not
        self._used_bytes = 0  # of all segments
        self._settling: set[asyncio.Task[None]] = set()

    def stream(self, uid: int, name: str, likeness: bytes, window_bytes: int, spill_bytes: int) -> Stream:
        """Found, or made with as much room as there is. Raises InvalidArgumentError, ResourceExhaustedError."""
        found = self._streams.get((uid, name))
        if found is not None and found.likeness != likeness and found.deserted:
            found.forget()
            found = None
        if found is not None:
            if found.likeness != likeness:
                raise errors.InvalidArgumentError(stream_frames.refusal(name, found.likeness, likeness))
            return found
        own = [stream.window for (whose, _), stream in self._streams.items() if whose == uid]
        own_bytes = sum(window.memory_bytes for window in own)
        memory_bytes = min(window_bytes, grant(MOST_MEMORY_BYTES, self._memory_bytes, own_bytes))
        if not left(MOST_STREAMS, len(self._streams), len(own)) or memory_bytes < LEAST_WINDOW_BYTES:
            users = len({whose for whose, _ in self._streams})
            said = refusal(uid, len(self._streams), MOST_STREAMS, self._memory_bytes, users, len(own), own_bytes)
            raise errors.ResourceExhaustedError(
                f"stream {name!r}: {said}; a stream is forgotten a minute after its last trainer has left"
            )
        own_disk_bytes = sum(window.spill_bytes for window in own)
        disk_bytes = min(spill_bytes, grant(self._files.limit_bytes, self._disk_bytes, own_disk_bytes))
        segments = grant(MOST_ON_DISK, self._segments, sum(window.most_segments for window in own))
        window = Window(memory_bytes, disk_bytes, min(MOST_SEGMENTS, segments))
        sizes = of_bytes(memory_bytes), of_bytes(disk_bytes)
        logging.info("stream %r: a window of %s in memory, %s on the disk", name, *sizes)
        self._memory_bytes += memory_bytes
        self._disk_bytes += disk_bytes
        self._segments += window.most_segments
        made = self._streams[uid, name] = Stream(self, (uid, name), likeness, window, window_bytes)
        return made

    def forget(self, stream: Stream) -> None:
        del self._streams[stream.key]
        self._memory_bytes -= stream.window.memory_bytes
        self._disk_bytes -= stream.window.spill_bytes
        self._segments -= stream.window.most_segments

    async def write(self, descriptors: list[int], size_bytes: int) -> int:
        """As SpillFiles.write. Raises OSError."""
        self._used_bytes += size_bytes
        try:
            return await self._on_disk(self._files.write, descriptors, size_bytes, self._in_use)
        except BaseException:
            self.deleted(size_bytes)
            raise

    def deleted(self, size_bytes: int) -> None:
        self._used_bytes -= size_bytes
        task = asyncio.get_running_loop().create_task(self._settle())
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle(self) -> None:
        await self._on_disk(self._files.settle, self._in_use)

    def _in_use(self) -> int:
        """From any thread."""
        return self._used_bytes

    async def close(self) -> None:
        for stream in list(self._streams.values()):
            await stream.close()
        await asyncio.gather(*self._settling, return_exceptions=True)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
