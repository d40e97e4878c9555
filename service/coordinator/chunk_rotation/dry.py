"""Sessions that have nothing to read of what the rotation keeps, and since when. Pure.

One that is dry for too long, while something is to go and does not, reads what it lacks past the cache: another data
set may keep the same content, or a node hang. One that merely waits until others have read on goes on waiting.
"""

from __future__ import annotations

from collections.abc import Iterable

PAST_THE_CACHE_AFTER_S = 15.0  # chunks come and go within a heartbeat or two


class Dry:
    """Args:
    timeout_s: of the rotation; nobody waits longer.
    """

    def __init__(self, timeout_s: float) -> None:
        self._after_s = min(timeout_s, PAST_THE_CACHE_AFTER_S)
        self._since: dict[str, float] = {}  # longest first
        self._past_the_cache: frozenset[str] = frozenset()
        self._leaving_since: float | None = None
        self._stands_at = -1  # what was resident when some had waited in vain, for as long as it is

    def note(self, sessions: Iterable[str], now: float, resident_bytes: int, leaving: bool) -> bool:
        """All that are dry now. True: others than before may read past the cache.

        As long as what is resident stays as it was when some had waited in vain, the next need not wait.

        Args:
          leaving: something that is resident is to go.
        """
        named = frozenset(sessions)
        kept = {session: since for session, since in self._since.items() if session in named}
        self._since = kept | dict.fromkeys(sorted(named - kept.keys()), now)
        if not leaving:
            self._leaving_since = None
        elif self._leaving_since is None:
            self._leaving_since = now
        if resident_bytes != self._stands_at:
            self._stands_at = -1  # a full cache is as full again when all is well
        after_s = 0.0 if self._stands_at >= 0 else self._after_s
        in_vain = self._leaving_since is not None and now >= self._leaving_since + after_s
        before, self._past_the_cache = self._past_the_cache, frozenset(self.for_s(after_s, now) if in_vain else ())
        if self._past_the_cache:
            self._stands_at = resident_bytes
        return before != self._past_the_cache

    def for_s(self, seconds: float, now: float) -> list[str]:
        """Those that have been for so long, longest first."""
        return [session for session, since in self._since.items() if now >= since + seconds]

    def past_the_cache(self, session: str) -> bool:
        return session in self._past_the_cache
