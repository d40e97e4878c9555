"""Digests by id: opened once, kept under the cache directory, got from the coordinator when they are not there yet."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from absl import logging

from tfquiver import errors
from tfquiver.digest import Digest

MAX_DIGEST_BYTES = 4 << 30
_KEPT_OPEN = 64


class DigestCache:
    """Args:
    fetch: streams the digest file with that id; raises NotFoundError.
    """

    def __init__(self, directory: Path, fetch: Callable[[bytes], AsyncIterator[bytes]]) -> None:
        self._directory, self._fetch = directory, fetch
        self._open: OrderedDict[bytes, Digest] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Task[Digest]] = {}
        directory.mkdir(mode=0o700, exist_ok=True)
        for left_over in directory.glob("*.part"):
            left_over.unlink()

    async def get(self, digest_id: bytes) -> Digest:
        """Raises NotFoundError (nobody knows it), CorruptDigestError, UnavailableError. Concurrent calls join."""
        if digest := self._open.get(digest_id):
            self._open.move_to_end(digest_id)
            return digest
        task = self._under_way.get(digest_id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._get(digest_id))
            self._under_way[digest_id] = task
            task.add_done_callback(lambda _: self._under_way.pop(digest_id))
        return await asyncio.shield(task)

    async def put(self, digest: Digest) -> None:
        """Keeps a digest that was made here."""
        await asyncio.to_thread(digest.save, self._path(digest.digest_id))

    async def drop(self, digest_id: bytes) -> None:
        """Forgets a digest that nobody needs any more, on the disk too; harmless when it is not here."""
        self._open.pop(digest_id, None)
        await asyncio.to_thread(self._path(digest_id).unlink, missing_ok=True)

    def _path(self, digest_id: bytes) -> Path:
        return self._directory / f"{digest_id.hex()}.tfqd"

    async def _get(self, digest_id: bytes) -> Digest:
        path = self._path(digest_id)
        try:
            digest = await asyncio.to_thread(_open_checked, path, digest_id)
        except (FileNotFoundError, errors.NotFoundError):
            digest = await self._download(digest_id, path)
        except errors.CorruptDigestError as error:
            logging.warning("digest %s: %s; getting it again", path, error)
            path.unlink(missing_ok=True)
            digest = await self._download(digest_id, path)
        self._open[digest_id] = digest
        while len(self._open) > _KEPT_OPEN:
            self._open.popitem(last=False)
        return digest

    async def _download(self, digest_id: bytes, path: Path) -> Digest:
        part = path.with_suffix(".part")
        try:
            with part.open("wb") as file:
                async for data in self._fetch(digest_id):
                    if file.tell() + len(data) > MAX_DIGEST_BYTES:
                        raise errors.ResourceExhaustedError(
                            f"digest {digest_id.hex()}: more than {MAX_DIGEST_BYTES} bytes"
                        )
                    await asyncio.to_thread(file.write, data)
                await asyncio.to_thread(_sync, file.fileno(), file.flush)
            await asyncio.to_thread(_open_checked, part, digest_id)
            part.rename(path)
        except OSError as error:
            raise errors.ResourceExhaustedError(f"{part}: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)
        return await asyncio.to_thread(_open_checked, path, digest_id)


def _sync(descriptor: int, flush: Callable[[], None]) -> None:
    flush()
    os.fsync(descriptor)


def _open_checked(path: Path, digest_id: bytes) -> Digest:
    digest = Digest.open(path)
    if digest.digest_id != digest_id:
        raise errors.CorruptDigestError(f"{path}: it is digest {digest.digest_id.hex()}")
    return digest
