"""Joined work: however many ask for a key at one time, it is done once, and each gets a share of the outcome (I-9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Generic, Protocol, Self, TypeVar


class Shareable(Protocol):
    def share(self) -> Self: ...
    def close(self) -> None: ...


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Shareable)


class _Flight(Generic[T]):
    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiters = 0
        self.landed = False

    def close_if_done(self) -> None:
        """Called at landing and by each waiter that leaves: the last of them closes the outcome."""
        if self.landed and not self.waiters and not self.task.cancelled() and self.task.exception() is None:
            self.task.result().close()


class Flights(Generic[K, T]):
    """Lives on one loop. Work goes on when those who asked for it no longer wait: others will want its outcome."""

    def __init__(self) -> None:
        self._flights: dict[K, _Flight[T]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._flights

    def __iter__(self) -> Iterator[K]:
        return iter(self._flights)

    async def join(self, key: K, work: Callable[[], Awaitable[T]]) -> T:
        """The caller's own share of `work()`'s outcome; what `work` raises is raised to all who joined."""
        flight = self._flights.get(key)
        if flight is None:
            flight = _Flight(asyncio.get_running_loop().create_task(_run(work)))
            self._flights[key] = flight
            flight.task.add_done_callback(lambda _: self._landed(key))
        flight.waiters += 1
        try:
            return (await asyncio.shield(flight.task)).share()
        finally:
            flight.waiters -= 1
            flight.close_if_done()

    async def close(self) -> None:
        """Cancels what is under way and waits for its end."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _landed(self, key: K) -> None:
        flight = self._flights.pop(key)
        flight.landed = True
        flight.close_if_done()


async def _run(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
