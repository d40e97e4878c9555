"""What rows of a build have come to, in columns: 52 bytes a row of one shard, whatever else a process has.

As objects they were 320, and ten million of them for a build of five million rows: each look for garbage went through
all. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.proto.tfquiver.v1.derived_datasets_pb2 import DerivedRow

HASH_BYTES = 32
PART = np.dtype([("hash", "u1", HASH_BYTES), ("length_bytes", "<u8"), ("records", "<u4")])
_ROW = np.dtype([("row", "<u4"), ("parts", "<u4")])
_PACK_PART, _PACK_ROW = struct.Struct(f"<{HASH_BYTES}sQI"), struct.Struct("<II")
_BLOCK = 1 << 12  # of a column: it grows by these, so that nothing moves


class MadeRows:
    """What has been put does not change any more: what there is now is told by two numbers."""

    def __init__(self) -> None:
        self._rows, self._parts = _Column(_PACK_ROW), _Column(_PACK_PART)

    @property
    def parts(self) -> int:
        return self._parts.count

    def put(self, row: DerivedRow) -> None:
        """One that is not there yet."""
        for part in row.parts:
            self._parts.add(part.hash, part.length_bytes, part.records)
        self._rows.add(row.row, len(row.parts))

    def still(self) -> StillRows:
        """As it is now; in any thread, while this one goes on."""
        return StillRows(self._rows.blocks, self._rows.count, self._parts.blocks, self._parts.count)


@dataclass(frozen=True, slots=True)
class StillRows:
    """In the order in which they were put. Blocks are shared with `MadeRows`, which adds behind what is told here."""

    row_blocks: Sequence[bytearray]
    count: int
    part_blocks: Sequence[bytearray]
    part_count: int

    def columns(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.void]]:
        """Rows, how many parts each has, and the parts, as `PART`, one row's behind the other's."""
        rows = _joined(self.row_blocks, self.count, _ROW)
        return rows["row"], rows["parts"], _joined(self.part_blocks, self.part_count, PART)

    def messages(self) -> Iterator[DerivedRow]:
        """One made after the other: of millions at once each takes as much as ten rows do here."""
        at = 0
        for row, parts in _entries(self.row_blocks, self.count, _PACK_ROW):
            message = DerivedRow(row=row)
            for _ in range(parts):
                block, place = divmod(at, _BLOCK)
                hash, length_bytes, records = _PACK_PART.unpack_from(self.part_blocks[block], place * _PACK_PART.size)
                message.parts.add(hash=hash, length_bytes=length_bytes, records=records)
                at += 1
            yield message


class _Column:
    def __init__(self, pack: struct.Struct) -> None:
        self._pack = pack
        self.blocks: list[bytearray] = []
        self.count = 0

    def add(self, *values: object) -> None:
        block, place = divmod(self.count, _BLOCK)
        if block == len(self.blocks):
            self.blocks.append(bytearray(_BLOCK * self._pack.size))
        self._pack.pack_into(self.blocks[block], place * self._pack.size, *values)
        self.count += 1


def _entries(blocks: Sequence[bytearray], count: int, pack: struct.Struct) -> Iterator[tuple[int, int]]:
    for at in range(count):
        block, place = divmod(at, _BLOCK)
        row, parts = pack.unpack_from(blocks[block], place * pack.size)
        yield row, parts


def _joined(blocks: Sequence[bytearray], count: int, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    whole = -(-count // _BLOCK)
    parts = [np.frombuffer(block, dtype) for block in blocks[:whole]]
    return (np.concatenate(parts) if parts else np.empty(0, dtype))[:count]
