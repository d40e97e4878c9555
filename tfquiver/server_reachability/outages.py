"""What people are told of a server that does not answer while it should (pure)."""

from __future__ import annotations

from tfquiver.server_reachability.reminders import Reminders

TOLD_AFTER_S = 3.0
# Of gRPC, where nobody sets it: each pause before the next attempt is 1.6 times the one before, a fifth more or less;
# and of TensorFlow, which then may sleep for so long before it asks.
_LONGEST_PAUSE_S, _SLEEPS_S = 144.0, 10.0


class Outage:
    """Of one server: `seen` is given every look at it."""

    def __init__(self, whom: str, then: str, asks: str = "") -> None:
        """`whom`: the server and its address. `then`: what happens without it, and what to do: said once. `asks`: who
        alone asks it by gRPC, and pauses ever longer: at most for as long again as it was away, and some seconds."""
        self._whom, self._then, self._asks = whom, then, asks
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
            return self._over(now_s - self._since_s) if told else ""
        if self._reminders is None:
            self._since_s, self._reminders = now_s, Reminders(now_s, TOLD_AFTER_S)
        if not self._reminders.is_due(now_s):
            return ""
        gone = f"{self._whom} has not answered for {now_s - self._since_s:.0f} s ({trouble})"
        told, self._told = self._told, True
        return gone if told else f"{gone}: {self._then}"

    def _over(self, away_s: float) -> str:
        told = f"{self._whom} answers again, after {away_s:.0f} s"
        if not self._asks:
            return told
        return f"{told}; {self._asks} asks it again within {min(away_s, _LONGEST_PAUSE_S) + _SLEEPS_S:.0f} s"
