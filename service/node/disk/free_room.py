"""How much of a file system entries leave to others: the digests and the log that say what the entries are for."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

_MOST_KEPT_BYTES = 64 << 20
_KEPT_SHARE = 20  # one part of so many, of a small disk
_HELD_S = 60.0  # readers are through with a shard by then


def look(directory: Path) -> tuple[int, int]:
    """Bytes that this user can still write there, and how many of them entries never take.

    May wait for the disk; raises OSError.
    """
    found = os.statvfs(directory)
    kept_bytes = min(_MOST_KEPT_BYTES, found.f_blocks * found.f_frsize // _KEPT_SHARE)
    return found.f_bavail * found.f_frsize, kept_bytes


class HeldOpen:
    """What the disk has room for, with what readers hold open of entries that are gone: the file system counts that as
    used until they close it, which is soon. Told as it is, each eviction would be a smaller node for a moment, and
    another plan. Pure."""

    def __init__(self) -> None:
        self._seen = deque[tuple[float, int, int]]()

    def found(self, now_s: float, most_bytes: int, gone_bytes: int) -> int:
        """
        Args:
          most_bytes: of entries, with all of them gone, as the disk says.
          gone_bytes: of entries that have gone, since the start.
        """
        while self._seen and self._seen[0][0] < now_s - _HELD_S:
            self._seen.popleft()
        # No more than has gone since: what others write beside it counts at once.
        held = (min(before_bytes, most_bytes + gone_bytes - gone) for _, before_bytes, gone in self._seen)
        told_bytes = max(most_bytes, *held) if self._seen else most_bytes
        self._seen.append((now_s, most_bytes, gone_bytes))
        return told_bytes


class Room:
    """What `look` finds, for who cannot wait for a disk that hangs. Lives on one event loop.

    Args:
      used_bytes: of entries. What has come and gone of them since the disk was looked at counts: told beside what they
        take now, the room of before would make a node that has just been emptied as small as what it still has.
      gone_bytes: of entries that have gone, since the start.
    """

    _PATIENCE_S = 0.5

    def __init__(self, directory: Path, used_bytes: Callable[[], int], gone_bytes: Callable[[], int] = int) -> None:
        self._directory, self._used_bytes, self._gone_bytes = directory, used_bytes, gone_bytes
        self._held = HeldOpen()
        self._looking: asyncio.Task[int | None] | None = None  # one at a time: each may hold a thread for ever
        self._found: int | None = None  # with all entries gone; what others have of what entries leave is off it

    def now(self) -> int | None:
        """By what the disk has last said; it is asked anew for who wants to know later. Waits for nothing."""
        if self._looking is None or self._looking.done():
            if self._looking is not None:
                self._found = self._looking.result()
            self._looking = asyncio.create_task(asyncio.to_thread(self._look), name="room on the disk")
        return self._left()

    async def bytes(self) -> int | None:
        """That entries may still take, by what the disk has last said; None: it never has."""
        if (looking := self._looking) is None or looking.done():
            looking = self._looking = asyncio.create_task(asyncio.to_thread(self._look), name="room on the disk")
        await asyncio.wait([looking], timeout=self._PATIENCE_S)
        if looking.done():  # another may be under way by now, for one who asked meanwhile
            self._found = looking.result()
        return self._left()

    def _left(self) -> int | None:
        return None if self._found is None else max(self._found - self._used_bytes(), 0)

    def _look(self) -> int | None:
        used_bytes = self._used_bytes()
        try:
            free_bytes, kept_bytes = look(self._directory)
        except OSError:
            return None
        # What has gone in between is counted as free alone: with both, a node told of more than its disk has.
        used_bytes = min(used_bytes, self._used_bytes())
        return self._held.found(time.monotonic(), used_bytes + free_bytes - kept_bytes, self._gone_bytes())
