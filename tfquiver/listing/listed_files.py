"""The files of a listing as what its key is made of: objects only when somebody asks for them (pure)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import overload

from tfquiver.digests.file_entry import FileEntry

_LENGTH = struct.Struct("<Q")


class ListedFiles(Sequence[FileEntry]):
    """Sorted by URI, each once, compression "auto". Equal to any sequence of the same entries.

    Args:
      data: of each file its URI, its size in decimal digits and its generation, each behind its length (u64, little).
      count: of them.
    """

    __slots__ = ("_count", "_entries", "data")

    def __init__(self, data: bytes, count: int) -> None:
        self.data, self._count = data, count
        self._entries: list[FileEntry] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> FileEntry: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[FileEntry]: ...
    def __getitem__(self, number: int | slice) -> FileEntry | Sequence[FileEntry]:
        return self._made()[number]

    def __iter__(self) -> Iterator[FileEntry]:
        return iter(self._made())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ListedFiles):
            return self.data == other.data
        return isinstance(other, Sequence) and self._made() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ListedFiles({self._made()!r})"

    def _made(self) -> list[FileEntry]:
        if self._entries is None:
            texts = _texts(self.data)
            self._entries = [FileEntry(uri, int(size), generation) for uri, size, generation in zip(*[texts] * 3)]  # noqa: B905
        return self._entries


def _texts(data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        yield data[at - length : at].decode()
