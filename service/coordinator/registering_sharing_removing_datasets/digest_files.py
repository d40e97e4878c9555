"""The digests of registered data sets: on the disk, and in memory what the disk does not take now.

A full disk must not keep a data set from being read; so a digest that cannot be saved is held in memory and saved as
soon as the disk takes it. When the process ends before, its data set is registered again by the next who wants it.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterable, Container
from pathlib import Path

from absl import logging

from tfquiver import durable, errors
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.sizes_durations_amounts.amounts import of_bytes

PART_BYTES = 1 << 20
SAVE_AGAIN_S = 10.0
_OPEN_DIGESTS = 64
_OPEN_BYTES = 512 << 20
_UNSAVED_BYTES = 512 << 20
_ID = re.compile("[0-9a-f]{64}")


class DigestFiles:
    """Lives on one loop; `close` it."""

    def __init__(self, root: Path, save_again_s: float = SAVE_AGAIN_S) -> None:
        """Raises the typed error of a directory that cannot be used."""
        self._root, self._save_again_s = root, save_again_s
        try:
            durable.private_directory(root)
            durable.remove_left_overs(root)
            for left_over in root.glob("upload-*.tmp"):  # of an earlier version
                left_over.unlink()
        except OSError as error:
            raise errors.from_os_error(error, str(root)) from error
        self._open: OrderedDict[bytes, Digest] = OrderedDict()
        self._opening: dict[bytes, asyncio.Task[Digest]] = {}
        self._unsaved: dict[bytes, Digest] = {}
        self._saving: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._saving:
            self._saving.cancel()
            await asyncio.gather(self._saving, return_exceptions=True)

    def path(self, digest_id: bytes) -> Path:
        return self._root / f"{digest_id.hex()}.tfqd"

    async def get(self, digest_id: bytes) -> Digest:
        """Raises NotFoundError, CorruptDigestError, UnavailableError, naming the file. Concurrent calls join: after a
        restart a thousand jobs ask for the same one, of hundreds of megabytes."""
        digest = self._open.get(digest_id) or self._unsaved.get(digest_id)
        if digest is None:
            task = self._opening.get(digest_id)
            if task is None:
                task = self._opening[digest_id] = asyncio.get_running_loop().create_task(self._opened(digest_id))
                task.add_done_callback(lambda task: self._done(digest_id, task))
            return await asyncio.shield(task)
        return self._used(digest)

    async def _opened(self, digest_id: bytes) -> Digest:
        path = self.path(digest_id)
        digest = await asyncio.to_thread(Digest.open, path)
        if digest.digest_id != digest_id:
            raise errors.CorruptDigestError(f"{path}: it holds digest {digest.digest_id.hex()}")
        return self._used(digest)

    def _done(self, digest_id: bytes, task: asyncio.Task[Digest]) -> None:
        del self._opening[digest_id]
        if not task.cancelled():
            task.exception()  # whoever asked may have gone

    def _used(self, digest: Digest) -> Digest:
        digest_id = digest.digest_id
        self._open[digest_id] = digest
        self._open.move_to_end(digest_id)
        open_bytes = sum(its.memory_bytes for its in self._open.values())
        while len(self._open) > _OPEN_DIGESTS or (open_bytes > _OPEN_BYTES and len(self._open) > 1):
            _, closed = self._open.popitem(last=False)
            open_bytes -= closed.memory_bytes
        return digest

    async def parts(self, digest_id: bytes) -> AsyncIterable[bytes]:
        """The digest file, in order. Raises NotFoundError and others naming the file."""
        if unsaved := self._unsaved.get(digest_id):
            data = await asyncio.to_thread(unsaved.to_bytes)
            for at in range(0, len(data), PART_BYTES):
                yield data[at : at + PART_BYTES]
            return
        path, offset, part = self.path(digest_id), 0, b"-"
        while part:
            part = await asyncio.to_thread(_read, path, offset)
            offset += len(part)
            if part:
                yield part

    async def keep(self, digest: Digest) -> None:
        """On the disk, or in memory until it can be. Raises ResourceExhaustedError when there is room in neither."""
        digest_id = digest.digest_id
        try:
            await asyncio.to_thread(digest.save, self.path(digest_id))
        except errors.TfquiverError as error:
            unsaved_bytes = sum(its.memory_bytes for its in self._unsaved.values()) + digest.memory_bytes
            if unsaved_bytes > _UNSAVED_BYTES:
                raise errors.ResourceExhaustedError(
                    f"{error}; digests of {of_bytes(unsaved_bytes)} wait for the disk in memory already"
                ) from error
            logging.error(
                "%s: the digest is kept in memory until the disk takes it", error, extra=about(digest=digest_id)
            )
            self._unsaved[digest_id] = digest
            if self._saving is None or self._saving.done():
                self._saving = asyncio.get_running_loop().create_task(self._save_on())
        else:
            self._unsaved.pop(digest_id, None)

    async def delete(self, digest_id: bytes) -> None:
        """Harmless when it is not here. Raises the typed error naming the file."""
        self._open.pop(digest_id, None)
        self._unsaved.pop(digest_id, None)
        path = self.path(digest_id)
        try:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        except OSError as error:
            raise errors.from_os_error(error, str(path)) from error

    async def drop_others(self, digest_ids: Container[bytes]) -> None:
        """Deletes those that are none of these, as far as the disk lets them go."""
        await asyncio.to_thread(self._drop_others, digest_ids)

    def _drop_others(self, digest_ids: Container[bytes]) -> None:
        for path in [one for one in self._root.glob("*.tfqd") if _ID.fullmatch(one.stem)]:
            if bytes.fromhex(path.stem) not in digest_ids:
                try:
                    path.unlink()
                    logging.info("%s: the digest of no data set is deleted", path)
                except OSError as error:
                    logging.warning("%s: the digest of no data set stays: %s", path, error)

    async def _save_on(self) -> None:
        while self._unsaved:
            await asyncio.sleep(self._save_again_s)
            for digest_id, digest in list(self._unsaved.items()):
                path = self.path(digest_id)
                try:
                    await asyncio.to_thread(digest.save, path)
                except errors.TfquiverError as error:
                    every_n_seconds(
                        logging.ERROR, "%s: still in memory only", 600, error, extra=about(digest=digest_id)
                    )
                    continue
                if self._unsaved.pop(digest_id, None) is None:  # deleted meanwhile
                    await asyncio.to_thread(path.unlink, missing_ok=True)
                else:
                    logging.info("%s: the disk has taken it now", path, extra=about(digest=digest_id))


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(PART_BYTES)
    except OSError as error:
        raise errors.from_os_error(error, str(path)) from error
