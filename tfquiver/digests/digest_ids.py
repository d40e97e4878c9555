"""The two names of a digest: the content root (what is in it) and the digest id (this copy of it)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.digests import formats

_ROWS_AT_ONCE = 1 << 18
_DOMAINS = {formats.TFRECORD: b"tfquiver digest v1\0", formats.BYTES: b"tfquiver digest v2\0"}


@dataclass(frozen=True, slots=True)
class Columns:
    """A digest's shards, in order. `n` shards:

    hashes: uint8 [n, 32], SHA-256 of the raw bytes. file_index: uint32 [n]. offsets, lengths: uint64 [n], in the
    uncompressed stream of the file. records: uint32 [n].
    """

    hashes: npt.NDArray[np.uint8]
    file_index: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    records: npt.NDArray[np.uint32]


def content_root(columns: Columns) -> bytes:
    """SHA-256 over the ordered hashes and lengths: equal for every copy of the same shards."""
    total = hashlib.sha256(b"tfquiver content v1\0")
    for start in range(0, len(columns.lengths), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        lengths = np.ascontiguousarray(columns.lengths[rows], "<u8").view(np.uint8).reshape(-1, 8)
        total.update(np.concatenate([columns.hashes[rows], lengths], axis=1).data)
    return total.digest()


def digest_id(root: bytes, file_table: bytes, columns: Columns, format: str) -> bytes:
    """SHA-256 over the content root and where everything lies; `file_table` is the section's bytes."""
    total = hashlib.sha256(_DOMAINS[format] + root)
    total.update(len(file_table).to_bytes(8, "little") + file_table)
    total.update(len(columns.lengths).to_bytes(8, "little"))
    for column in (columns.file_index, columns.offsets, columns.lengths, columns.records):
        total.update(np.ascontiguousarray(column).data)
    return total.digest()
