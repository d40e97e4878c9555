"""One build: what each row has come to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.amounts import many
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.materializing.derived_uris import uri_of
from tfquiver.proto.tfquiver.v1.derived_datasets_pb2 import DerivedRow
from tfquiver.service.coordinator.derived_datasets.claims import Claims

HASH_BYTES = 32
MOST_PARTS = 1 << 16  # of one row
MOST_PART_BYTES = 1 << 32
_FRAMING_BYTES = 16  # of a record


class Part(NamedTuple):
    hash: bytes
    length_bytes: int
    records: int


class Build:
    """`rows`: shards of the input."""

    def __init__(self, rows: int) -> None:
        self.rows, self.done, self.parts = rows, 0, 0
        self.claims = Claims(rows)
        self._made: dict[int, tuple[Part, ...]] = {}
        self._is_done = bytearray(rows)

    @property
    def is_whole(self) -> bool:
        return self.done == self.rows

    def has(self, row: int) -> bool:
        return bool(self._is_done[row])

    def put(self, row: DerivedRow) -> bool:
        """Whether it was not known yet: the first to say what a row has come to is right."""
        self.claims.over(row.row)
        if row.row >= self.rows or self._is_done[row.row]:
            return False
        self._made[row.row] = tuple(Part(part.hash, part.length_bytes, part.records) for part in row.parts)
        self._is_done[row.row] = 1
        self.done += 1
        self.parts += len(row.parts)
        return True

    def claimed(self, claimer: str, most: int, now_s: float) -> list[int]:
        return self.claims.give(claimer, most, self._is_done, now_s)

    def messages(self) -> Sequence[DerivedRow]:
        """In any thread, of a build that does not change any more, or on the loop."""
        return [_message(row, parts) for row, parts in self._made.items()]

    def made(self) -> dict[int, tuple[Part, ...]]:
        """As it is now."""
        return dict(self._made)


def message_of(row: int, parts: Sequence[Part]) -> DerivedRow:
    return _message(row, parts)


def _message(row: int, parts: Sequence[Part]) -> DerivedRow:
    message = DerivedRow(row=row)
    for part in parts:
        message.parts.add(hash=part.hash, length_bytes=part.length_bytes, records=part.records)
    return message


def check(row: DerivedRow, records: npt.NDArray[np.uint32]) -> None:
    """`records`: of each shard of the input. Raises InvalidArgumentError naming the row."""
    where = f"rows: row {row.row}"
    if row.row >= len(records):
        raise errors.InvalidArgumentError(f"{where}: the input has {many(len(records), 'shard')}")
    if not 1 <= len(row.parts) <= MOST_PARTS:
        raise errors.InvalidArgumentError(f"{where}: {len(row.parts)} parts; it is 1 to {MOST_PARTS}")
    for part in row.parts:
        if len(part.hash) != HASH_BYTES:
            raise errors.InvalidArgumentError(f"{where}: a hash of {len(part.hash)} bytes; it has {HASH_BYTES}")
        if not part.records or not part.records * _FRAMING_BYTES <= part.length_bytes <= MOST_PART_BYTES:
            raise errors.InvalidArgumentError(
                f"{where}: {part.length_bytes} bytes cannot be {many(part.records, 'record')}"
            )
    made = sum(part.records for part in row.parts)
    if made != int(records[row.row]):
        raise errors.InvalidArgumentError(
            f"{where}: {many(made, 'record')}, where that shard of the input has {int(records[row.row])}: the "
            "function must "
            "make one element of each record"
        )


def digest_of(source: Digest, made: dict[int, tuple[Part, ...]], name: str, build_id: bytes) -> Digest:
    """The digest of a whole build over `source`: its files are those of the input, each as its shards have become.

    Seconds for millions of shards: for a thread.
    """
    parts = [part for row in range(source.num_shards) for part in made[row]]
    counts = np.array([len(made[row]) for row in range(source.num_shards)], np.int64)
    file_index = np.repeat(source.file_index, counts)
    lengths = np.array([part.length_bytes for part in parts], np.uint64)
    ends = np.cumsum(lengths, dtype=np.uint64)
    sizes = np.zeros(len(source.files), np.uint64)
    np.add.at(sizes, file_index, lengths)
    before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(sizes, dtype=np.uint64)])[file_index]
    files = [
        FileEntry(uri_of(build_id, file.uri), int(size), build_id.hex(), "none")
        for file, size in zip(source.files, sizes, strict=True)
    ]
    hashes = np.frombuffer(b"".join(part.hash for part in parts), np.uint8).reshape(-1, HASH_BYTES)
    records = np.array([part.records for part in parts], np.uint32)
    return Digest.build(name, files, hashes, file_index, ends - lengths - before, lengths, records)
