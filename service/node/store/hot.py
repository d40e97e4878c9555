"""The hot set: sealed memory of shards that cost something to make again; the least recently used goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from tfquiver.service.node.ready_shard import ReadyShard


class HotSet:
    """Thread-safe. Invariant: `size_bytes <= limit_bytes`. What readers still hold of evicted shards is theirs."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._shards: OrderedDict[bytes, ReadyShard] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def get(self, hash: bytes) -> ReadyShard | None:
        """Its own descriptor of the shard, or None."""
        with self._lock:
            kept = self._shards.get(hash)
            if kept is None:
                return None
            self._shards.move_to_end(hash)
            return kept.share("hot")

    def put(self, hash: bytes, ready: ReadyShard) -> None:
        """Keeps a descriptor of its own, unless the shard is there already or larger than the whole set."""
        if ready.length_bytes > self.limit_bytes:
            return
        with self._lock:
            if hash in self._shards:
                return
            while self._size_bytes + ready.length_bytes > self.limit_bytes:
                _, oldest = self._shards.popitem(last=False)
                self._forget(oldest)
            self._shards[hash] = ready.share()
            self._size_bytes += ready.length_bytes

    def drop(self, hash: bytes) -> None:
        with self._lock:
            if kept := self._shards.pop(hash, None):
                self._forget(kept)

    def keep_only(self, wanted: Callable[[bytes], bool]) -> None:
        for hash in [hash for hash in list(self._shards) if not wanted(hash)]:
            self.drop(hash)

    def close(self) -> None:
        with self._lock:
            for kept in self._shards.values():
                kept.close()
            self._shards.clear()
            self._size_bytes = 0

    def _forget(self, kept: ReadyShard) -> None:
        self._size_bytes -= kept.length_bytes
        kept.close()
