"""A listing that comes page by page, and must come to an end whatever the store says. Pure, but for its clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import many

_MOST_FOUND = 4_000_000  # a data set has a million files at most
MOST_S = 3600.0  # tens of millions of names


class ListingPages:
    """One listing's. Args:
    pattern: for messages.
    """

    def __init__(self, pattern: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._pattern, self._now_s, self._began_s = pattern, now_s, now_s()
        self._tokens: set[str] = set()

    def came(self, next_token: str | None, found: int) -> None:
        """A page came; `next_token`: what the next one is asked for with, if any; `found`: that match, so far.

        Raises UnavailableError: this listing would not end; InvalidArgumentError: it is of too much.
        """
        if found > _MOST_FOUND:
            raise errors.InvalidArgumentError(
                f"{self._pattern}: more than {many(_MOST_FOUND, 'object')} match; name fewer of them"
            )
        if not next_token:
            return
        if next_token in self._tokens:
            raise errors.UnavailableError(
                f"{self._pattern}: its listing does not end: page {len(self._tokens) + 1} names a page that has come "
                "already as the next one; whatever answers for the store (an emulator, a proxy?) is at fault"
            )
        self._tokens.add(next_token)
        if (passed_s := self._now_s() - self._began_s) > MOST_S:
            raise errors.UnavailableError(
                f"{self._pattern}: its listing has not ended after {many(len(self._tokens), 'page')} and "
                f"{passed_s:.0f} s ({found} found; {MOST_S:.0f} s are the limit); name a longer beginning of what "
                "is meant"
            )
