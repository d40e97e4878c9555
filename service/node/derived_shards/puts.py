"""Shards that trainers have computed, on their way to where they belong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.service.node.sealed_memory_of_checked_shards.body_memory import BodyMemory
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

MOST_BYTES = 1 << 30  # of one shard: one record, where it is more than a few MiB
_ROOM_BYTES = MOST_BYTES + (64 << 20)
_PART_S = 30.0
ALL_S = 60.0  # trainers give a call half of it


class Puts:
    """Lives on one loop. `place`: keeps a shard at its owner, and says whether it does; blocks."""

    def __init__(self, place: Callable[[VerifiedShard], bool], all_s: float = ALL_S) -> None:
        """`all_s`: within which all parts have to come: meanwhile their room is nobody else's."""
        self._place, self._all_s, self._room = place, all_s, BodyMemory(_ROOM_BYTES)

    async def put(self, messages: AsyncIterator[pb.PutDerivedRequest]) -> bool:
        """Whether it is kept.

        Raises InvalidArgumentError, DataLossError (the bytes do not have the hash), DeadlineError.
        """
        first = await self._next(messages)
        if first is None or len(first.hash) != 32:
            raise errors.InvalidArgumentError("hash: missing, or not of 32 bytes")
        if not 0 < first.length_bytes <= MOST_BYTES:
            raise errors.InvalidArgumentError(f"length_bytes: {first.length_bytes}; it is 1 to {MOST_BYTES}")
        await self._room.take(first.length_bytes)
        try:
            body = await self._all(first, messages)
            return await asyncio.to_thread(self._placed, first.hash, bytes(body))
        finally:
            await self._room.give_back(first.length_bytes)

    async def _all(self, first: pb.PutDerivedRequest, messages: AsyncIterator[pb.PutDerivedRequest]) -> bytearray:
        body = bytearray()
        message: pb.PutDerivedRequest | None = first
        try:
            async with asyncio.timeout(self._all_s):
                while message is not None:
                    body += message.part
                    if len(body) > first.length_bytes:
                        raise errors.InvalidArgumentError(
                            f"part: more than the {first.length_bytes} bytes of length_bytes"
                        )
                    message = await self._next(messages)
        except TimeoutError:
            raise errors.DeadlineError(f"part: the last one did not come within {self._all_s:g} s") from None
        return body

    def _placed(self, hash: bytes, body: bytes) -> bool:
        return self._place(VerifiedShard.check(hash, body, f"derived shard {hash.hex()}, as it was sent"))

    async def _next(self, messages: AsyncIterator[pb.PutDerivedRequest]) -> pb.PutDerivedRequest | None:
        try:
            async with asyncio.timeout(_PART_S):
                return await anext(messages, None)
        except TimeoutError:
            raise errors.DeadlineError(f"part: the next one did not come within {_PART_S:g} s") from None
