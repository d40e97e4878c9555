"""One bit a shard: which shards of a session have been acked."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import many


class Bitmap:
    """Bit i of byte i / 8, least significant first; `count` is the number of bits set."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._bytes = bytearray((size + 7) // 8)
        self._shared = False  # with a still, which must not change
        self.count = 0

    def __contains__(self, index: int) -> bool:
        return bool(self._bytes[index >> 3] >> (index & 7) & 1)

    def __len__(self) -> int:
        return self._size

    def add(self, index: int) -> bool:
        """Sets a bit; False when it was set already."""
        mask = 1 << (index & 7)
        if self._bytes[index >> 3] & mask:
            return False
        if self._shared:
            self._bytes, self._shared = bytearray(self._bytes), False
        self._bytes[index >> 3] |= mask
        self.count += 1
        return True

    def lacking(self, indexes: Iterable[int]) -> list[int]:
        """Those of `indexes` that are not set."""
        its = self._bytes
        return [index for index in indexes if not its[index >> 3] >> (index & 7) & 1]

    def add_all(self, indexes: Iterable[int]) -> list[int]:
        """As `add` of one after the other, in a fraction of the time: those that were not set."""
        lacking = self.lacking(dict.fromkeys(indexes))
        if lacking and self._shared:
            self._bytes, self._shared = bytearray(self._bytes), False
        its = self._bytes
        for index in lacking:
            its[index >> 3] |= 1 << (index & 7)
        self.count += len(lacking)
        return lacking

    def still(self) -> Bitmap:
        """As it is now, for another thread. Costs nothing; only the next change copies."""
        still = Bitmap(0)
        still._size, still._bytes, still.count = self._size, self._bytes, self.count
        still._shared = self._shared = True
        return still

    def as_array(self) -> npt.NDArray[np.bool_]:
        """Shape [size]."""
        bits = np.unpackbits(np.frombuffer(self._bytes, np.uint8), count=self._size, bitorder="little")
        return bits.view(np.bool_)

    def compressed(self) -> bytes:
        """For the wire and the log; empty when no bit is set."""
        return zlib.compress(bytes(self._bytes), 1) if self.count else b""

    @classmethod
    def of(cls, mask: npt.NDArray[np.bool_]) -> Bitmap:
        """`mask`: shape [size]."""
        bitmap = cls(len(mask))
        bitmap._bytes[:] = np.packbits(mask, bitorder="little").tobytes()
        bitmap.count = int(mask.sum())
        return bitmap

    @classmethod
    def from_compressed(cls, data: bytes, size: int) -> Bitmap:
        """Raises InvalidArgumentError when `data` is not a bitmap of exactly `size` bits."""
        bitmap = cls(size)
        if not data:
            return bitmap
        decoder = zlib.decompressobj()
        try:
            raw = decoder.decompress(data, len(bitmap._bytes) + 1)
        except zlib.error as error:
            raise errors.InvalidArgumentError(f"done_bitmap: not zlib data: {error}") from error
        if len(raw) != len(bitmap._bytes) or not decoder.eof or decoder.unused_data:
            which = many(size, "shard needs", "shards need")
            raise errors.InvalidArgumentError(f"done_bitmap: not {len(bitmap._bytes)} bytes, which {which}")
        if size % 8 and raw[-1] >> (size % 8):
            raise errors.InvalidArgumentError(f"done_bitmap: bits are set beyond the last of {many(size, 'shard')}")
        bitmap._bytes[:] = raw
        bitmap.count = int.from_bytes(raw, "little").bit_count()
        return bitmap
