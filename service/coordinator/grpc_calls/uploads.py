"""What callers send in parts: in bounded time, since memory is held for who does not go on sending."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from tfquiver import errors
from tfquiver.roles_and_tokens.identity import Identity

UPLOAD_PART_S, UPLOAD_S = 30.0, 1800.0
RENEWED_BY_BYTES = 64 << 10  # parts of less than that give no more time


class HasPart(Protocol):
    @property
    def part(self) -> bytes: ...


Request = TypeVar("Request", bound=HasPart)


async def parts_of(first: Request, rest: AsyncIterator[Request]) -> AsyncIterator[bytes]:
    """Raises DeadlineError: what is to come does not come. Parts that bring nothing, or next to nothing, count for
    nothing: room is held for what was announced."""
    yield first.part
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + UPLOAD_S
    iterator, left_s, came_bytes = aiter(rest), UPLOAD_PART_S, 0
    while True:
        began = loop.time()
        try:
            async with asyncio.timeout_at(min(give_up_at, began + left_s)):
                request = await anext(iterator, None)
        except TimeoutError:
            raise errors.DeadlineError(
                f"part: the next {RENEWED_BY_BYTES} bytes, or the end, did not come in time ({UPLOAD_PART_S:g} s, "
                f"{UPLOAD_S:g} s in all)"
            ) from None
        if request is None:
            return
        left_s -= loop.time() - began  # what whoever takes them needs is not theirs
        came_bytes += len(request.part)
        if came_bytes >= RENEWED_BY_BYTES:
            left_s, came_bytes = UPLOAD_PART_S, 0
        yield request.part


def sender(who: Identity, peer: str) -> str:
    """Whose an upload is. `peer`: as gRPC writes it. Who has no name of its own is known by its machine."""
    return str(who) if who.owner else f"{who}@{peer.rpartition(':')[0] or peer}"
