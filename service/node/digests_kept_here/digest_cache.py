"""Digests by id: opened once, kept under the cache directory, got from the coordinator when they are not there yet.

The disk is a convenience here, for a restart: a digest is used from memory, and what cannot be kept or read is got
again. So nobody waits for a disk that hangs, and a full one keeps no data set from being read. What it has refused is
kept later: what this node has of a data set that is removed while it is away is found by its digest alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from absl import logging

from tfquiver import durable, errors
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.node.digests_kept_here.kept_later import PAUSE_S, KeptLater
from tfquiver.sizes_durations_amounts.amounts import of_bytes

T = TypeVar("T")
MAX_DIGEST_BYTES = 4 << 30
_KEPT_OPEN = 64
_OPEN_BYTES = 512 << 20
_THREADS = 2
_PEEKED_AT_ONCE, _PEEKED_BYTES = 64, 16 << 20  # or one digest
_HEADER_BYTES = 4096  # and padding, at most
_PATIENCE_S = 10.0  # with the disk, and the time that it takes at the slowest
_SLOWEST_BYTES_PER_S = 20e6
_SAVED_S = 2.0  # so long, and as long as it takes at the slowest, who has registered a digest waits for its file


class DigestCache:
    """Lives on one loop. `start` it, `close` it.

    Args:
      fetch: streams the digest file with that id; raises NotFoundError.
      limit_bytes: most bytes on the disk; those that were used least recently go. Larger ones stay in memory only.
      set_aside: told, before it is so, how many bytes they are going to take on the disk; called in a thread, may wait.
      again_s: so long after the disk has refused one it is tried again.
    """

    def __init__(
        self,
        directory: Path,
        fetch: Callable[[bytes], AsyncIterator[bytes]],
        limit_bytes: int = MAX_DIGEST_BYTES,
        set_aside: Callable[[int], None] = lambda size_bytes: None,
        again_s: float = PAUSE_S,
    ) -> None:
        self._directory, self._fetch, self._limit_bytes, self._set_aside = directory, fetch, limit_bytes, set_aside
        self._files: OrderedDict[bytes, int] = OrderedDict()  # bytes on the disk; what was used last comes last
        self._open: OrderedDict[bytes, Digest] = OrderedDict()
        self._in_use: weakref.WeakValueDictionary[bytes, Digest] = weakref.WeakValueDictionary()
        self._under_way: dict[bytes, asyncio.Task[Digest]] = {}
        self._writing = asyncio.Lock()
        self._saves: set[asyncio.Task[bool]] = set()
        self._later, self._unanswered = KeptLater(self._keep_now, again_s), 0  # calls that the disk has not answered
        self._pool = ThreadPoolExecutor(_THREADS, "digests")  # its own: others must not wait for a disk that hangs

    @property
    def disk_bytes(self) -> int:
        return sum(self._files.values())

    @property
    def some_unwritten(self) -> bool:
        """Some digest that is here is not on the disk yet. For any thread."""
        return bool(self._saves or self._later.digest_ids)

    def here(self) -> list[bytes]:
        """Ids of those on the disk, in use, or to be kept there yet."""
        return list({*self._files, *self._open, *self._in_use, *self._later.digest_ids})

    def on_disk(self, digest_ids: Sequence[bytes]) -> list[bytes]:
        """Those of them that the next process finds here, too."""
        return [digest_id for digest_id in digest_ids if digest_id in self._files]

    async def start(self) -> None:
        """Looks what is there. Raises the typed error of a directory that cannot be used."""
        try:
            self._files = await asyncio.get_running_loop().run_in_executor(self._pool, _look, self._directory)
        except OSError as error:
            raise errors.from_os_error(error, error.filename or str(self._directory)) from error
        await self._prune(0)
        await self._on_disk(0, self._set_aside, self.disk_bytes)
        self._later.start()

    async def close(self) -> None:
        """Waits for what is being written."""
        await self._later.close()
        await asyncio.gather(*self._saves, return_exceptions=True)
        await asyncio.to_thread(self._pool.shutdown, True)

    async def get(self, digest_id: bytes) -> Digest:
        """Raises NotFoundError (nobody knows it), CorruptDigestError, UnavailableError. Concurrent calls join."""
        if digest := self._open.get(digest_id) or self._in_use.get(digest_id):
            self._used(digest)
            return digest
        task = self._under_way.get(digest_id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._get(digest_id))
            self._under_way[digest_id] = task
            task.add_done_callback(lambda task: self._got(digest_id, task))
        return await asyncio.shield(task)

    def _got(self, digest_id: bytes, task: asyncio.Task[Digest]) -> None:
        del self._under_way[digest_id]
        if not task.cancelled():
            task.exception()  # what fails when nobody waits any more is no error of the loop

    async def peek(self, digest_ids: Sequence[bytes]) -> AsyncIterator[list[Digest]]:
        """Those of them that can be read here, some at a time; none counts as used, nor is it kept open.

        Raises UnavailableError: the disk does not answer.
        """
        at = 0
        while at < len(digest_ids):
            found, paths, size_bytes = list[Digest](), dict[bytes, Path](), 0
            while at < len(digest_ids) and len(found) + len(paths) < _PEEKED_AT_ONCE and size_bytes < _PEEKED_BYTES:
                digest_id, at = digest_ids[at], at + 1
                if digest := self._open.get(digest_id) or self._in_use.get(digest_id):
                    found.append(digest)
                elif digest_id in self._files:
                    paths[digest_id] = self._path(digest_id)
                    size_bytes += self._files[digest_id]
            if paths:
                found += await self._on_disk(size_bytes, _readable, paths)
            yield found

    @contextlib.asynccontextmanager
    async def registering(self, digest: Digest) -> AsyncIterator[None]:
        """Around the registering of a digest that was made here. Meanwhile it is in memory, afterwards also on the
        disk, unless that does not answer; where it fails it is not here any more, nor where this process is killed:
        what a digest names that the coordinator does not know would stay here for ever.

        Whoever hears that it is registered may delete it: a node that was killed finds by its digest what goes then.
        """
        digest_id = digest.digest_id
        was_here = digest_id in self._files or digest_id in self._in_use
        self._used(digest)
        try:
            yield
        except BaseException:
            if not was_here:
                self._open.pop(digest_id, None)
                self._in_use.pop(digest_id, None)
            raise
        if digest_id in self._in_use:  # else it has been removed since
            save = self._save(digest)
            await asyncio.wait([save], timeout=_SAVED_S + digest.memory_bytes / _SLOWEST_BYTES_PER_S)

    async def drop(self, digest_id: bytes) -> None:
        """Forgets a digest that nobody needs any more, on the disk too; harmless when it is not here.

        Those who use it go on. A disk that refuses keeps the file until it is the one that was used least recently.
        """
        self._open.pop(digest_id, None)
        self._in_use.pop(digest_id, None)
        self._later.over(digest_id)
        async with self._writing:
            await self._delete(digest_id)

    def _path(self, digest_id: bytes) -> Path:
        return self._directory / f"{digest_id.hex()}.tfqd"

    def _used(self, digest: Digest) -> None:
        digest_id = digest.digest_id
        self._in_use[digest_id] = self._open[digest_id] = digest
        self._open.move_to_end(digest_id)
        if digest_id in self._files:
            self._files.move_to_end(digest_id)
        open_bytes = sum(its.memory_bytes for its in self._open.values())
        while len(self._open) > _KEPT_OPEN or (open_bytes > _OPEN_BYTES and len(self._open) > 1):
            _, closed = self._open.popitem(last=False)
            open_bytes -= closed.memory_bytes

    async def _get(self, digest_id: bytes) -> Digest:
        digest = None
        if digest_id in self._files:
            path = self._path(digest_id)
            try:
                digest = await self._on_disk(self._files[digest_id], _open_checked, path, digest_id)
            except (errors.TfquiverError, OSError) as error:
                logging.warning("digest %s: %s; getting it again", path, error, extra=about(digest=digest_id))
        if digest is None:  # until it is got what it names is to stay: so it is here still
            try:
                digest = await self._download(digest_id)
            except (errors.NotFoundError, errors.DataLossError):
                self._files.pop(digest_id, None)
                raise
            self._files.pop(digest_id, None)
            self._save(digest)
        self._used(digest)
        return digest

    async def _download(self, digest_id: bytes) -> Digest:
        data = bytearray()
        async for part in self._fetch(digest_id):
            if len(data) + len(part) > MAX_DIGEST_BYTES:
                raise errors.ResourceExhaustedError(f"digest {digest_id.hex()}: more than {of_bytes(MAX_DIGEST_BYTES)}")
            data += part
        return await asyncio.to_thread(_checked, data, digest_id)

    # On the disk.

    async def _keep_now(self, digest_id: bytes) -> bool:
        """False: the disk does not take it, or it cannot be had, for now."""
        if self._unanswered:
            return False
        try:
            return await self._keep(await self.get(digest_id))
        except (errors.NotFoundError, errors.DataLossError):
            return True  # there is none any more
        except errors.TfquiverError:
            return False

    def _save(self, digest: Digest) -> asyncio.Task[bool]:
        task = asyncio.get_running_loop().create_task(self._keep(digest))
        self._saves.add(task)
        task.add_done_callback(self._saves.discard)
        return task

    async def _keep(self, digest: Digest) -> bool:
        """False: the disk does not take it. It is tried again, then."""
        digest_id = digest.digest_id
        try:
            size_bytes = digest.memory_bytes + _HEADER_BYTES
            if size_bytes > self._limit_bytes:
                logging.info(
                    "digest %s of %d bytes is kept in memory only",
                    digest_id.hex(),
                    size_bytes,
                    extra=about(digest=digest_id),
                )
                return True
            async with self._writing:
                if digest_id in self._in_use and digest_id not in self._files:
                    await self._prune(size_bytes)
                    await self._on_disk(0, self._set_aside, self.disk_bytes + size_bytes)
                    self._files[digest_id] = await self._on_disk(size_bytes, _saved, digest, self._path(digest_id))
        except (errors.TfquiverError, OSError) as error:
            every_n_seconds(
                logging.WARNING, "digest %s is kept in memory only: %s", 60, digest_id.hex(), error,
                extra=about(digest=digest_id),
            )  # fmt: skip
            self._later.refused(digest_id)
            with contextlib.suppress(errors.UnavailableError):
                await self._on_disk(0, self._set_aside, self.disk_bytes)
            return False
        return True

    async def _prune(self, coming_bytes: int) -> None:
        """Deletes until so much more fits: first what nobody uses. Raises as `_on_disk`."""
        for spared in (self._in_use.keys(), ()):
            for digest_id in [id_ for id_ in self._files if id_ not in spared]:
                if self.disk_bytes + coming_bytes <= self._limit_bytes:
                    return
                await self._delete(digest_id)

    async def _delete(self, digest_id: bytes) -> None:
        try:
            await self._on_disk(0, _unlink, self._path(digest_id))
        except (errors.TfquiverError, OSError) as error:
            every_n_seconds(
                logging.WARNING,
                "%s: cannot be deleted: %s",
                60,
                self._path(digest_id),
                error,
                extra=about(digest=digest_id),
            )
        else:
            self._files.pop(digest_id, None)
            await self._on_disk(0, self._set_aside, self.disk_bytes)

    async def _on_disk(self, size_bytes: int, call: Callable[..., T], *arguments: object) -> T:
        """A call in a thread. Raises UnavailableError when the disk does not answer in time."""
        running = asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)
        self._unanswered += 1
        running.add_done_callback(self._answered)
        try:
            async with asyncio.timeout(_PATIENCE_S + size_bytes / _SLOWEST_BYTES_PER_S):
                return await asyncio.shield(running)
        except TimeoutError as error:
            raise errors.UnavailableError(f"{self._directory}: the disk does not answer") from error

    def _answered(self, running: asyncio.Future[T]) -> None:
        self._unanswered -= 1
        if not running.cancelled():
            running.exception()


def _look(directory: Path) -> OrderedDict[bytes, int]:
    durable.private_directory(directory)
    durable.remove_left_overs(directory)
    found = []
    for path in directory.iterdir():
        if path.suffix == ".part":  # of an earlier version
            path.unlink()
        elif path.suffix == ".tfqd" and path.is_file() and len(path.stem) == 64:
            with contextlib.suppress(ValueError):
                status = path.stat()
                found.append((status.st_mtime, bytes.fromhex(path.stem), status.st_size))
    return OrderedDict((digest_id, size_bytes) for _, digest_id, size_bytes in sorted(found))


def _open_checked(path: Path, digest_id: bytes) -> Digest:
    digest = _is(Digest.open(path), digest_id, str(path))
    with contextlib.suppress(OSError):
        os.utime(path)  # so that a restart knows which one was used last
    return digest


def _readable(paths: Mapping[bytes, Path]) -> list[Digest]:
    found = []
    for digest_id, path in paths.items():
        with contextlib.suppress(errors.TfquiverError, OSError):  # whoever needs it says so, and gets it again
            found.append(_is(Digest.open(path), digest_id, str(path)))
    return found


def _checked(data: bytearray, digest_id: bytes) -> Digest:
    where = f"digest {digest_id.hex()} from the coordinator"
    return _is(Digest.from_bytes(data, where), digest_id, where)


def _is(digest: Digest, digest_id: bytes, where: str) -> Digest:
    if digest.digest_id != digest_id:
        raise errors.CorruptDigestError(f"{where}: it is digest {digest.digest_id.hex()}")
    return digest


def _saved(digest: Digest, path: Path) -> int:
    digest.save(path)
    return path.stat().st_size


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
