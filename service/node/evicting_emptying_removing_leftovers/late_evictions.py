"""What was emptied while this node was away goes when it is back: the node notes what it has carried out, the
coordinator tells by which task each data set was emptied last.

So nobody keeps a list of who was away, for however long, and a restart of either is nothing. A node that has lost its
notes empties what was emptied at some time once more: then that is read again, no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from pathlib import Path

from absl import logging

from tfquiver import durable, errors
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.hanging_disk.disk_threads import OnDisk

FILE = "evicted"  # a line for each digest: its id, and the tasks
_AT_ONCE = 16  # what other digests keep is worked out once for them
_MOST_TASKS = 8  # noted of one digest: it has several where several names have it
_TRY_AGAIN_S, _TRY_AGAIN_AT_LAST_S = 5.0, 300.0
_NOTE_EVERY_S, _PATIENCE_S = 2.0, 10.0


class LateEvictions:
    """Lives on one loop. `start` it, `close` it.

    Args:
      give_up: deletes what is kept of these digests alone; raises TfquiverError.
      on_disk: runs what waits for the disk.
    """

    def __init__(
        self,
        directory: Path,
        give_up: Callable[[Sequence[bytes]], Awaitable[object]],
        on_disk: OnDisk = asyncio.to_thread,
    ) -> None:
        self._path, self._give_up, self._on_disk = directory / FILE, give_up, on_disk
        self.on_due: Callable[[], None] = lambda: None  # `due` is another one
        self._done: dict[bytes, str] = {}
        self._emptied: Set[bytes] = frozenset()
        self._due: dict[bytes, str] = {}
        self._named: Sequence[pb.NamedDigest] = ()  # that digests are here of
        self._newest: Sequence[pb.NamedDigest] = ()
        self._marks: dict[bytes, list[str]] = {}
        self._marks_of: Sequence[pb.NamedDigest] = ()
        self._is_sure = False
        self._busy, self._rest = frozenset[bytes](), asyncio.Event()
        self._news, self._to_note = asyncio.Event(), asyncio.Event()
        self._carrying_out = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._writing: asyncio.Task[None] | None = None

    @property
    def due(self) -> Collection[bytes]:
        """What this node has to empty still."""
        return self._due.keys()

    async def start(self) -> None:
        self._done = await asyncio.to_thread(_read, self._path)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._note_on())]

    async def close(self) -> None:
        """What is not noted yet is noted, unless the disk hangs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing], timeout=_PATIENCE_S)
        if self._to_note.is_set() and (self._writing is None or self._writing.done()):
            await self._note()

    def unsure(self) -> None:
        """The coordinator has lost sight of this node: what was emptied meanwhile is told next."""
        self._is_sure = False

    def sure(self) -> None:
        """What was emptied has been told."""
        self._is_sure = True

    async def stays(self, digest_id: bytes) -> bool:
        """What is here of it may be moved to other nodes. It would stay there if it is to go: they have emptied it."""
        if self._marks_of is not (newest := self._newest):
            marks = await asyncio.to_thread(_marks, newest)
            self._marks, self._marks_of = marks, newest
        tasks = self._marks.get(digest_id, [])
        return self._is_sure and (not all(tasks) or set(tasks) <= set(self._done.get(digest_id, "").split()))

    def emptied(self, digest_ids: Set[bytes]) -> None:
        """What all nodes are emptying, or have, and what came meanwhile is not looked at yet. That this one has done so
        is noted after that: what comes until then, from those that have not, is known to this process alone."""
        if self._emptied - digest_ids:
            self._to_note.set()
        self._emptied = digest_ids

    def wanted(self, named: Sequence[pb.NamedDigest]) -> None:
        """The newest ones, at once: what has no mark any more stays. `told` comes when their digests are here."""
        self._newest = named
        if self._due:
            before = len(self._due)
            for one in named:
                if not one.evicted:
                    self._due.pop(one.digest_id, None)
            if len(self._due) != before:
                self.on_due()

    def told(self, named: Sequence[pb.NamedDigest]) -> None:
        """The newest ones. Their digests are here, as far as they are to be had."""
        self._named = self._newest = named
        self._news.set()

    async def let_go(self, digest_id: bytes) -> None:
        """Returns when nothing of this digest is being deleted: what is read before that would go with it."""
        while digest_id in self._busy:
            await self._rest.wait()

    async def done(self, task_id: str, digest_ids: Sequence[bytes]) -> None:
        """This node has carried that out. It is noted soon: nobody waits for a disk that hangs."""
        for digest_id in digest_ids:
            self._has_done(digest_id, task_id)

    def again(self, digest_ids: Collection[bytes]) -> None:
        """Something of these came here after this node had carried that out, before all had: it is due once more."""
        for digest_id in digest_ids:
            if self._done.pop(digest_id, None) is not None:
                self._to_note.set()
        self._news.set()

    async def carry_out(self) -> None:
        """Raises TfquiverError where something cannot go now; everything else has gone then."""
        async with self._carrying_out:
            await self._carry_out()

    async def _carry_out(self) -> None:
        named, done = self._named, dict(self._done)
        due, kept, gone = await asyncio.to_thread(_due, named, done)
        for digest_id in gone:
            self._done.pop(digest_id, None)
            self._to_note.set()
        for digest_id, tasks in kept.items():
            self._has_done(digest_id, tasks)
        self._due = due
        self.wanted(self._newest)
        self.on_due()
        failed, first = set[bytes](), None
        while some := list(itertools.islice((one for one in self._due if one not in failed), _AT_ONCE)):
            try:
                await self._empty(some)
                continue
            except errors.TfquiverError as error:
                if len(some) == 1:
                    failed.update(some)
                    first = first or error
                    continue
            for one in some:  # whichever it is, it keeps no other
                if one in self._due:
                    try:
                        await self._empty([one])
                    except errors.TfquiverError as error:
                        failed.add(one)
                        first = first or error
        if first:
            raise first

    async def _empty(self, digest_ids: Sequence[bytes]) -> None:
        tasks = {digest_id: self._due[digest_id] for digest_id in digest_ids}
        self._busy = frozenset(digest_ids)
        try:
            await self._give_up(digest_ids)
        except errors.NotFoundError:
            if len(digest_ids) > 1:  # one of them has been removed meanwhile
                raise
        else:
            for digest_id in digest_ids:
                said = "data set %s was emptied, and something of it was here still: what is kept of it alone is gone"
                logging.info(said, digest_id.hex(), extra=about(digest=digest_id))
        finally:
            self._busy = frozenset()
            self._rest.set()
            self._rest.clear()
        for digest_id, by in tasks.items():
            self._has_done(digest_id, by)
            self._due.pop(digest_id, None)
        self.on_due()

    async def _run(self) -> None:
        pause_s: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._news.wait()
            self._news.clear()
            try:
                await self.carry_out()
                pause_s = None
                continue
            except errors.TfquiverError as error:
                every_n_seconds(logging.WARNING, "what was emptied while this node was away: %s", 60, error)
            except Exception:  # noqa: BLE001 - whatever it was: without this task nothing of it would ever go
                logging.exception("what was emptied while this node was away")
            pause_s = _TRY_AGAIN_S if pause_s is None else min(2 * pause_s, _TRY_AGAIN_AT_LAST_S)

    def _has_done(self, digest_id: bytes, tasks: str) -> None:
        new = tasks.split()  # all of them stay: what is not noted is due again
        before = [task for task in self._done.get(digest_id, "").split() if task not in new]
        now = " ".join([*before[max(0, len(before) + len(new) - _MOST_TASKS) :], *new])
        if now != self._done.get(digest_id):
            self._done[digest_id] = now
            self._to_note.set()

    async def _note_on(self) -> None:
        while True:
            await self._to_note.wait()
            await self._note()
            await asyncio.sleep(_NOTE_EVERY_S)

    async def _note(self) -> None:
        """A disk that does not take it: what is read of these until the next start goes once more then. One at a time:
        each takes a thread of all, and an older one that ended last would stand."""
        if self._writing is None or self._writing.done():
            self._to_note.clear()
            done = {digest_id: by for digest_id, by in self._done.items() if digest_id not in self._emptied}
            self._writing = asyncio.create_task(self._on_disk(_write, self._path, done))
        finished, _ = await asyncio.wait([self._writing], timeout=_PATIENCE_S)
        if not finished:
            every_n_seconds(logging.WARNING, "%s: the disk does not answer", 60, self._path)
            self._to_note.set()


def _due(
    named: Sequence[pb.NamedDigest], done: Mapping[bytes, str]
) -> tuple[dict[bytes, str], dict[bytes, str], Set[bytes]]:
    """What is to be emptied, by which tasks; what another name keeps, so that these tasks are over; and of what notes
    are kept that has no name any more. For a thread. Of what several names have all are to be emptied."""
    told = _marks(named)
    due, kept = dict[bytes, str](), dict[bytes, str]()
    for digest_id, tasks in told.items():
        marks = [task for task in tasks if task]
        if not set(marks) <= set(done.get(digest_id, "").split()):
            (due if len(marks) == len(tasks) else kept)[digest_id] = " ".join(sorted(marks))
    return due, kept, done.keys() - told.keys() if told else set()


def _marks(named: Sequence[pb.NamedDigest]) -> dict[bytes, list[str]]:
    """By digest, for each of its names: by which task it was emptied; "": it was not."""
    told: dict[bytes, list[str]] = {}
    for one in named:
        told.setdefault(one.digest_id, []).append(one.evicted)
    return told


def _write(path: Path, done: Mapping[bytes, str]) -> None:
    try:
        durable.write(path, [f"{digest_id.hex()} {by}\n".encode() for digest_id, by in done.items()])
    except OSError as error:
        every_n_seconds(logging.WARNING, "%s: %s", 60, path, error)


def _read(path: Path) -> dict[bytes, str]:
    try:
        for left_over in path.parent.glob(f".{path.name}.*.tmp"):  # of a process that was killed while it wrote
            left_over.unlink(missing_ok=True)
        lines = path.read_text().splitlines()
        return {bytes.fromhex(digest_id): by for digest_id, _, by in (line.partition(" ") for line in lines)}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        logging.warning("%s: %s: what was emptied at some time is emptied once more", path, error)
        return {}
