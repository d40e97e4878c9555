"""A policy is asked by one thread at a time, and nobody waits for ever for one that does not answer: another one may be
chosen, and then nobody hears what it says any more.

Nobody can end its thread, so of those that are given up only a few may go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tfquiver import errors

MOST_ASKED_S = 4.0  # a command gives up after 5: who asks is told who keeps him waiting
_LOOK_S, _SOON_S = 0.5, 0.01
_MOST_GIVEN_UP = 3  # of the coordinator's threads, which are five on a machine of one core


class Asked:
    """Of a policy that is asked now."""

    def __init__(self, policy: str, apart: bool) -> None:
        self.policy, self.apart = policy, apart
        self.given_up = asyncio.get_running_loop().create_future()
        self._since_s = asyncio.get_running_loop().time()

    @property
    def asked_s(self) -> float:
        return asyncio.get_running_loop().time() - self._since_s

    def silent(self) -> str:
        return (
            f"policy {self.policy} has not answered for {self.asked_s:.0f} s; the plan in force stays; "
            "if it never does, choose another one: tfquiver policy NAME"
        )


class Asking:
    """Lives on the coordinator's loop. What is done `alone` may ask; who may go while a policy is asked calls `begin`,
    and `asks` it `apart`."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._now: Asked | None = None
        self._given_up = 0  # that have not answered since

    @property
    def silent(self) -> Asked | None:
        """Who has not answered for too long."""
        return self._now if self._now and self._now.asked_s > MOST_ASKED_S else None

    async def begin(self) -> None:
        """Raises DeadlineError where a third party's policy does not answer."""
        while not (silent := self.silent):
            left_s = MOST_ASKED_S - self._now.asked_s if self._now else _LOOK_S
            try:
                async with asyncio.timeout(min(_LOOK_S, left_s + _SOON_S)):
                    await self._lock.acquire()
                return
            except TimeoutError:
                continue
        raise errors.DeadlineError(silent.silent())

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Raises as `begin`."""
        await self.begin()
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        self._lock.release()

    def asks(self, policy: str, apart: bool = False) -> Asked:
        """`apart`: others may ask when it has answered or is given up, whoever has gone meanwhile."""
        self._now = Asked(policy, apart)
        return self._now

    def answered(self, asked: Asked) -> bool:
        """Its thread has ended. False: it was given up before."""
        if asked.given_up.done():
            self._given_up -= 1
            return False
        self._now = None
        if asked.apart:
            self.release()
        return True

    def give_up(self, asked: Asked) -> None:
        """Its thread may end whenever it likes. Raises DeadlineError: too many go on."""
        if self._given_up >= _MOST_GIVEN_UP:
            raise errors.DeadlineError(f"{asked.silent()}: {self._given_up} others have not either: start the "
                                       "coordinator again with another --policy")  # fmt: skip
        self._given_up += 1
        self._now = None
        asked.given_up.set_result(None)
        if asked.apart:
            self.release()


async def answers(answer: asyncio.Future[Any], asked: Asked) -> bool:
    """Until it does, or is given up; False: neither within that."""
    done, _ = await asyncio.wait([answer, asked.given_up], timeout=MOST_ASKED_S, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)
