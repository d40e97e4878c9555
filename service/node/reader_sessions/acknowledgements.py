"""A reader's acknowledgements on their way: waiting, under way by one call at most, durable. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MAX_BY_ACK, MAX_BY_LEASE = 16384, 1024  # shards in one call


class Acknowledgements:
    def __init__(self) -> None:
        self._waiting: list[int] = []
        self._under_way: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[int]:
        """The shards whose acknowledgement is not durable."""
        yield from self._waiting
        yield from self._under_way

    @property
    def unsettled(self) -> bool:
        return bool(self._waiting or self._under_way)

    @property
    def to_flush(self) -> bool:
        """Some wait, and nothing is under way that would send them when it has come back."""
        return bool(self._waiting and not self._under_way)

    def add(self, shard: int) -> None:
        self._waiting.append(shard)

    def drop(self, lost: set[int]) -> None:
        """They are no longer this reader's to acknowledge."""
        self._waiting = [shard for shard in self._waiting if shard not in lost]

    def take(self, most: int) -> tuple[int, ...]:
        """Those that a call may have now; none while another one is under way."""
        if not self._under_way:
            self._under_way = tuple(self._waiting[:most])
            del self._waiting[:most]
            return self._under_way
        return ()

    def durable(self) -> None:
        """What was under way has arrived."""
        self._under_way = ()

    def take_back(self, shards: Iterable[int]) -> None:
        """These were under way with a call that nobody waits for any more."""
        self._waiting, self._under_way = [*shards, *self._waiting], ()
