"""What is kept for each origin: a bucket of a store, or a file system that is mounted here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from tfquiver import errors
from tfquiver.stores import scheme_of
from tfquiver.stores.local import MOUNTS, path_of

MOST_IDLE, MOST = 16, 256


def bucket_of(uri: str) -> str:
    """ "gs://bucket" of gs://bucket/name."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"


async def origin_of(uri: str) -> str:
    """What hangs as a whole. Waits for a mount that does not answer a second at most."""
    if scheme_of(uri) != "file":
        return bucket_of(uri)
    path = path_of(uri)
    mount = MOUNTS.known(path)
    return await asyncio.to_thread(MOUNTS.of, path) if mount is None else mount


class PerOrigin(Protocol):
    @property
    def idle(self) -> bool: ...

    def forget(self) -> None:
        """It was idle, and is not wanted any more."""


T = TypeVar("T", bound=PerOrigin)


class Origins(Generic[T]):
    """Not thread-safe. Of those about which nothing is going on, few are kept: the last that were used."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._by_name: dict[str, T] = {}  # the last that was used last

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._by_name.values()))

    def at(self, name: str) -> T:
        """Raises UnavailableError: too many are busy or hang, each of which may take threads."""
        found = self._by_name.pop(name, None)
        if found is None:
            idle = [other for other, there in self._by_name.items() if there.idle]
            spare = max(len(idle) - MOST_IDLE, len(self._by_name) - MOST) + 1
            for other in idle[: max(spare, 0)]:
                self._by_name.pop(other).forget()
            if len(self._by_name) >= MOST:
                raise errors.UnavailableError(f"{name}: {MOST} other buckets and mounts are being read or hang")
            found = self._make(name)
        self._by_name[name] = found
        return found
