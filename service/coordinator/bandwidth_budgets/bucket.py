"""One job's bytes from the store: a token bucket that may be in debt. Pure."""

from __future__ import annotations

_BURST_S = 0.2  # of ten seconds 2 %: what a busy machine may make up for
_MOST_SHARED_DEBT_S = 5.0


class Bucket:
    """Whoever has some left may take more than that, and waits until the debt is paid: over any longer time what is
    taken is what came in, but for one take and the burst."""

    def __init__(self, bytes_per_s: float, now_s: float) -> None:
        """Begins empty. `bytes_per_s` > 0."""
        self._bytes_per_s, self._tokens, self._at_s = bytes_per_s, 0.0, now_s

    @property
    def bytes_per_s(self) -> float:
        return self._bytes_per_s

    def left_bytes(self, now_s: float) -> float:
        """Nothing may be taken unless it is positive. `now_s` never falls."""
        came = (now_s - self._at_s) * self._bytes_per_s
        self._tokens, self._at_s = min(self._tokens + came, self._bytes_per_s * _BURST_S), now_s
        return self._tokens

    def take(self, size_bytes: float, now_s: float) -> None:
        self._tokens = self.left_bytes(now_s) - size_bytes

    def share(self, leased_bytes: float, loaded_bytes: float, now_s: float) -> None:
        """Its part of what is leased, or loaded ahead, for several, at some time since it was last looked at. Nodes
        keep to the rate themselves: what they load beyond it, which they were told late, does not shut a job out for
        long."""
        left = self._tokens + (now_s - self._at_s) * self._bytes_per_s - leased_bytes
        self._tokens = max(left - loaded_bytes, min(left, -_MOST_SHARED_DEBT_S * self._bytes_per_s))
        self._at_s = now_s
        self.left_bytes(now_s)

    def pause_s(self, now_s: float) -> float:
        """Until it is positive."""
        return max(0.0, -self.left_bytes(now_s) / self._bytes_per_s)

    def refill_at(self, bytes_per_s: float, now_s: float) -> None:
        """From now on."""
        self.left_bytes(now_s)
        self._bytes_per_s = bytes_per_s
