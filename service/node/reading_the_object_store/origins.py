"""What is kept for each origin: a bucket of a store, or a file system that is mounted here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from tfquiver import errors
from tfquiver.stores.hanging_file_systems.mounts import Mounts
from tfquiver.stores.local import MOUNTS, path_of

MOST_IDLE, MOST = 16, 256


def bucket_of(uri: str) -> str:
    """ "gs://bucket" of gs://bucket/name."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"


def origin_of_remote(uri: str, place: str) -> str:
    """What hangs, and is paced, as a whole: a bucket. Of one name there are others at other endpoints.

    `place`: of the store, as Access.place; "": the scheme's public one, or this machine's own.
    """
    return f"{bucket_of(uri)} of {place}" if place else bucket_of(uri)


async def origin_of_file(uri: str, mounts: Mounts = MOUNTS) -> str:
    """What hangs as a whole: the mount. Waits for one that does not answer a second at most, and in no executor."""
    path = path_of(uri)
    if (mount := mounts.known(path)) is not None:
        return mount
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(ended.set)

    look_up = mounts.look_up(path)
    look_up.ended.add_done_callback(tell)
    try:
        async with asyncio.timeout(mounts.answers_s):
            await ended.wait()
    except TimeoutError:
        return mounts.late(look_up)
    return look_up.mount


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
