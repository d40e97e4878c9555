"""What this node tells the coordinator it holds: a full list once, then numbered changes, a bounded part at a time.

`add` and `remove` may be called from any thread; the rest belongs to the heartbeat. A report is the same until it is
known to have arrived, so that repeating a heartbeat is harmless.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb

MAX_HASHES = 16384


class InventoryReports:
    """Args:
    hashes: every hash that is held now; asked when everything has to be told.
    on_change: called (in the changing thread) when there is something new to tell; once until a report is made:
      who makes them looks at `waiting` before it waits to be called again.
    """

    def __init__(self, hashes: Callable[[], Iterable[bytes]], on_change: Callable[[], None]) -> None:
        self._hashes, self._on_change = hashes, on_change
        self._changes: deque[tuple[bytes, bool]] = deque()
        self._snapshot: list[bytes] | None = None
        self._told = 0  # of the snapshot
        self._full_next = True
        self._version = 0
        self._report: pb.Inventory | None = None
        self._said = False  # to `on_change`; what comes before the next report is in that
        self._taken = 0  # changes that reports were made of
        self.told = 0  # changes that have arrived

    def add(self, hash: bytes) -> None:
        self._change(hash, True)

    def remove(self, hash: bytes) -> None:
        self._change(hash, False)

    @property
    def made(self) -> int:
        """Changes so far. When `told` is as many, all of them have arrived."""
        return self._taken + len(self._changes)

    @property
    def waiting(self) -> bool:
        """Is there more to tell than the report under way?"""
        return bool(self._full_next or self._snapshot or self._changes)

    def report(self) -> pb.Inventory:
        """What the next heartbeat carries; version 0 when nothing changed."""
        if self._report is None:
            self._report = self._next()
            self._said = False  # not before: what came while it was made is in it, or `waiting`
        return self._report

    def arrived(self, resend: bool) -> None:
        """The report has been applied. `resend`: the coordinator has lost track, so begin with everything again."""
        self._report = None
        if resend:
            self._full_next, self._snapshot = True, None
        elif self._snapshot is None:
            self.told = self._taken

    def _change(self, hash: bytes, held: bool) -> None:
        self._changes.append((hash, held))
        if not self._said:
            self._said = True
            self._on_change()

    def _next(self) -> pb.Inventory:
        full = self._full_next
        if full:
            # Changes made while this list was drawn are told after it; the last word on a hash is the right one.
            self._snapshot, self._told, self._full_next = list(self._hashes()), 0, False
        if self._snapshot is not None:
            part = self._snapshot[self._told : self._told + MAX_HASHES]
            self._told += len(part)
            if self._told == len(self._snapshot):
                self._snapshot = None
            self._version += 1
            return pb.Inventory(full=full, version=self._version, added=part, more=self._snapshot is not None)
        last: dict[bytes, bool] = {}
        while self._changes and len(last) < MAX_HASHES:
            hash, held = self._changes.popleft()
            last[hash] = held
            self._taken += 1
        if not last:
            return pb.Inventory()
        self._version += 1
        return pb.Inventory(
            version=self._version,
            added=[hash for hash, held in last.items() if held],
            removed=[hash for hash, held in last.items() if not held],
        )
