"""What a session that reads by chunks may read now, and what it tells of its reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Menu:
    """What one session may read now, best first. Where all of it is empty the session waits."""

    hits: tuple[int, ...] = ()  # shards that are resident
    misses: tuple[int, ...] = ()  # when no hits are left: missing shards of chunks that are loading; they are kept
    direct: tuple[int, ...] = ()  # when none of those is left either: past the cache, kept nowhere


class ChunkUse(Protocol):
    """One session's side of the rotation."""

    @property
    def version(self) -> int:
        """Changes whenever the menu may have."""

    def menu(self) -> Menu: ...
    def took(self, chunk: int, size_bytes: int) -> None: ...
    def gave_back(self, chunk: int, size_bytes: int) -> None: ...
    def use_started(self, chunk: int) -> None: ...
    def use_ended(self, chunk: int) -> None: ...
    def finished(self) -> None:
        """The session has ended, or nobody reads it at the moment."""
