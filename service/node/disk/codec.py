"""How a shard's bytes are stored: zstd where it pays, raw where they would not shrink (JPEG and the like)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Literal, cast

import zstandard

from tfquiver import errors
from tfquiver.disk_space_of_shards.entry_size import PAGE_BYTES
from tfquiver.service.node.disk import entry

Mode = Literal["auto", "raw", "zstd"]
WORTHWHILE = 0.95  # stored / raw: above it, serving straight from the page cache is worth more than the bytes
PIECE_BYTES = 1 << 20
_MAX_WINDOW_BYTES = 8 << 20  # what every zstd decoder has to have; a frame that wants more is not one of ours
_LEVEL = 1
_PROBE_BYTES = 32 << 10
_PROBES = 3


def compress(raw: bytes, mode: Mode) -> tuple[int, bytes]:
    """(codec, stored bytes) of a shard. What counts is pages of the disk: fewer than a whole one is nothing.

    `zstd` compresses whatever becomes smaller at all.
    """
    if mode == "raw" or len(raw) <= PAGE_BYTES or (mode == "auto" and not _promising(raw)):
        return entry.RAW, raw
    stored = zstandard.ZstdCompressor(level=_LEVEL).compress(raw)
    limit = entry.disk_bytes(len(raw)) * (WORTHWHILE if mode == "auto" else 1.0)
    return (entry.ZSTD, stored) if entry.disk_bytes(len(stored)) < limit else (entry.RAW, raw)


def decompress(stored: bytes | memoryview, raw_length: int, where: str) -> bytes:
    """The raw bytes of one zstd frame that must hold exactly `raw_length` of them.

    Raises DataLossError naming `where`.
    """
    try:
        # The frame's own word on its size decides what is allocated: it must be the one that is known.
        size = zstandard.get_frame_parameters(stored).content_size
        if size != raw_length:
            raise errors.DataLossError(f"{where}: a zstd frame of {size} bytes, not {raw_length}")
        raw = zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise errors.DataLossError(f"{where}: {error}") from error
    return raw


def decompressed(read: Callable[[int], bytes], raw_length: int, where: str) -> Iterator[bytes]:
    """As `decompress`, a piece of at most PIECE_BYTES at a time, of what `read(most bytes)` gives (empty: its end).

    Holds no more than a window and a piece. Raises DataLossError naming `where`, at the latest behind the last piece.
    """
    try:
        source = _Ahead(read)
        size = zstandard.get_frame_parameters(source.first).content_size
        if size != raw_length:
            raise errors.DataLossError(f"{where}: a zstd frame of {size} bytes, not {raw_length}")
        reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).stream_reader(cast(IO[bytes], source))
        left = raw_length
        while left and (piece := reader.read(min(left, PIECE_BYTES))):
            left -= len(piece)
            yield piece
    except zstandard.ZstdError as error:
        raise errors.DataLossError(f"{where}: {error}") from error
    if left:
        raise errors.DataLossError(f"{where}: it ends {left} bytes early")


class _Ahead:
    """A source whose first bytes can be looked at."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.first = read(PIECE_BYTES)
        self._rest = self.first

    def read(self, most_bytes: int) -> bytes:
        if not self._rest:
            return self._read(most_bytes)
        piece, self._rest = self._rest[:most_bytes], self._rest[most_bytes:]
        return piece


def _promising(raw: bytes) -> bool:
    """A look at a few pieces: hopeless bytes are not compressed as a whole only to be thrown away."""
    if len(raw) <= _PROBES * _PROBE_BYTES:
        return True
    step = (len(raw) - _PROBE_BYTES) // (_PROBES - 1)
    pieces = b"".join(raw[at * step : at * step + _PROBE_BYTES] for at in range(_PROBES))
    return len(zstandard.ZstdCompressor(level=_LEVEL).compress(pieces)) < len(pieces) * WORTHWHILE
