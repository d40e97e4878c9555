"""How often the coordinator is asked how much of a data set nodes hold: it looks through what all have. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

_SHARE = 0.2  # of the time, at most, is somebody looking, for all objects together
_RECENT = 0.1  # of what a look takes, the last one's part
_GONE_S = 3600.0  # an object that was not looked at for so long is there no more


@dataclass(slots=True)
class _Known:
    state: Hashable
    resident_bytes: int | None
    asked_s: float


class ResidentAsked:
    """By object: what was told last, and when it is worth another look. When its state is another, at once."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}  # those that were asked for longest ago first
        self._took_s = 0.0  # on the average

    def is_due(self, uid: str, now_s: float) -> bool:
        known = self._known.get(uid)
        return known is None or now_s >= known.asked_s + self._took_s * len(self._known) / _SHARE

    def of(self, uid: str, state: Hashable) -> int | None:
        """What was told of it; None: nothing, of that state."""
        known = self._known.get(uid)
        return known.resident_bytes if known is not None and known.state == state else None

    def told(self, uid: str, state: Hashable, resident_bytes: int | None, now_s: float, took_s: float) -> None:
        self._took_s += (took_s - self._took_s) * (_RECENT if self._known else 1.0)
        self._known.pop(uid, None)
        self._known[uid] = _Known(state, resident_bytes, now_s)
        while (first := next(iter(self._known))) != uid and self._known[first].asked_s < now_s - self._gone_s:
            del self._known[first]

    @property
    def _gone_s(self) -> float:
        return max(_GONE_S, 2 * self._took_s * len(self._known) / _SHARE)
