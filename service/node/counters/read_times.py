"""How long reads of the object store take: the time of each, and the time in which any was under way. Pure.

Two times, because one cannot tell a store that has become slower from a node that asks for more at once: the
coordinator compares both (docs/decisions/0022-measuring.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb

# A read that takes longer hangs (a mount that is gone): it says nothing of the store's speed any more, and would keep
# this node busy for ever.
MOST_S = 60.0


@dataclass(frozen=True, slots=True)
class StoreReads:
    """Since the start; no counter in it ever falls. `busy_s`: in which at least one was under way; `request_s`: of all
    of them together, two at the same time count twice."""

    reads: int = 0  # that have come to their end
    size_bytes: int = 0  # that they brought
    busy_s: float = 0.0
    request_s: float = 0.0
    elapsed_s: float = 0.0
    oldest_s: float = 0.0  # so long the one has been under way that began first: this does fall

    def message(self, all_bytes: int) -> pb.StoreReads:
        """`all_bytes`: that the node has read there, whatever for."""
        times_us = (round(seconds * 1e6) for seconds in (self.busy_s, self.request_s, self.elapsed_s))
        busy_us, request_us, elapsed_us = times_us
        return pb.StoreReads(
            reads=self.reads, bytes=self.size_bytes, busy_us=busy_us, request_us=request_us, elapsed_us=elapsed_us,
            all_bytes=all_bytes, oldest_ms=round(1000 * self.oldest_s),
        )  # fmt: skip


class ReadTimes:
    """Not thread-safe. `now`: seconds of a clock that does not go back; one that does is taken to stand still."""

    def __init__(self, now: float) -> None:
        self._began_s = self._at_s = now
        self._under_way: dict[int, float] = {}  # read -> when it began; the longest first
        self._hang: dict[int, float] = {}  # so those that have taken longer than MOST_S
        self._begun = self._reads = self._bytes = 0
        self._busy_s = self._request_s = 0.0

    def begin(self, now: float) -> int:
        """The read that begins."""
        self._advance(now)
        self._begun += 1
        self._under_way[self._begun] = self._at_s
        return self._begun

    def end(self, read: int, size_bytes: int, now: float) -> None:
        """`size_bytes`: that it brought; 0 of one that failed, whose time counts all the same."""
        self._advance(now)
        self._under_way.pop(read, None)
        self._hang.pop(read, None)
        self._reads += 1
        self._bytes += size_bytes

    def at(self, now: float) -> StoreReads:
        self._advance(now)
        oldest_s = self._at_s - next(iter((self._hang or self._under_way).values()), self._at_s)
        return StoreReads(self._reads, self._bytes, self._busy_s, self._request_s, self._at_s - self._began_s, oldest_s)

    def _advance(self, now: float) -> None:
        while self._under_way:
            longest = next(iter(self._under_way))
            until = self._under_way[longest] + MOST_S
            if until > now:
                break
            self._pass(until)
            self._hang[longest] = self._under_way.pop(longest)
        self._pass(now)

    def _pass(self, now: float) -> None:
        seconds = max(now - self._at_s, 0.0)
        self._at_s += seconds
        self._busy_s += seconds if self._under_way else 0.0
        self._request_s += seconds * len(self._under_way)
