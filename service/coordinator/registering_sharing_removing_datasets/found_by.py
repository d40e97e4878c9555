"""What data sets are found by, and by which data set: each removal costs what there is of it, however many others there
are. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class FoundBy(Generic[K, V]):
    """Keys of one kind, those set last last; of more than so many those set first go.

    Args:
      of: the digest id of a value.
    """

    def __init__(self, most: int, of: Callable[[V], bytes]) -> None:
        self._most, self._of = most, of
        self._values: dict[K, V] = {}
        self._keys: dict[bytes, dict[K, None]] = {}  # by digest id

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(list(self._values.items()))

    def set(self, key: K, value: V) -> None:
        self.forget(key)
        self._values[key] = value
        self._keys.setdefault(self._of(value), {})[key] = None
        while len(self._values) > self._most:
            self.forget(next(iter(self._values)))

    def forget(self, key: K) -> None:
        if (value := self._values.pop(key, None)) is None:
            return
        digest_id = self._of(value)
        keys = self._keys[digest_id]
        del keys[key]
        if not keys:
            del self._keys[digest_id]

    def forget_data_set(self, digest_id: bytes) -> None:
        for key in list(self._keys.get(digest_id, ())):
            self.forget(key)
