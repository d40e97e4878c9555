"""Shards that are given up while somebody here gets them: who has begun before does not keep them; who begins later
does, though it may be given what was under way then."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Getting:
    """What somebody gets, from its beginning until all is kept that is."""

    hash: bytes
    is_given_up: bool = False


class GivenUp:
    """Hashes. Lives on one loop.

    Args:
      drop: forgets in memory what was kept of one meanwhile.
    """

    def __init__(self, drop: Callable[[bytes], None]) -> None:
        self._drop = drop
        self._getting: dict[bytes, set[Getting]] = {}

    def __contains__(self, hash: bytes) -> bool:
        """Somebody gets it still who had begun when it was given up."""
        return any(one.is_given_up for one in self._getting.get(hash, ()))

    @contextlib.contextmanager
    def until_here(self, hash: bytes) -> Iterator[Getting]:
        """Around all of what gets a shard, and all of what keeps it."""
        one = Getting(hash)
        self._getting.setdefault(hash, set()).add(one)
        try:
            yield one
        finally:
            self._getting[hash].remove(one)
            if not self._getting[hash]:
                del self._getting[hash]
            if one.is_given_up and hash not in self:
                self._drop(hash)

    def getting(self) -> set[bytes]:
        return set(self._getting)

    def mark(self, hashes: Set[bytes]) -> None:
        """For those who get them now."""
        for hash in hashes & self._getting.keys():
            for one in self._getting[hash]:
                one.is_given_up = True
