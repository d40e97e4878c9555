"""What was emptied while this node was away goes when it is back: the node notes what it has carried out, the
coordinator tells by which task each data set was emptied last.

So nobody keeps a list of who was away, for however long, and a restart of either is nothing. A node that has lost its
notes empties what was emptied at some time once more: then that is read again, no more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from absl import logging

from tfquiver import durable, errors
from tfquiver.logs import about
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.rare_lines import every_n_seconds

FILE = "evicted"  # a line for each digest: its id, and the tasks
_TRY_AGAIN_S = 5.0


class LateEvictions:
    """Lives on one loop. `start` it, `close` it.

    Args:
      give_up: deletes what is kept of these digests alone; raises TfquiverError.
    """

    def __init__(self, directory: Path, give_up: Callable[[Sequence[bytes]], Awaitable[None]]) -> None:
        self._path, self._give_up = directory / FILE, give_up
        self._done: dict[bytes, str] = {}
        self._named: Sequence[pb.NamedDigest] = ()
        self._news, self._writing = asyncio.Event(), asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._done = await asyncio.to_thread(_read, self._path)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def told(self, named: Sequence[pb.NamedDigest]) -> None:
        """The newest ones. Their digests are here, as far as they are to be had."""
        self._named = named
        self._news.set()

    async def done(self, task_id: str, digest_ids: Sequence[bytes]) -> None:
        """This node has carried that out."""
        self._done.update(dict.fromkeys(digest_ids, task_id))
        await self._note()

    async def carry_out(self) -> None:
        """Raises TfquiverError."""
        due = self._due()
        for digest_id, by in due.items():
            with contextlib.suppress(errors.NotFoundError):  # it has been removed meanwhile
                await self._give_up([digest_id])
                said = "data set %s was emptied while this node was away: what it kept of it alone is gone"
                logging.info(said, digest_id.hex(), extra=about(digest=digest_id))
            self._done[digest_id] = by
        if due:
            await self._note()

    def _due(self) -> dict[bytes, str]:
        """By which tasks. Of what several names have all are to be emptied."""
        told: dict[bytes, list[str]] = {}
        for one in self._named:
            told.setdefault(one.digest_id, []).append(one.evicted)
        by = {digest_id: " ".join(sorted(tasks)) for digest_id, tasks in told.items() if all(tasks)}
        return {digest_id: tasks for digest_id, tasks in by.items() if self._done.get(digest_id) != tasks}

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.carry_out()
                continue
            except errors.TfquiverError as error:
                every_n_seconds(logging.WARNING, "what was emptied while this node was away: %s", 60, error)
            except Exception:  # noqa: BLE001 - whatever it was: without this task nothing of it would ever go
                logging.exception("what was emptied while this node was away")
            self._news.set()
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _note(self) -> None:
        """A disk that does not take it: what is read of these until the next start goes once more then."""
        async with self._writing:
            named = {one.digest_id for one in self._named}
            self._done = {digest_id: by for digest_id, by in self._done.items() if digest_id in named or not named}
            lines = [f"{digest_id.hex()} {by}\n".encode() for digest_id, by in self._done.items()]
            try:
                await asyncio.to_thread(durable.write, self._path, lines)
            except OSError as error:
                every_n_seconds(logging.WARNING, "%s: %s", 60, self._path, error)


def _read(path: Path) -> dict[bytes, str]:
    try:
        lines = path.read_text().splitlines()
        return {bytes.fromhex(digest_id): by for digest_id, _, by in (line.partition(" ") for line in lines)}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        logging.warning("%s: %s: what was emptied at some time is emptied once more", path, error)
        return {}
