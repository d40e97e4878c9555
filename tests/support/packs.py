"""Images to pack, and what is in the TFRecords that are made of them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from tfquiver.packing import pack, sources, targets
from tfquiver.reader.example import parse_example
from tfquiver.scanning import tfrecord

PNG = b"\x89PNG\r\n\x1a\n"


def read(path: Path) -> list[dict[str, Any]]:
    data, at, found = path.read_bytes(), 0, []
    assert sum(len(block.ends) for block in tfrecord.scan([data], name=path.name)), "its checksums are right"
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(parse_example(data[at + 12 : at + 12 + length]))
        at += 16 + length
    return found


def packed(source: Path, out: Path, part_bytes: int = 1 << 20, workers: int = 1) -> list[dict[str, Any]]:
    parts = sources.parts([source], part_bytes)
    pack.pack(parts, targets.target(str(out)), "data", workers)
    return [example for path in sorted(out.glob("*.tfrecord")) for example in read(path)]


def images(root: Path, count: int = 9) -> Path:
    for number in range(count):
        folder = root / ("cat" if number % 3 else "ant")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(PNG + bytes([number]) * 92)
    return root
