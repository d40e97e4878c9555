"""Data sets that the dispatcher has taken, and that its disk has not: told to who keeps that disk.

TensorFlow does not look whether a graph was written (`kept_dataset` tells the trainer). Called by the
dispatcher's program.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from absl import logging

from tfquiver.sizes_durations_amounts.amounts import many

_HEADER = struct.Struct("<QI")  # of a TFRecord: each file is one
_MOST_NAMED = 3
_FRAME_BYTES = _HEADER.size + 4


class LostDatasets:
    """Not thread-safe."""

    def __init__(self, work_dir: Path) -> None:
        self._directory = work_dir / "datasets"
        self._seen: dict[str, bool] = {}  # name -> whether it is whole, or has been told of

    def look(self) -> list[str]:
        """Names of those that are empty or cut off, each once. A file that is being written is looked at twice. Raises
        OSError."""
        try:
            names = [entry.name for entry in os.scandir(self._directory) if entry.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            if self._seen.get(name):
                continue
            whole = _is_whole(self._directory / name)
            if not whole and name in self._seen:
                found.append(name)
            self._seen[name] = whole or name in self._seen
        if found:
            logging.error(
                "%s: the disk has not taken %s of trainers (%s): make room there; who distributes one is told so",
                self._directory.parent, many(len(found), "data set"), ", ".join(found[:_MOST_NAMED]),
            )  # fmt: skip
        return found


def _is_whole(path: Path) -> bool:
    with path.open("rb") as file:
        size_bytes, header = os.fstat(file.fileno()).st_size, file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return False
    length = int(_HEADER.unpack(header)[0])
    return size_bytes >= length + _FRAME_BYTES
