"""One file cut into shards: hashed, and with their bytes when they are asked for."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator

import google_crc32c

from tfquiver.digests import formats
from tfquiver.digests.file_entry import FileEntry
from tfquiver.scanning import streams, tfrecord
from tfquiver.scanning.bytes_cut import cut_bytes
from tfquiver.scanning.cut_shard import CutShard as CutShard
from tfquiver.scanning.cutting import CutPolicy, Cutter
from tfquiver.stores import ObjectStore


def settled(
    entry: FileEntry, store: ObjectStore, policy: CutPolicy, deadline_s: float = streams.READ_DEADLINE_S
) -> FileEntry:
    """The entry with its compression settled: files that are cut as bytes are taken as they are stored."""
    if policy.format == formats.BYTES:
        return streams.with_compression(entry, "none")
    return streams.resolve(entry, store, deadline_s)


def cut_file(
    entry: FileEntry,
    store: ObjectStore,
    policy: CutPolicy,
    *,
    start: int = 0,
    keep_data: bool = True,
    deadline_s: float = streams.READ_DEADLINE_S,
) -> Iterator[CutShard]:
    """The shards of one file, in order. Blocks on the store; holds about one shard and two chunks in memory.

    Args:
      entry: as listed; "auto" compression is settled by a look at the file (see `settled`).
      start: where a shard begins, to go on from there; uncompressed files only.
      keep_data: without it the shards' bytes are dropped as they are hashed, so that even a huge record needs no room.
      deadline_s: for each read.

    Raises:
      DataLossError: a damaged or truncated record; names file and offset.
      StaleDigestError, NotFoundError, PermissionError_, UnavailableError: from the store.
    """
    entry = settled(entry, store, policy, deadline_s)
    plain = entry.compression == "none"
    chunks = streams.raw_chunks(entry, store, start, deadline_s)
    if policy.format == formats.BYTES:
        return cut_bytes(
            chunks, policy, name=entry.uri, stream_bytes=entry.size_bytes, start=start, keep_data=keep_data
        )
    blocks = tfrecord.scan(chunks, name=entry.uri, stream_bytes=entry.size_bytes if plain else None, start=start)
    return cut_blocks(blocks, policy, start, keep_data)


def cut_blocks(blocks: Iterable[tfrecord.Block], policy: CutPolicy, start: int, keep_data: bool) -> Iterator[CutShard]:
    """Cuts a scanned stream that begins at offset `start`."""
    feed = Cutter(policy).feed
    shard = _OpenShard(start, keep_data)
    before = 0  # bytes, in earlier blocks, of a record that is not whole yet
    for block in blocks:
        data, taken, last = block.data, 0, -before
        for end, crc in zip(block.ends, block.crcs, strict=True):
            shard.records += 1
            if feed(end - last, crc):
                shard.add(data[taken:end])
                yield shard.close()
                shard = _OpenShard(shard.offset + shard.length_bytes, keep_data)
                taken = end
            last = end
        shard.add(data[taken:])
        before = len(data) - last
    if shard.length_bytes:
        yield shard.close()


class _OpenShard:
    def __init__(self, offset: int, keep_data: bool) -> None:
        self.offset = offset
        self.length_bytes = 0
        self.records = 0
        self._sha = hashlib.sha256()
        self._crc = 0
        # BytesIO hands its buffer over without a copy; a shard that lies in one piece is not copied into it at all.
        self._pieces = io.BytesIO()
        self._only = b""
        self._keep = keep_data

    def add(self, piece: bytes) -> None:
        if not piece:
            return
        self._sha.update(piece)
        self._crc = google_crc32c.extend(self._crc, piece)
        if self._keep:
            if not self.length_bytes:
                self._only = piece
            else:
                if self._only:
                    self._pieces.write(self._only)
                    self._only = b""
                self._pieces.write(piece)
        self.length_bytes += len(piece)

    def close(self) -> CutShard:
        data = self._only or self._pieces.getvalue()
        return CutShard(self._sha.digest(), self.offset, self.length_bytes, self.records, self._crc, data)
