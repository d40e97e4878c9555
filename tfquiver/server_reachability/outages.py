"""What people are told of a server that does not answer while it should (pure)."""

from __future__ import annotations

from tfquiver.server_reachability.reminders import Reminders

TOLD_AFTER_S = 3.0


class Outage:
    """Of one server: `seen` is given every look at it."""

    def __init__(self, whom: str, then: str) -> None:
        """`whom`: the server and its address. `then`: what happens without it, and what to do: said once."""
        self._whom, self._then = whom, then
        self._since_s = 0.0
        self._reminders: Reminders | None = None  # while it does not answer
        self._told = False

    @property
    def is_on(self) -> bool:
        return self._reminders is not None

    def seen(self, trouble: str, now_s: float) -> str:
        """What is to be told; mostly nothing. `trouble` "": it answers."""
        if not trouble:
            told, self._reminders, self._told = self._told, None, False
            return f"{self._whom} answers again, after {now_s - self._since_s:.0f} s" if told else ""
        if self._reminders is None:
            self._since_s, self._reminders = now_s, Reminders(now_s, TOLD_AFTER_S)
        if not self._reminders.is_due(now_s):
            return ""
        gone = f"{self._whom} has not answered for {now_s - self._since_s:.0f} s ({trouble})"
        told, self._told = self._told, True
        return gone if told else f"{gone}: {self._then}"
