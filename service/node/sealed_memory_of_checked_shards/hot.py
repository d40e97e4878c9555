"""The hot set: sealed memory of shards that cost something to make again; the least recently used goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from tfquiver.disk_space_of_shards.entry_size import PAGE_BYTES
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard


class HotSet:
    """Thread-safe. Invariants: `size_bytes <= limit_bytes`, where memory counts in whole pages, and at most
    `limit_shards` are kept, each of which holds a descriptor. What readers still hold of evicted shards is theirs.
    """

    def __init__(self, limit_bytes: int, limit_shards: int = 16384) -> None:
        self.limit_bytes, self.limit_shards = limit_bytes, limit_shards
        self._shards: OrderedDict[bytes, ReadyShard] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def __len__(self) -> int:
        return len(self._shards)

    def get(self, hash: bytes) -> ReadyShard | None:
        """Its own descriptor of the shard, or None. Raises NoMemoryError."""
        with self._lock:
            kept = self._shards.get(hash)
            if kept is None:
                return None
            self._shards.move_to_end(hash)
            return kept.share("hot")

    def put(self, hash: bytes, ready: ReadyShard) -> None:
        """Keeps a descriptor of its own, unless the shard is there already or larger than the whole set.

        Raises NoMemoryError: it is not kept.
        """
        if _memory_bytes(ready) > self.limit_bytes or not self.limit_shards:
            return
        with self._lock:
            if hash in self._shards:
                return
            self._shrink(self.limit_bytes - _memory_bytes(ready), self.limit_shards - 1)
            self._shards[hash] = ready.share()
            self._size_bytes += _memory_bytes(ready)

    def drop(self, hash: bytes) -> None:
        with self._lock:
            if kept := self._shards.pop(hash, None):
                self._forget(kept)

    def keep_only(self, wanted: Callable[[bytes], bool]) -> None:
        for hash in [hash for hash in list(self._shards) if not wanted(hash)]:
            self.drop(hash)

    def give_up_half(self) -> int:
        """Where the process is out of descriptors or memory; how many shards have gone."""
        with self._lock:
            before = len(self._shards)
            self._shrink(self.limit_bytes, before // 2)
            return before - len(self._shards)

    def close(self) -> None:
        with self._lock:
            self._shrink(0, 0)

    def _shrink(self, most_bytes: int, most_shards: int) -> None:
        while self._size_bytes > most_bytes or len(self._shards) > most_shards:
            _, oldest = self._shards.popitem(last=False)
            self._forget(oldest)

    def _forget(self, kept: ReadyShard) -> None:
        self._size_bytes -= _memory_bytes(kept)
        kept.close()


def _memory_bytes(ready: ReadyShard) -> int:
    return -(-ready.length_bytes // PAGE_BYTES) * PAGE_BYTES
