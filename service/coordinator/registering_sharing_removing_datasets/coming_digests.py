"""Digests that are being sent: how much memory all of them together may take, and how much one sender's. Pure.

What is announced has its room before it comes, so that what does not fit is refused before it is sent. So whoever
announces much and sends nothing keeps others from registering: no sender has all of the room.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import of_bytes

UPLOADS = 2  # of the largest size, at one time; one sender's together are one


class ComingDigests:
    """`most_bytes`: of one digest."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._by_sender = Counter[str]()

    @property
    def size_bytes(self) -> int:
        return self._by_sender.total()

    @contextlib.contextmanager
    def upload(self, sender: str) -> Iterator[Callable[[int], None]]:
        """Around one that comes. What it gives is told how large that is, as far as it is known; its room is there
        again at the end.

        It raises ResourceExhaustedError (larger than any may be) and UnavailableError (too much is coming just now).
        """
        taken_bytes = 0

        def take(size_bytes: int) -> None:
            nonlocal taken_bytes
            if size_bytes > self._most_bytes:
                raise errors.ResourceExhaustedError(
                    f"a digest larger than {of_bytes(self._most_bytes)}: see --max_digest_size"
                )
            more_bytes = max(0, size_bytes - taken_bytes)
            others_bytes = self._by_sender[sender] - taken_bytes
            if others_bytes and self._by_sender[sender] + more_bytes > self._most_bytes:
                raise errors.UnavailableError(
                    f"{of_bytes(others_bytes)} of other digests are coming from the same sender, which has "
                    f"{of_bytes(self._most_bytes)} for all at once (--max_digest_size): try again later"
                )
            if self.size_bytes + more_bytes > UPLOADS * self._most_bytes:
                raise errors.UnavailableError("too many large digests are being registered: try again later")
            self._by_sender[sender] += more_bytes
            taken_bytes += more_bytes

        try:
            yield take
        finally:
            self._by_sender[sender] -= taken_bytes
            self._by_sender += Counter()  # without those of whom nothing is coming
