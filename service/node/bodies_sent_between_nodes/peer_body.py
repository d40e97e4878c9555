"""A shard's body from a peer into sealed memory, checked as it comes: the peer is not trusted (I-3)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

import google_crc32c
import numpy as np

from tfquiver import errors
from tfquiver.service.node.disk import codec, entry
from tfquiver.service.node.sealed_memory_of_checked_shards import sealed_memory
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import SEALED_MEMORY, ReadyShard

_PIECE_BYTES = 512 << 10


class DamagedBodyError(errors.DataLossError):
    """The bytes do not have the checksum that their sender gave."""


class WrongBodyError(errors.DataLossError):
    """The bytes are what their sender says, and not what it was asked for."""


class BodyIntake:
    """One connection's. After a DataLossError the connection stands behind the body and can go on; after others not.

    Args:
      receiving: for a body of so many bytes: what receives exactly so many of them.
      peer: for messages.
    """

    def __init__(self, receiving: Callable[[int], Callable[[memoryview], None]], peer: str) -> None:
        self._receiving, self._peer = receiving, peer
        self._buffer = memoryview(bytearray(_PIECE_BYTES))

    def receive(self, hash: bytes, body: entry.Header, trusted: bool = False) -> ReadyShard:
        """The shard; the caller closes it.

        Args:
          trusted: the sender is a node of ours: neither hash nor checksum of a raw body is computed here. The reader
            checks the latter.

        Raises:
          DamagedBodyError, WrongBodyError.
          NoMemoryError: out of descriptors or memory here.
        """
        fd = sealed_memory.create()
        try:
            shard = _Shard(fd, trusted and body.codec == entry.RAW)
            crc32c_stored, trouble = self._take(body, shard, trusted)
            if crc32c_stored != body.crc32c_stored or (trusted and trouble):
                raise DamagedBodyError(f"{self._peer}: shard {hash.hex()} came damaged{trouble}")
            if not trusted and (trouble or shard.size_bytes != body.raw_length or shard.hash() != hash):
                raise WrongBodyError(f"{self._peer} sent other bytes than shard {hash.hex()}{trouble}")
            sealed_memory.seal(fd)
        except BaseException:
            os.close(fd)
            raise
        # Not the sender's word on the CRC where there is another: the reader would take right bytes for damaged ones.
        crc32c = body.crc32c_raw if trusted else shard.crc32c
        return ReadyShard(SEALED_MEMORY, fd, 0, body.raw_length, crc32c, "peer")

    def _take(self, body: entry.Header, shard: _Shard, trusted: bool) -> tuple[int, str]:
        """Passes all of the body on; the CRC of its stored bytes, and what was wrong with them otherwise, or ""."""
        stored = _Stored(self._receiving(body.stored_length), self._buffer, body.stored_length)
        if body.codec == entry.RAW:
            while piece := stored.next_piece(_PIECE_BYTES):
                shard.add(piece)
            return (body.crc32c_stored if trusted else shard.crc32c), ""
        trouble = ""
        try:
            for raw in codec.decompressed(stored.read, body.raw_length, "its zstd frame"):
                shard.add(memoryview(raw))
        except errors.DataLossError as error:
            trouble = f": {error}"
        while stored.read(_PIECE_BYTES):  # the connection is to stand behind the body
            pass
        return stored.crc32c, trouble


class _Stored:
    """The stored bytes of one body as they come."""

    def __init__(self, fill: Callable[[memoryview], None], buffer: memoryview, size_bytes: int) -> None:
        self._fill, self._buffer, self._left = fill, buffer, size_bytes
        self.crc32c = 0  # of what `read` has returned

    def next_piece(self, most_bytes: int) -> memoryview:
        """Good until the next call; empty at the end."""
        piece = self._buffer[: min(self._left, most_bytes)]
        self._fill(piece)
        self._left -= len(piece)
        return piece

    def read(self, most_bytes: int) -> bytes:
        piece = bytes(self.next_piece(min(most_bytes, _PIECE_BYTES)))
        self.crc32c = google_crc32c.extend(self.crc32c, piece)
        return piece


class _Shard:
    """The raw bytes as they come. Both the write and the hash run without the interpreter's lock."""

    def __init__(self, fd: int, unchecked: bool) -> None:
        self._fd, self._unchecked = fd, unchecked
        self._sha256 = hashlib.sha256()
        self.crc32c = 0
        self.size_bytes = 0

    def add(self, piece: memoryview) -> None:
        sealed_memory.write(self._fd, piece)
        self.size_bytes += len(piece)
        if not self._unchecked:
            self._sha256.update(piece)
            self.crc32c = _crc32c_of(self.crc32c, piece)

    def hash(self) -> bytes:
        return self._sha256.digest()


def _crc32c_of(crc32c: int, piece: memoryview) -> int:
    """The CRC-32C of what had `crc32c`, and `piece` behind it."""
    # An array passes for bytes where a memoryview of a bytearray is refused; a copy would cost as much as the CRC.
    extended: int = google_crc32c.extend(crc32c, np.frombuffer(piece, np.uint8))
    return extended
