"""Writes entry_v1_raw and entry_v1_zstd, entries of the store, beside this file.

Run it (python -m tests.golden.make_entries) only when the format gets a new version; then keep the old files too.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import google_crc32c
import zstandard

from tfquiver.service.node.disk import entry

HERE = Path(__file__).parent
RAW = b"".join(b"record %d of the golden shard\n" % i for i in range(200))


def entry_of(kind: int) -> bytes:
    """The file of an entry. What zstd makes of the bytes differs by its version; the header and raw bodies do not."""
    stored = RAW if kind == entry.RAW else zstandard.ZstdCompressor(level=1).compress(RAW)
    header = entry.Header(
        kind,
        len(RAW),
        len(stored),
        google_crc32c.value(RAW),
        google_crc32c.value(stored),
        hashlib.sha256(RAW).digest(),
    )
    return entry.encode(header) + stored


if __name__ == "__main__":
    (HERE / "entry_v1_raw").write_bytes(entry_of(entry.RAW))
    (HERE / "entry_v1_zstd").write_bytes(entry_of(entry.ZSTD))
