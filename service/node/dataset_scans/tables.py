"""Tables of files on their way from one node to another, and what is asked of one that comes: nothing that a peer says
is believed but the hashes, which every read checks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tfquiver import errors
from tfquiver.digests import formats
from tfquiver.digests.file_entry import FileEntry
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import SHARD_LIMIT_BYTES, CutPolicy
from tfquiver.scanning.file_scan import ScannedFile
from tfquiver.scanning.scan_journal import ROW, Rows
from tfquiver.scanning.streams import with_compression
from tfquiver.sizes_durations_amounts.amounts import many

MESSAGE_ROWS = 1 << 15  # of 42 bytes or so
_COMPRESSED_ROWS = 1 << 22  # of a file whose decompressed length nobody knows
_HASH_BYTES = 32
_LONGEST_SHARD_BYTES = (1 << 32) - 1
_COMPRESSIONS = {
    "none": types_pb2.COMPRESSION_NONE,
    "gzip": types_pb2.COMPRESSION_GZIP,
    "zlib": types_pb2.COMPRESSION_ZLIB,
}
_NAMES: dict[int, str] = {number: name for name, number in _COMPRESSIONS.items()}


def messages(file: int, scanned: ScannedFile) -> Iterator[pb.FileTable]:
    rows = scanned.rows
    for at in range(0, max(1, len(rows)), MESSAGE_ROWS):
        some = rows[at : at + MESSAGE_ROWS]
        yield pb.FileTable(
            file=file,
            compression=_COMPRESSIONS[scanned.entry.compression],
            hashes=some["hash"].tobytes(),
            lengths=some["length"].tolist(),
            records=some["records"].tolist(),
            more=at + MESSAGE_ROWS < len(rows),
        )


class Tables:
    """Put together from what one call brings.

    Args:
      files: that were asked for.
    """

    def __init__(self, files: list[FileEntry], policy: CutPolicy) -> None:
        self._files, self._policy = files, policy
        self._left = set(range(len(files)))
        self._parts: list[Rows] = []  # of the open one
        self._shards = 0  # in them
        self._open: int | None = None

    def take(self, message: pb.FileTable) -> tuple[int, ScannedFile] | None:
        """A file that is whole now, by its number. Raises ProtocolError: it cannot be the table of what was asked."""
        file, shards = message.file, len(message.lengths)
        if file not in self._left or (self._open is not None and file != self._open):
            raise errors.ProtocolError(f"tables: of file {file}, which is not asked for now")
        if message.compression not in _NAMES:
            raise errors.ProtocolError(f"tables[{file}].compression: {message.compression} is not known")
        entry = self._files[file]
        found = with_compression(entry, _NAMES[message.compression])
        if entry.compression not in ("auto", found.compression):
            raise errors.ProtocolError(f"tables[{file}].compression: it is {entry.compression}")
        if len(message.hashes) != _HASH_BYTES * shards or len(message.records) != shards:
            raise errors.ProtocolError(f"tables[{file}]: {shards} lengths with other numbers of hashes or records")
        plain = found.compression == "none"
        most = entry.size_bytes // min(self._policy.min_bytes, SHARD_LIMIT_BYTES) + 1 if plain else _COMPRESSED_ROWS
        if self._shards + shards > most:
            raise errors.ProtocolError(f"tables[{file}]: more than {many(most, 'shard')}")
        if message.more and not shards:  # of these there might come any number
            raise errors.ProtocolError(f"tables[{file}]: a part without shards")
        rows = np.zeros(shards, ROW)
        rows["hash"] = np.frombuffer(message.hashes, np.uint8).reshape(shards, _HASH_BYTES)
        rows["length"], rows["records"] = message.lengths, message.records
        has_records = self._policy.format == formats.TFRECORD
        if shards and (
            rows["length"].min() < 1
            or rows["length"].max() > _LONGEST_SHARD_BYTES
            or not (rows["records"].min() if has_records else rows["records"].max() == 0)
        ):
            raise errors.ProtocolError(f"tables[{file}]: no shards of {self._policy.format} are so")
        self._parts.append(rows)
        self._shards += shards
        self._open = file
        if message.more:
            return None
        whole = np.concatenate(self._parts)
        self._parts, self._shards, self._open = [], 0, None
        self._left.remove(file)
        ends = np.cumsum(whole["length"], dtype=np.uint64)
        whole["offset"] = ends - whole["length"]
        size_bytes = int(ends[-1]) if len(whole) else 0
        if size_bytes != entry.size_bytes if plain else bool(size_bytes) and not entry.size_bytes:
            raise errors.ProtocolError(f"tables[{file}]: {size_bytes} bytes of a file of {entry.size_bytes}")
        return file, ScannedFile(found, whole)
