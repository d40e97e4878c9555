"""One build: what each row has come to. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.materializing.derived_uris import uri_of
from tfquiver.proto.tfquiver.v1.derived_datasets_pb2 import DerivedRow
from tfquiver.service.coordinator.derived_datasets.claims import Claims
from tfquiver.service.coordinator.derived_datasets.made_rows import HASH_BYTES, MadeRows, StillRows
from tfquiver.sizes_durations_amounts.amounts import many

MOST_ROWS = 8 << 20  # of all builds together: about 60 bytes each
MOST_PARTS = 1 << 16  # of one row
MOST_PART_BYTES = 1 << 32
_FRAMING_BYTES = 16  # of a record


class Build:
    """`rows`: shards of the input; None: it was read from the log, and that is not known yet (`sized`)."""

    def __init__(self, rows: int | None) -> None:
        self.rows, self.done = rows, 0
        self.claims = Claims(rows or 0)
        self._made = MadeRows()
        self._is_done = bytearray(rows or 0)

    @property
    def is_whole(self) -> bool:
        return self.done == self.rows

    @property
    def parts(self) -> int:
        return self._made.parts

    def sized(self, rows: int) -> None:
        """Its input has so many shards."""
        if self.rows is None:
            self.rows, self.claims = rows, Claims(rows)
            self._is_done = self._is_done[:rows].ljust(rows, b"\0")
            self.done = self._is_done.count(1)

    def has(self, row: int) -> bool:
        return row < len(self._is_done) and bool(self._is_done[row])

    def put(self, row: DerivedRow) -> bool:
        """Whether it was not known yet: the first to say what a row has come to is right."""
        number = row.row
        self.claims.over(number)
        if self.has(number) or number >= (MOST_ROWS if self.rows is None else self.rows):
            return False
        if number >= len(self._is_done):
            self._is_done += bytes(number + 1 - len(self._is_done))
        self._made.put(row)
        self._is_done[number] = 1
        self.done += 1
        return True

    def claimed(self, claimer: str, most: int, now_s: float) -> list[int]:
        return self.claims.give(claimer, most, self._is_done, now_s)

    def made(self) -> StillRows:
        """As it is now."""
        return self._made.still()


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


def digest_of(source: Digest, made: StillRows, name: str, build_id: bytes) -> Digest:
    """The digest of a whole build over `source`: its files are those of the input, each as its shards have become.

    Half a second for millions of shards: for a thread.
    """
    rows, counts, parts = made.columns()
    ends = np.cumsum(counts, dtype=np.int64)
    order = np.argsort(rows, kind="stable")[: source.num_shards]  # a row that the input does not have is none
    counts, firsts = counts[order].astype(np.int64), (ends - counts)[order]
    file_index = np.repeat(source.file_index, counts)
    parts = parts[np.repeat(firsts - (np.cumsum(counts) - counts), counts) + np.arange(len(file_index))]
    lengths = parts["length_bytes"]
    ends = np.cumsum(lengths, dtype=np.uint64)
    sizes = np.zeros(len(source.files), np.uint64)
    np.add.at(sizes, file_index, lengths)
    before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(sizes, dtype=np.uint64)])[file_index]
    files = [
        FileEntry(uri_of(build_id, file.uri), int(size), build_id.hex(), "none")
        for file, size in zip(source.files, sizes, strict=True)
    ]
    return Digest.build(name, files, parts["hash"], file_index, ends - lengths - before, lengths, parts["records"])
