"""Weights of records that users gave: on the disk, those used last in memory, the oldest forgotten where room ends."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterable, Callable
from pathlib import Path

import numpy as np
from absl import logging

from tfquiver import durable, errors
from tfquiver.content import record_weights
from tfquiver.content.digest import Digest
from tfquiver.content.record_weights import RecordWeights

MOST_KEPT_BYTES = 4 << 30
_OPEN_BYTES = 512 << 20  # or one
_COMING_BYTES = 2 * record_weights.MOST_BYTES


class WeightFiles:
    """Lives on one loop."""

    def __init__(self, root: Path, in_use: Callable[[], set[bytes]], most_bytes: int = MOST_KEPT_BYTES) -> None:
        """`in_use`: ids that sessions need. Raises the typed error of a directory that cannot be used."""
        self._root, self._in_use, self._most_bytes = root, in_use, most_bytes
        try:
            durable.private_directory(root)
            durable.remove_left_overs(root)
        except OSError as error:
            raise errors.from_os_error(error, str(root)) from error
        self._open: OrderedDict[bytes, RecordWeights] = OrderedDict()
        self._coming_bytes = 0
        self._one_at_a_time = asyncio.Lock()  # each takes memory

    async def get(self, weights_id: bytes) -> RecordWeights:
        """Raises NotFoundError, DataLossError naming the file: it is damaged, and gone now."""
        if weights_id not in self._open:
            async with self._one_at_a_time:
                if weights_id not in self._open:
                    path = self._path(weights_id)
                    try:
                        self._keep(await asyncio.to_thread(_read, path, weights_id))
                    except errors.DataLossError:
                        await asyncio.to_thread(path.unlink, missing_ok=True)
                        raise
        self._open.move_to_end(weights_id)
        return self._open[weights_id]

    async def put(self, parts: AsyncIterable[bytes], digest: Digest) -> RecordWeights:
        """Checks and keeps weights of this data set. Durable when it returns.

        Raises InvalidArgumentError (damaged, or of other data), ResourceExhaustedError (no room).
        """
        most_bytes = record_weights.HEADER_BYTES + 4 * digest.num_records
        data = await self._received(parts, most_bytes)
        try:
            weights = await asyncio.to_thread(
                record_weights.decoded, np.frombuffer(data, np.uint8), "the weights that were sent"
            )
        except errors.DataLossError as error:
            raise errors.InvalidArgumentError(f"part: {error}") from error
        if weights.content_root != digest.content_root or len(weights.values) != digest.num_records:
            raise errors.InvalidArgumentError(
                f"part: weights of {len(weights.values)} records, of other data than {digest.name!r} has"
            )
        async with self._one_at_a_time:
            gone = list[str]()
            try:
                await asyncio.to_thread(_make_room, self._root, len(data), self._most_bytes, self._in_use(), gone)
            finally:
                for name in gone:
                    self._open.pop(bytes.fromhex(name), None)
            path = self._path(weights.weights_id)
            try:
                await asyncio.to_thread(durable.write, path, [data])
            except OSError as error:
                raise errors.from_os_error(error, str(path)) from error
            self._keep(weights)
        return weights

    async def _received(self, parts: AsyncIterable[bytes], most_bytes: int) -> bytes:
        data = bytearray()
        try:
            async for part in parts:
                data += part
                self._coming_bytes += len(part)
                if len(data) > most_bytes:
                    raise errors.InvalidArgumentError(
                        f"part: more than {most_bytes} bytes, which weights of that data set have"
                    )
                if self._coming_bytes > _COMING_BYTES:
                    raise errors.ResourceExhaustedError("too many weights are being sent: try again later")
            return bytes(data)
        finally:
            self._coming_bytes -= len(data)

    def _keep(self, weights: RecordWeights) -> None:
        self._open[weights.weights_id] = weights
        open_bytes = sum(its.values.nbytes for its in self._open.values())
        while open_bytes > _OPEN_BYTES and len(self._open) > 1:
            open_bytes -= self._open.popitem(last=False)[1].values.nbytes

    def _path(self, weights_id: bytes) -> Path:
        return self._root / f"{weights_id.hex()}.tfqw"


def _read(path: Path, weights_id: bytes) -> RecordWeights:
    weights = record_weights.opened(path)
    if weights.weights_id != weights_id:
        raise errors.DataLossError(f"{path}: it holds weights {weights.weights_id.hex()}")
    try:
        os.utime(path)  # it was loaded now
    except OSError as error:
        raise errors.from_os_error(error, str(path)) from error
    return weights


def _make_room(root: Path, size_bytes: int, most_bytes: int, in_use: set[bytes], gone: list[str]) -> None:
    """Deletes what was not loaded for longest, and adds its names to `gone`. Raises ResourceExhaustedError."""
    try:
        files = [(path, path.stat()) for path in root.glob("*.tfqw")]
        kept_bytes = sum(status.st_size for _, status in files)
        for path, status in sorted(files, key=lambda one: one[1].st_mtime_ns):
            if kept_bytes + size_bytes <= most_bytes:
                return
            if path.stem not in {one.hex() for one in in_use}:
                path.unlink()
                gone.append(path.stem)
                logging.info("%s: not loaded for longest; gone to make room for others", path)
                kept_bytes -= status.st_size
    except OSError as error:
        raise errors.from_os_error(error, str(root)) from error
    if kept_bytes + size_bytes > most_bytes:
        raise errors.ResourceExhaustedError(
            f"weights of {kept_bytes} bytes are in use, and {size_bytes} more do not fit into {most_bytes}"
        )
