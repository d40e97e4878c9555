"""A limit on bytes per second: a token bucket (pure)."""

from __future__ import annotations

from tfquiver import errors


class TokenBucket:
    """Lets `bytes_per_s` through on average, and `burst_bytes` at once after a pause. Not thread-safe.

    A take larger than the burst is let through, too; the takes after it pay for it.
    """

    def __init__(self, bytes_per_s: float, burst_bytes: float, now_s: float) -> None:
        _check(bytes_per_s, burst_bytes)
        self._bytes_per_s = bytes_per_s
        self._burst_bytes = burst_bytes
        self._tokens = burst_bytes
        self._at_s = now_s

    def refill_at(self, bytes_per_s: float, burst_bytes: float, now_s: float) -> None:
        """From now on; as the constructor. What was taken is still to be paid for."""
        _check(bytes_per_s, burst_bytes)
        self.take(0, now_s)
        self._bytes_per_s, self._burst_bytes = bytes_per_s, burst_bytes

    def take(self, size_bytes: int, now_s: float) -> float:
        """Takes the bytes; returns how many seconds the taker has to wait before it moves them."""
        self._tokens = min(self._burst_bytes, self._tokens + (now_s - self._at_s) * self._bytes_per_s)
        self._at_s = now_s
        self._tokens -= size_bytes
        return max(0.0, -self._tokens / self._bytes_per_s)


def _check(bytes_per_s: float, burst_bytes: float) -> None:
    if bytes_per_s <= 0 or burst_bytes <= 0:
        raise errors.InvalidArgumentError(f"a limit must be positive: {bytes_per_s=}, {burst_bytes=}")
