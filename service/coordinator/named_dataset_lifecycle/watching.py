"""Who waits until something else is to be told of one data set: of ten thousand that are watched a change of one is
nothing to those who watch the others.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

WOKEN_AT_ONCE = 32  # each looks at its data set again, and is answered


class Watching:
    """Lives on one event loop."""

    def __init__(self, first: int) -> None:
        """`first`: so that numbers of this process are none of another's: people may bring those of the one before."""
        self._first = self._number = first
        self._changed: dict[str, int] = {}  # by name; of those that have not changed since `first` there is none
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}
        self._due: dict[asyncio.Future[None], None] = {}
        self._stopping = False

    @property
    def number(self) -> int:
        """Of all changes until now."""
        return self._number

    def changed(self, names: Iterable[str]) -> None:
        """Something else is to be told of them, or nothing any more: who waits is told so soon."""
        self._number += 1
        idle = not self._due
        for name in names:
            self._changed[name] = self._number
            self._due |= self._waiting.pop(name, {})
        if idle and self._due:
            asyncio.get_running_loop().call_soon(self._wake_some)

    def gone(self, name: str) -> None:
        """It is there no more."""
        self.changed([name])
        del self._changed[name]

    async def news(self, name: str, seen: int, wait_s: float) -> None:
        """Returns as soon as it has changed since that number, at once where that is not known, or after `wait_s`."""
        if self._stopping or not self._first <= seen <= self._number or seen < self._changed.get(name, self._first):
            return
        told = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, {})[told] = None
        try:
            async with asyncio.timeout(wait_s):
                await told
        except TimeoutError:
            pass
        finally:
            self._due.pop(told, None)
            if (its := self._waiting.get(name)) is not None and its.pop(told, told) is None and not its:
                del self._waiting[name]

    def release(self) -> None:
        """Whoever waits returns at once, from now on."""
        self._stopping = True
        for told in (*self._due, *itertools.chain.from_iterable(self._waiting.values())):
            if not told.done():
                told.set_result(None)

    def _wake_some(self) -> None:
        for told in list(itertools.islice(self._due, WOKEN_AT_ONCE)):
            del self._due[told]
            if not told.done():
                told.set_result(None)
        if self._due:
            asyncio.get_running_loop().call_soon(self._wake_some)
