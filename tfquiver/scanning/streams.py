"""A file's uncompressed TFRecord stream, in chunks, with bounded memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace

from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.scanning import tfrecord
from tfquiver.stores import ObjectStore

CHUNK_BYTES = 4 << 20
READ_DEADLINE_S = 120.0
_WINDOW_BITS = {"gzip": 31, "zlib": 15}


def compression_of(head: bytes) -> str:
    """ "none", "gzip" or "zlib", from a file's first bytes (12 are enough)."""
    if tfrecord.starts_with_record(head):
        return "none"
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if len(head) >= 2 and head[0] & 0x0F == 8 and (head[0] << 8 | head[1]) % 31 == 0:
        return "zlib"
    return "none"


def resolve(entry: FileEntry, store: ObjectStore, deadline_s: float = READ_DEADLINE_S) -> FileEntry:
    """The entry with its compression settled, by a look at the first bytes when it is "auto"."""
    if entry.compression != "auto":
        return entry
    length = min(entry.size_bytes, tfrecord.HEADER_BYTES)
    head = store.read(entry.uri, 0, length, entry.generation, deadline_s) if length else b""
    return with_compression(entry, compression_of(head))


def with_compression(entry: FileEntry, compression: str) -> FileEntry:
    return replace(entry, compression=compression)


def stored_chunks(
    entry: FileEntry, store: ObjectStore, start: int = 0, deadline_s: float = READ_DEADLINE_S
) -> Iterator[bytes]:
    """The file's bytes as stored, from `start`; each read has `deadline_s`. Remote ones are read one chunk ahead."""
    ranges = ((at, min(CHUNK_BYTES, entry.size_bytes - at)) for at in range(start, entry.size_bytes, CHUNK_BYTES))
    if not store.remote:
        for at, length in ranges:
            yield store.read(entry.uri, at, length, entry.generation, deadline_s)
        return
    with ThreadPoolExecutor(1, "read-ahead") as reader:
        pending = None
        for at, length in ranges:
            ahead = reader.submit(copy_context().run, store.read, entry.uri, at, length, entry.generation, deadline_s)
            if pending is not None:
                yield pending.result()
            pending = ahead
        if pending is not None:
            yield pending.result()


def raw_chunks(
    entry: FileEntry, store: ObjectStore, start: int = 0, deadline_s: float = READ_DEADLINE_S
) -> Iterator[bytes]:
    """The uncompressed stream of a resolved entry. Compressed ones can only be read from `start` 0."""
    if entry.compression == "none":
        return stored_chunks(entry, store, start, deadline_s)
    if start:
        raise ValueError(f"{entry.uri}: a {entry.compression} stream can only be read from its start")
    return decompress(stored_chunks(entry, store, 0, deadline_s), entry.compression, entry.uri)


def decompress(chunks: Iterable[bytes], compression: str, name: str) -> Iterator[bytes]:
    """Inflates a GZIP or ZLIB stream (also several, one after another) into chunks of at most CHUNK_BYTES.

    Raises DataLossError naming the file when the stream is damaged or cut off.
    """
    inflater = zlib.decompressobj(_WINDOW_BITS[compression])
    fresh = True
    taken = 0
    for chunk in chunks:
        rest = chunk
        while rest:
            if inflater.eof and compression == "gzip":
                rest = rest.lstrip(b"\0")  # gzip members may be padded (tapes, block devices), as `gzip -d` accepts
                if not rest:
                    break
            if inflater.eof:
                inflater = zlib.decompressobj(_WINDOW_BITS[compression])
            fresh = False
            try:
                inflated = inflater.decompress(rest, CHUNK_BYTES)
            except zlib.error as error:
                at = taken + len(chunk) - len(rest)
                raise errors.DataLossError(
                    f"{name}: damaged {compression} stream near stored byte {at}: {error}"
                ) from error
            rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if inflated:
                yield inflated
        taken += len(chunk)
    while not inflater.eof and (inflated := inflater.decompress(b"", CHUNK_BYTES)):
        yield inflated
    if not inflater.eof and not fresh:
        raise errors.DataLossError(f"{name}: truncated {compression} stream: it ends at stored byte {taken}")
