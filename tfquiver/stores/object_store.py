"""What a store is to those who use one. Pure."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

THERE_ARE = (
    "there are gs://, s3://, az://, https:// and paths of this machine: copy the files to one of these, or mount where "
    "they are and name them by path"
)


def scheme_of(uri: str) -> str:
    """ "gs" of gs://bucket/name; "file" of a plain path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", uri)
    return match[1].lower() if match else "file"


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """`generation` names this version of the object: it changes when the object does. "": the store has none."""

    uri: str
    size_bytes: int
    generation: str


@dataclass(frozen=True, slots=True)
class Parts:
    """Of one generation of an object ("": of whichever is there): parts that follow one another.

    Args:
      offset: of the first, in bytes.
      lengths: bytes of each part, none of them 0.
    """

    uri: str
    offset: int
    lengths: Sequence[int]
    generation: str

    @property
    def length_bytes(self) -> int:
        return sum(self.lengths)

    def after(self, come: int) -> Parts:
        """Those that follow the first `come`."""
        return replace(self, offset=self.offset + sum(self.lengths[:come]), lengths=self.lengths[come:])


class ObjectStore(Protocol):
    """Thread-safe; every call blocks. Messages of all errors name the object."""

    @property
    def remote(self) -> bool:
        """Whether a read is a round trip that is worth starting early."""

    def list(self, pattern: str) -> list[ObjectInfo]:
        """Objects that match a glob (`*`, `?`, `[...]` within a name, `**` across `/`), sorted by URI."""

    def stat(self, uri: str) -> ObjectInfo:
        """Raises NotFoundError, PermissionError_, UnauthenticatedError, UnavailableError."""

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        """Exactly `length` bytes from `offset` of that generation ("": of whichever is there).

        Retries with backoff inside `deadline_s` seconds.

        Raises:
          StaleDigestError: the object is gone, is of another generation, or is shorter.
          NotFoundError: no generation was asked for and the object is not there.
          PermissionError_, UnauthenticatedError: the store refused; no credentials, or wrong ones.
          UnavailableError: the store could not be reached, or failed, until the deadline.
        """

    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        """One range in parts: each is given to `take`, in this thread, once it has come whole.

        What fails on the way is tried again from the first part that has not come; none is given twice. Parts may be
        of a version that turns out not to be the one that was asked for: check them.

        Args:
          deadline_s: seconds in which the next part has to come.

        Raises:
          As `read`, for those parts that have not come; and whatever `take` raises, which ends it.
        """

    def close(self) -> None: ...


class ReadsAtOnce(ABC):
    """A store that has `read`: what has come at once is given in parts."""

    @abstractmethod
    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        """As ObjectStore.read."""

    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        data = self.read(parts.uri, parts.offset, parts.length_bytes, parts.generation, deadline_s)
        at = 0
        for length in parts.lengths:
            take(data[at : at + length] if length != len(data) else data)
            at += length


class ReadsInParts(ABC):
    """A store that has `read_parts`: one part is all of a range."""

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        if not length:
            return b""
        found: list[bytes] = []
        self.read_parts(Parts(uri, offset, [length], generation), deadline_s, found.append)
        return found[0]

    @abstractmethod
    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        """As ObjectStore.read_parts."""


class AroundStore:
    """For a store that looks on while another one is read. Closing it leaves the other one open: that is
    everybody's."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def remote(self) -> bool:
        return self._store.remote

    def list(self, pattern: str) -> list[ObjectInfo]:
        return self._store.list(pattern)

    def stat(self, uri: str) -> ObjectInfo:
        return self._store.stat(uri)

    def close(self) -> None: ...


class CountedStore(AroundStore):
    """A store that tells of every read.

    Args:
      before: told the URI and size of each read that is about to be; may wait, or raise to stop.
      after: told the size of each that succeeded, in the reading thread; may raise to stop.
    """

    def __init__(
        self, store: ObjectStore, after: Callable[[int], None], before: Callable[[str, int], None] = lambda *_: None
    ) -> None:
        super().__init__(store)
        self._after, self._before = after, before

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        self._before(uri, length)
        data = self._store.read(uri, offset, length, generation, deadline_s)
        self._after(length)
        return data

    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        def counted(part: bytes) -> None:
            self._after(len(part))
            take(part)

        self._before(parts.uri, parts.length_bytes)
        self._store.read_parts(parts, deadline_s, counted)
