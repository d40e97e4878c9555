"""Weights of records that users gave: on the disk, those used last in memory, those used longest ago forgotten where
room ends.

What a session or a job between two epochs needs stays on the disk; where such weights fill it, new ones are refused. In
memory they stay before others; where they do not fit together, those used longest ago are read again when they are
asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from absl import logging

from tfquiver import durable, errors
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.messages_and_binary_formats import record_weights
from tfquiver.messages_and_binary_formats.record_weights import HEADER_BYTES, RecordWeights
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.coming_weights import ComingWeights
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

MOST_KEPT_BYTES = 4 << 30
MOST_FILES = 10_000  # as many keys are known to be drawn by some
_OPEN_BYTES = 512 << 20  # or one
_NOTED_S = 60.0  # so old may be what the disk says of the last use, after a restart
_ID_BYTES = 32


@dataclass(slots=True)
class _File:
    size_bytes: int
    used_s: float  # on the loop's clock
    noted_s: float = -math.inf  # when the disk was told


class WeightFiles:
    """Lives on one loop."""

    def __init__(
        self,
        root: Path,
        in_use: Callable[[], set[bytes]],
        most_bytes: int = MOST_KEPT_BYTES,
        most_files: int = MOST_FILES,
    ) -> None:
        """`in_use`: ids that sessions, or jobs between two epochs, need. Raises the typed error of a directory that
        cannot be used."""
        self._root, self._in_use, self._most_bytes, self._most_files = root, in_use, most_bytes, most_files
        try:
            durable.private_directory(root)
            durable.remove_left_overs(root)
            self._files = _files_in(root)
        except OSError as error:
            raise errors.from_os_error(error, str(root)) from error
        self._kept_bytes = sum(file.size_bytes for file in self._files.values())
        self._open: OrderedDict[bytes, RecordWeights] = OrderedDict()  # used last comes last
        self._open_bytes = 0
        self._coming = ComingWeights(self._found, self._kept, self._check_room)
        self._one_at_a_time = asyncio.Lock()  # each takes memory
        self._loading: dict[bytes, asyncio.Task[RecordWeights]] = {}

    def used_s(self, weights_id: bytes) -> float:
        """When they were used last, on the loop's clock; before this process began: as the disk says."""
        file = self._files.get(weights_id)
        return file.used_s if file else -math.inf

    async def get(self, weights_id: bytes) -> RecordWeights:
        """Raises NotFoundError, DataLossError naming the file: it is damaged, and gone now."""
        weights = self._open.get(weights_id)
        if weights is None:
            weights = await self._loaded(weights_id)
        self._use(weights_id)
        file, now_s = self._files.get(weights_id), asyncio.get_running_loop().time()
        if file and now_s - file.noted_s >= _NOTED_S:
            file.noted_s = now_s
            with contextlib.suppress(OSError):  # it is the time that a later process goes by, and no more
                await asyncio.to_thread(os.utime, self._path(weights_id))
        return weights

    async def put(self, parts: AsyncIterable[bytes], digest: Digest) -> RecordWeights:
        """Checks and keeps weights of this data set. Durable when it returns. Of many who send the same at once one
        is read; of what is here already nothing is, nor of what there is no room for.

        Raises InvalidArgumentError (damaged, or of other data), ResourceExhaustedError (no room).
        """
        return await self._coming.put(aiter(parts), digest)

    async def _loaded(self, weights_id: bytes) -> RecordWeights:
        """Once for all who ask. Who is not waited for any more leaves it to those who ask again: it would never be
        done, were it thrown away each time."""
        loading = self._loading.get(weights_id)
        if loading is None:
            loading = self._loading[weights_id] = asyncio.create_task(self._load(weights_id))
            loading.add_done_callback(lambda done: done.cancelled() or done.exception())  # maybe nobody is there for it
        return await asyncio.shield(loading)

    async def _load(self, weights_id: bytes) -> RecordWeights:
        path = self._path(weights_id)
        try:
            async with self._one_at_a_time:
                if weights_id in self._open:  # sent meanwhile
                    return self._open[weights_id]
                try:
                    weights = await asyncio.to_thread(record_weights.opened, path, weights_id)
                except errors.NotFoundError:
                    self._forget(weights_id)
                    raise
                except errors.DataLossError:
                    await asyncio.to_thread(path.unlink, missing_ok=True)
                    self._forget(weights_id)
                    raise
                self._keep(weights)
                return weights
        finally:
            del self._loading[weights_id]

    async def _found(self, weights_id: bytes) -> RecordWeights | None:
        if weights_id not in self._open and not await asyncio.to_thread(self._path(weights_id).exists):
            return None  # without waiting for others that are being written
        try:
            return await self.get(weights_id)
        except (errors.NotFoundError, errors.DataLossError):
            return None

    async def _kept(self, weights: RecordWeights, data: memoryview) -> None:
        async with self._one_at_a_time:
            if weights.weights_id in self._open:  # somebody else's were faster
                return
            await self._make_room(len(data))
            path = self._path(weights.weights_id)
            try:
                await asyncio.to_thread(durable.write, path, [data])
            except OSError as error:
                raise errors.from_os_error(error, str(path)) from error
            self._keep(weights)

    def _check_room(self, size_bytes: int) -> set[bytes]:
        """Of what is there, what must stay. Raises ResourceExhaustedError: so many bytes do not fit beside that."""
        in_use = self._in_use() & self._files.keys()
        used_bytes = sum(self._files[one].size_bytes for one in in_use)
        if used_bytes + size_bytes > self._most_bytes or len(in_use) >= self._most_files:
            raise errors.ResourceExhaustedError(
                f"{many(len(in_use), 'file')} of weights, {of_bytes(used_bytes)}, are in use by sessions and by jobs "
                f"between two epochs, and {of_bytes(size_bytes)} more do not fit into {of_bytes(self._most_bytes)} and "
                f"{many(self._most_files, 'file')}: try again when one of these has ended"
            )
        return in_use

    async def _make_room(self, size_bytes: int) -> None:
        """Deletes what was used longest ago. Raises ResourceExhaustedError."""
        in_use = self._check_room(size_bytes)
        to_go, left_bytes, left = list[bytes](), self._kept_bytes + size_bytes, len(self._files) + 1
        for weights_id, file in self._files.items():
            if left_bytes <= self._most_bytes and left <= self._most_files:
                break
            if weights_id not in in_use:
                to_go.append(weights_id)
                left_bytes, left = left_bytes - file.size_bytes, left - 1
        gone = list[bytes]()
        try:
            await asyncio.to_thread(_unlink, {one: self._path(one) for one in to_go}.items(), gone)
        except OSError as error:
            raise errors.from_os_error(error, str(self._root)) from error
        finally:
            for weights_id in gone:
                self._forget(weights_id)

    def _keep(self, weights: RecordWeights) -> None:
        """They are on the disk."""
        weights_id = weights.weights_id
        if weights_id not in self._files:
            self._files[weights_id] = file = _File(HEADER_BYTES + weights.values.nbytes, 0.0)
            self._kept_bytes += file.size_bytes
        self._close(weights_id)
        self._open[weights_id] = weights
        self._open_bytes += weights.values.nbytes
        self._use(weights_id)
        if self._open_bytes <= _OPEN_BYTES:
            return
        in_use = self._in_use()
        for other_id in sorted(self._open, key=in_use.__contains__):  # those that nobody needs, then the others
            if self._open_bytes <= _OPEN_BYTES:
                return
            if other_id == weights_id:
                continue
            if other_id in in_use:
                every_n_seconds(
                    logging.WARNING,
                    "%d sets of weights of records are needed at once, more than fit into %d bytes of memory: they are "
                    "read from the disk again and again, in turn, and leases wait for that; run fewer such jobs at a "
                    "time, or weigh shards or files",
                    600,
                    len(in_use),
                    _OPEN_BYTES,
                )
            self._close(other_id)

    def _close(self, weights_id: bytes) -> None:
        weights = self._open.pop(weights_id, None)
        self._open_bytes -= weights.values.nbytes if weights else 0

    def _use(self, weights_id: bytes) -> None:
        if weights_id in self._open:
            self._open.move_to_end(weights_id)
        if file := self._files.get(weights_id):
            self._files.move_to_end(weights_id)
            file.used_s = asyncio.get_running_loop().time()

    def _forget(self, weights_id: bytes) -> None:
        self._close(weights_id)
        file = self._files.pop(weights_id, None)
        self._kept_bytes -= file.size_bytes if file else 0

    def _path(self, weights_id: bytes) -> Path:
        return self._root / f"{weights_id.hex()}.tfqw"


def _files_in(root: Path) -> OrderedDict[bytes, _File]:
    """Used last comes last. Raises OSError."""
    now_s, wall_s = asyncio.get_running_loop().time(), time.time()
    found = dict[bytes, _File]()
    for path in root.glob("*.tfqw"):
        with contextlib.suppress(ValueError):  # somebody else's
            status, weights_id = path.stat(), bytes.fromhex(path.stem)
            if len(weights_id) == _ID_BYTES:
                found[weights_id] = _File(status.st_size, now_s - max(0.0, wall_s - status.st_mtime))
    return OrderedDict(sorted(found.items(), key=lambda one: one[1].used_s))


def _unlink(paths: Iterable[tuple[bytes, Path]], gone: list[bytes]) -> None:
    """In a thread. Adds the ids of what has gone to `gone`. Raises OSError."""
    for weights_id, path in paths:
        path.unlink(missing_ok=True)
        gone.append(weights_id)
        logging.info("%s: not used for longest; gone to make room for others", path)
