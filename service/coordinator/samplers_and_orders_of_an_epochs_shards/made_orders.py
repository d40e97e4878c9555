"""The orders and units that sessions have asked for, made once for those that ask for the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, cast

from absl import logging

from tfquiver.log_files_and_lines.logs import about

T = TypeVar("T")
MADE_AT_ONCE = 20_000  # shards: what a session of fewer needs is made at once, in a few ms
_MADE_KEPT = 8  # orders and units that sessions to come may share
Key = tuple[bytes, str, int, int]  # the data set's digest id first
# Has something made elsewhere, and gives it to the second; None where that failed.
Run = Callable[[Callable[[], object], Callable[[object | None], None]], None]


class MadeOrders:
    def __init__(self, run: Run, wake: Callable[[bytes], None]) -> None:
        """`wake`: told of a data set of which something has been made."""
        self._run, self._wake = run, wake
        self._made: dict[Key, object] = {}  # oldest first
        self._making: set[Key] = set()

    def get(self, key: Key, shards: int, make: Callable[[], T]) -> T | None:
        """What a session of a data set of so many shards needs for an order of its own. None: it is being made; its
        readers are woken then."""
        found = self._made.get(key)
        if found is None and shards <= MADE_AT_ONCE:
            found = self._keep(key, make())
        if found is None and key not in self._making:
            self._making.add(key)
            self._run(make, functools.partial(self._has_been_made, key))
        return cast(T | None, found)

    def _has_been_made(self, key: Key, made: object | None) -> None:
        self._making.discard(key)
        if made is None:  # nobody is woken: they would have it tried again at once, for ever
            logging.error(
                "the order of data set %s could not be made; readers ask again",
                key[0].hex()[:8],
                extra=about(digest=key[0]),
            )
            return
        self._keep(key, made)
        self._wake(key[0])

    def _keep(self, key: Key, made: object) -> object:
        self._made[key] = made
        while len(self._made) > _MADE_KEPT:
            del self._made[next(iter(self._made))]
        return made
