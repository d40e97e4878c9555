"""The digest of a data set: the table of its shards, `hash -> location`. Read-only once built."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tfquiver import durable, errors, named_files
from tfquiver.digests import digest_file, digest_ids, formats
from tfquiver.digests.digest_file import Parts
from tfquiver.digests.digest_ids import Columns as Columns
from tfquiver.digests.file_entry import FileEntry as FileEntry
from tfquiver.digests.file_table import FileTable


@dataclass(frozen=True, slots=True)
class ShardRef:
    """One shard. `offset` and `length_bytes` are in the uncompressed stream of its file."""

    index: int
    hash: bytes  # SHA-256 of its raw bytes
    file: FileEntry
    file_index: int
    offset: int
    length_bytes: int
    records: int


class Digest:
    """Columnar: opening millions of shards is reading a file and checking its sums, a fraction of a second.

    Thread-safe. `hashes` is uint8 [shards, 32]; `file_index` uint32, `offsets` and `lengths` uint64, `records` uint32,
    each [shards]. Shards stand in file order; those of one file follow one another and cover all of it.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        columns = parts.columns
        self.hashes: npt.NDArray[np.uint8] = columns.hashes
        self.file_index: npt.NDArray[np.uint32] = columns.file_index
        self.offsets: npt.NDArray[np.uint64] = columns.offsets
        self.lengths: npt.NDArray[np.uint64] = columns.lengths
        self.records: npt.NDArray[np.uint32] = columns.records
        for column in (self.hashes, self.file_index, self.offsets, self.lengths, self.records):
            column.flags.writeable = False
        self.num_shards = len(self.lengths)
        self.num_records = int(self.records.sum(dtype=np.uint64))
        self.size_bytes = int(self.lengths.sum(dtype=np.uint64))

    @property
    def name(self) -> str:
        """For people; not part of any id."""
        return self._parts.name

    @property
    def content_root(self) -> bytes:
        """32 bytes; equal for every copy of the same data."""
        return self._parts.content_root

    @property
    def digest_id(self) -> bytes:
        """32 bytes; names this copy: content and locations."""
        return self._parts.digest_id

    @property
    def format(self) -> str:
        """One of tfquiver/digests/formats.py. "bytes": there are no records, each shard's count is 0."""
        return self._parts.format

    @property
    def files(self) -> Sequence[FileEntry]:
        return self._parts.files

    @property
    def memory_bytes(self) -> int:
        """About what it takes while it is open."""
        columns = (self.hashes, self.file_index, self.offsets, self.lengths, self.records)
        return sum(column.nbytes for column in columns) + self._parts.files.memory_bytes

    def shard(self, index: int) -> ShardRef:
        if not 0 <= index < self.num_shards:
            raise errors.InvalidArgumentError(f"digest {self.name!r} has no shard {index}: it has {self.num_shards}")
        file_index = int(self.file_index[index])
        return ShardRef(
            index,
            self.hashes[index].tobytes(),
            self.files[file_index],
            file_index,
            int(self.offsets[index]),
            int(self.lengths[index]),
            int(self.records[index]),
        )

    def file_shards(self, file_index: int) -> range:
        """Indices of the shards of one file; empty for an empty file."""
        key = np.uint32(file_index)
        start, stop = np.searchsorted(self.file_index, key, "left"), np.searchsorted(self.file_index, key, "right")
        return range(int(start), int(stop))

    @classmethod
    def build(
        cls,
        name: str,
        files: Sequence[FileEntry],
        hashes: npt.ArrayLike,
        file_index: npt.ArrayLike,
        offsets: npt.ArrayLike,
        lengths: npt.ArrayLike,
        records: npt.ArrayLike,
        format: str = formats.TFRECORD,
    ) -> Digest:
        """From columns (shapes as above). `format`: one of tfquiver/digests/formats.py.

        Raises CorruptDigestError when they do not fit each other.
        """
        columns = Columns(
            np.array(hashes, np.uint8).reshape(-1, 32),
            np.array(file_index, np.uint32),
            np.array(offsets, np.uint64),
            np.array(lengths, np.uint64),
            np.array(records, np.uint32),
        )
        table = FileTable.of(files)
        root = digest_ids.content_root(columns)
        own_id = digest_ids.digest_id(root, table.data, columns, format)
        parts = Parts(name, root, own_id, table, columns, format)
        digest_file.check(parts, f"digest {name!r}")
        return cls(parts)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Digest:
        """Reads a digest file into memory and checks every checksum in it.

        It is not mapped: a disk that fails later would end the process.

        Raises NotFoundError, or CorruptDigestError naming the file and the damaged part, or the typed error of a
        failed read.
        """
        name = os.fspath(path)
        try:
            with Path(path).open("rb", buffering=0) as file:
                buffer = np.empty(os.fstat(file.fileno()).st_size, np.uint8)
                view, at = buffer.data, 0
                while at < len(view) and (read := file.readinto(view[at:])):
                    at += read
        except IsADirectoryError as error:
            raise errors.InvalidArgumentError(f"{name}: is a directory: name a digest file (.tfqd)") from error
        except OSError as error:
            raise named_files.not_read(error, name, name) from error
        except ValueError as error:  # a NUL in the name
            raise errors.InvalidArgumentError(f"{name!r}: {error}") from error
        return cls(digest_file.decode(buffer[:at], name))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray, where: str = "digest") -> Digest:
        """As `open`; `where` names the bytes, which must not change any more, in messages."""
        return cls(digest_file.decode(np.frombuffer(data, np.uint8), where))

    def to_bytes(self) -> bytes:
        return b"".join(digest_file.encode(self._parts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file beside its name, syncs it, renames it: it is there whole or not at all.

        Raises ResourceExhaustedError (disk full), PermissionError_, NotFoundError (no such directory), naming the file.
        """
        try:  # others may be meant to read it: the umask says
            durable.write(Path(path), digest_file.encode(self._parts), 0o666)
        except OSError as error:
            raise named_files.not_written(error, os.fspath(path), path) from error

    def verify_ids(self) -> None:
        """Computes both ids anew. Raises CorruptDigestError when the digest carries others."""
        columns = self._parts.columns
        root = digest_ids.content_root(columns)
        if root != self.content_root:
            raise errors.CorruptDigestError(f"digest {self.name!r}: the content root is not that of its shards")
        if digest_ids.digest_id(root, self._parts.files.data, columns, self.format) != self.digest_id:
            raise errors.CorruptDigestError(f"digest {self.name!r}: the digest id is not that of its locations")
