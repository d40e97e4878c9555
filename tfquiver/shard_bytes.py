"""A shard's raw bytes, from the store and never wrong: what comes back has the shard's hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tfquiver import errors, streams
from tfquiver.digest import Digest, ShardRef
from tfquiver.stores import ObjectStore


def read_shard(shard: ShardRef, store: ObjectStore, deadline_s: float = streams.READ_DEADLINE_S) -> bytes:
    """One shard of an uncompressed file, with one range read. Blocks.

    Raises:
      StaleDigestError: the object is gone, changed, or holds other bytes there; names it.
      PermissionError_, UnavailableError: from the store.
    """
    if shard.file.compression != "none":
        raise ValueError(f"{shard.file.uri}: a {shard.file.compression} file is read as a whole, with read_file_shards")
    data = store.read(shard.file.uri, shard.offset, shard.length_bytes, shard.file.generation, deadline_s)
    return _checked(shard, data)


def read_file_shards(
    digest: Digest, file_index: int, store: ObjectStore, deadline_s: float = streams.READ_DEADLINE_S
) -> Iterator[tuple[ShardRef, bytes]]:
    """All shards of one file in order, with one pass over it: the only way into a compressed file.

    Holds about one shard and two chunks in memory. `deadline_s` is for each read. Raises as read_shard does, and
    StaleDigestError also where the stream is damaged: it was sound when the digest was built.
    """
    entry = digest.files[file_index]
    chunks = streams.raw_chunks(entry, store, 0, deadline_s)
    rest = memoryview(b"")
    for index in digest.file_shards(file_index):
        shard, pieces, left = digest.shard(index), [], int(digest.lengths[index])
        while left:
            rest = rest or memoryview(_next(chunks, shard))
            pieces.append(rest[:left])
            left -= len(pieces[-1])
            rest = rest[len(pieces[-1]) :]
        yield shard, _checked(shard, b"".join(pieces))


def _next(chunks: Iterator[bytes], shard: ShardRef) -> bytes:
    try:
        chunk = next(chunks, b"")
    except errors.DataLossError as error:
        raise errors.StaleDigestError(f"{error}; it was sound when the digest was built") from error
    if not chunk:
        raise errors.StaleDigestError(f"{shard.file.uri}: the stream ends inside the shard at offset {shard.offset}")
    return chunk


def _checked(shard: ShardRef, data: bytes) -> bytes:
    if hashlib.sha256(data).digest() != shard.hash:
        raise errors.StaleDigestError(
            f"{shard.file.uri}: the {shard.length_bytes} bytes at offset {shard.offset} are not those that the digest "
            "names; the object has changed: build the digest again"
        )
    return data
