"""What callers send in parts: in bounded time, since memory is held for who does not go on sending."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from tfquiver import errors

UPLOAD_PART_S, UPLOAD_S = 30.0, 1800.0


class HasPart(Protocol):
    @property
    def part(self) -> bytes: ...


Request = TypeVar("Request", bound=HasPart)


async def parts_of(first: Request, rest: AsyncIterator[Request]) -> AsyncIterator[bytes]:
    """Raises DeadlineError: the next one, or the last, does not come."""
    yield first.part
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + UPLOAD_S
    iterator = aiter(rest)
    while True:
        try:
            async with asyncio.timeout_at(min(give_up_at, loop.time() + UPLOAD_PART_S)):
                request = await anext(iterator, None)
        except TimeoutError:
            raise errors.DeadlineError(
                f"part: the next one, or the last, did not come in time ({UPLOAD_PART_S:g} s, {UPLOAD_S:g} s)"
            ) from None
        if request is None:
            return
        yield request.part
