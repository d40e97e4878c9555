"""Shards that are given up while somebody here gets them: nobody keeps them then, until nobody does any more."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Set


class GivenUp:
    """Hashes. Lives on one loop.

    Args:
      drop: forgets in memory what was kept of one meanwhile.
    """

    def __init__(self, drop: Callable[[bytes], None]) -> None:
        self._drop = drop
        self._getting: Counter[bytes] = Counter()
        self._marked: set[bytes] = set()

    def __contains__(self, hash: bytes) -> bool:
        return hash in self._marked

    @contextlib.contextmanager
    def until_here(self, hash: bytes) -> Iterator[None]:
        """Around all of what gets a shard, and all of what keeps it."""
        self._getting[hash] += 1
        try:
            yield
        finally:
            self._getting[hash] -= 1
            if not self._getting[hash]:
                del self._getting[hash]
                if hash in self._marked:
                    self._marked.remove(hash)
                    self._drop(hash)

    def getting(self) -> set[bytes]:
        return set(self._getting)

    def mark(self, hashes: Set[bytes]) -> None:
        """Those of them that somebody gets now."""
        self._marked |= hashes & self._getting.keys()
