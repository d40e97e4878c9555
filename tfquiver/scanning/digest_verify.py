"""Does the store still hold what a digest says? Reads every file once and hashes its shards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tfquiver import errors, stores
from tfquiver.digests.digest import Digest
from tfquiver.scanning import streams
from tfquiver.stores import ObjectStore


@dataclass(frozen=True, slots=True)
class Problem:
    """`offset`: in the uncompressed stream; None when it is about the whole file."""

    uri: str
    offset: int | None
    what: str


def check_content(
    digest: Digest,
    store_for: Callable[[str], ObjectStore] = stores.for_uri,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Problem]:
    """Yields what is wrong, file by file; nothing when all is well.

    `progress` is told the raw bytes checked since the last call. UnavailableError is raised, not yielded: a store that
    cannot be reached says nothing about its content.
    """
    for file_index, file in enumerate(digest.files):
        try:
            chunks = streams.raw_chunks(file, store_for(file.uri))
            yield from _check_file(digest, file_index, chunks, progress)
        except (errors.StaleDigestError, errors.DataLossError, errors.NotFoundError) as error:
            yield Problem(file.uri, None, str(error))


def _check_file(
    digest: Digest, file_index: int, chunks: Iterator[bytes], progress: Callable[[int], None]
) -> Iterator[Problem]:
    uri, rest = digest.files[file_index].uri, b""
    for index in digest.file_shards(file_index):
        shard, left, total = digest.shard(index), int(digest.lengths[index]), hashlib.sha256()
        while left:
            rest = rest or next(chunks, b"")
            if not rest:
                yield Problem(uri, shard.offset, f"shard {index} is cut off: the stream ends")
                return
            total.update(rest[:left])
            taken = min(left, len(rest))
            rest, left = rest[taken:], left - taken
            progress(taken)
        if total.digest() != shard.hash:
            yield Problem(uri, shard.offset, f"shard {index} of {shard.length_bytes} bytes has another hash")
    if rest or next(chunks, b""):
        yield Problem(uri, None, "the stream goes on after the last shard")
