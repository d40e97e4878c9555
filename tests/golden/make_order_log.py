"""Writes tests/golden/order_log_v1, by hand from docs/formats.md. Not run by tests: the file must not change."""

from __future__ import annotations

import struct
from pathlib import Path

import google_crc32c

PATH = Path(__file__).parent / "order_log_v1"
# Six shards of 5 records; shard 4 leaves the pool with some of its records drawn, and comes back.
ENTRIES = [(4, 0), (1, 0), (0, 3), (4, 6 | 1 << 63), (5, 9), (4, 10), (2, 14), (3, 21), (0xFFFFFFFF, 30)]


def main() -> None:
    header = struct.pack("<4sBBH32s6Q", b"TQOL", 1, 0, 0, bytes(range(32)), 0, 1234, 5678, 300, 200, 6)
    crc = google_crc32c.value(header)
    out = header + struct.pack("<I", crc)
    for shard, drawn in ENTRIES:
        entry = struct.pack("<IQ", shard, drawn)
        crc = google_crc32c.extend(crc, entry)
        out += entry + struct.pack("<I", crc)
    PATH.write_bytes(out)


if __name__ == "__main__":
    main()
