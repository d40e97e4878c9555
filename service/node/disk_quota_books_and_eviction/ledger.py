"""Bytes of the quota: reserved before they are written, committed when they stand, released when they do not (pure).

Invariant (I-4), at every moment: `stored_bytes + reserved_bytes + aside_bytes <= quota_bytes`, unless the quota was
just reduced or more was set aside; until enough was removed nothing can be reserved then. Not thread-safe: its owner
locks.
"""

from __future__ import annotations

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import apart, of_bytes


class Ledger:
    def __init__(self, quota_bytes: int) -> None:
        if quota_bytes < 0:
            raise errors.InvalidArgumentError(f"a quota cannot be negative: {quota_bytes}")
        self._quota_bytes = quota_bytes
        self._stored_bytes = 0
        self._reserved_bytes = 0
        self._aside_bytes = 0

    @property
    def quota_bytes(self) -> int:
        return self._quota_bytes

    @property
    def stored_bytes(self) -> int:
        return self._stored_bytes

    @property
    def reserved_bytes(self) -> int:
        return self._reserved_bytes

    @property
    def free_bytes(self) -> int:
        """Not taken; negative when the quota was just reduced."""
        return self._quota_bytes - self._stored_bytes - self._reserved_bytes - self._aside_bytes

    @property
    def excess_bytes(self) -> int:
        """How much must be removed until the quota is kept."""
        return max(0, -self.free_bytes)

    def reserve(self, size_bytes: int) -> None:
        """Sets bytes aside for an entry that is about to be written. Raises as `check`."""
        self.check(size_bytes)
        self._reserved_bytes += size_bytes

    def trade(self, stored_bytes: int, size_bytes: int) -> int:
        """As `reserve`, in the place of entries that will be deleted first; how much is reserved until they are.

        They count as reserved from now on: nobody else gets their room, and the new entry must not be written while
        they are there. Raises as `check`.
        """
        self.remove(stored_bytes)
        try:
            self.check(size_bytes)
        except errors.ResourceExhaustedError:
            self._stored_bytes += stored_bytes
            raise
        held_bytes = max(stored_bytes, size_bytes)
        self._reserved_bytes += held_bytes
        return held_bytes

    def check(self, size_bytes: int) -> None:
        """
        Raises:
          NeverFitsError: more than the whole quota.
          ResourceExhaustedError: no room now.
        """
        if size_bytes <= 0:
            raise ValueError(f"an entry has bytes: {size_bytes=}")
        if size_bytes > self._quota_bytes:
            raise errors.NeverFitsError(
                "an entry of {} exceeds the quota of {}".format(*apart(size_bytes, self._quota_bytes))
            )
        if size_bytes > self.free_bytes:
            size, free = apart(size_bytes, max(self.free_bytes, 0))
            raise errors.ResourceExhaustedError(
                f"an entry of {size} does not fit: {free} of {of_bytes(self._quota_bytes)} are free"
            )

    def commit(self, size_bytes: int) -> None:
        """A reservation of that size has become an entry."""
        self.release(size_bytes)
        self._stored_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """So much of what was reserved is not needed."""
        if not 0 < size_bytes <= self._reserved_bytes:
            raise ValueError(f"{size_bytes} bytes of {self._reserved_bytes} reserved ones")
        self._reserved_bytes -= size_bytes

    def found(self, size_bytes: int) -> None:
        """An entry of that size is on the disk though nothing was reserved for it; it may exceed the quota."""
        self._stored_bytes += size_bytes

    def remove(self, size_bytes: int) -> None:
        """An entry of that size has been deleted."""
        if not 0 < size_bytes <= self._stored_bytes:
            raise ValueError(f"{size_bytes} bytes of {self._stored_bytes} stored ones")
        self._stored_bytes -= size_bytes

    def resize(self, quota_bytes: int) -> None:
        """Sets another quota; the caller removes `excess_bytes`."""
        if quota_bytes < 0:
            raise errors.InvalidArgumentError(f"a quota cannot be negative: {quota_bytes}")
        self._quota_bytes = quota_bytes

    def set_aside(self, size_bytes: int) -> None:
        """So much of the quota is used by files that are no entries; the caller removes `excess_bytes`."""
        if size_bytes < 0:
            raise ValueError(f"{size_bytes} bytes cannot be set aside")
        self._aside_bytes = size_bytes
