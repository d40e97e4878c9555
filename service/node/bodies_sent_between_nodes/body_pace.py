"""How long a peer may take over a body: a least rate for all of it, with one allowance. Pure."""

from __future__ import annotations


class BodyPace:
    """Only the seconds in which the peer is waited for count: what is done with its bytes here is not its fault.

    What has come faster than it had to is not saved up: at any time what is left has the allowance and its own time.

    Args:
      size_bytes: of the body.
      allowance_s: beside the time that its bytes may take; once, however many pieces it is received in.
      least_bytes_per_s: slower than that is too slow.
    """

    def __init__(self, size_bytes: int, allowance_s: float, least_bytes_per_s: float) -> None:
        self._left_bytes, self._allowance_s, self._rate = size_bytes, allowance_s, least_bytes_per_s
        self._left_s = self._most_s

    @property
    def late(self) -> bool:
        """Whether something is missing for which there is no time left."""
        return self._left_bytes > 0 and self._left_s < 0

    def waited(self, seconds: float, size_bytes: int) -> None:
        """So long, for so many bytes."""
        self._left_bytes -= size_bytes
        self._left_s = min(self._left_s - seconds, self._most_s)

    @property
    def _most_s(self) -> float:
        return self._allowance_s + self._left_bytes / self._rate
