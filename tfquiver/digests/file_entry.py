"""One of the user's files, as the store listed it."""

from __future__ import annotations

from dataclasses import dataclass

COMPRESSIONS = ("none", "gzip", "zlib")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """`size_bytes` as stored; `generation`: the store's version of the object, "" where it has none.

    `compression` is "none", "gzip" or "zlib"; in a listing it may be "auto": nobody has looked at the first bytes yet.
    """

    uri: str
    size_bytes: int
    generation: str
    compression: str = "auto"
