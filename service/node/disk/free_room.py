"""How much of a file system entries leave to others: the digests and the log that say what the entries are for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

_MOST_KEPT_BYTES = 64 << 20
_KEPT_SHARE = 20  # one part of so many, of a small disk


def look(directory: Path) -> tuple[int, int]:
    """Bytes that this user can still write there, and how many of them entries never take.

    May wait for the disk; raises OSError.
    """
    found = os.statvfs(directory)
    kept_bytes = min(_MOST_KEPT_BYTES, found.f_blocks * found.f_frsize // _KEPT_SHARE)
    return found.f_bavail * found.f_frsize, kept_bytes


class Room:
    """What `look` finds, for who cannot wait for a disk that hangs. Lives on one event loop.

    Args:
      used_bytes: of entries. What has come and gone of them since the disk was looked at counts: told beside what they
        take now, the room of before would make a node that has just been emptied as small as what it still has.
    """

    _PATIENCE_S = 0.5

    def __init__(self, directory: Path, used_bytes: Callable[[], int]) -> None:
        self._directory, self._used_bytes = directory, used_bytes
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
        return used_bytes + free_bytes - kept_bytes
