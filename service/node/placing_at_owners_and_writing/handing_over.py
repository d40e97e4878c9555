"""Shards on their way to another node: for which this one, their owner, has no room, or that it has only in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from tfquiver.service.node.disk import entry
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

_THREADS = 2
_MOST = 32  # shards that wait to be handed over; what a reader brings beyond that is fetched again some day


@dataclass(slots=True, eq=False)
class _Offer:
    shard: VerifiedShard
    to_owner: bool = False
    is_given_up: bool = False


class StandIns(Protocol):
    """Other nodes, for what this one has no room for, or does not own."""

    def may_hand_over(self, hash: bytes, raw_bytes: int, besides_bytes: int = 0) -> bool:
        """Whether one may keep such a shard that was fetched anyway, after so much more. Does not block."""

    def has_room_for(self, hash: bytes, raw_bytes: int, besides_bytes: int = 0) -> bool:
        """Whether they have said that they have room for it, after so much more: it is worth fetching. Does not
        block."""

    def hand_over(self, shard: VerifiedShard) -> bool:
        """Whether one keeps the shard now. Blocks."""

    def place(self, shard: VerifiedShard) -> bool:
        """Whether its owner keeps the shard now, or who has room where that one has none. Blocks."""


class Nobody:
    """Where there is one node only."""

    def may_hand_over(self, hash: bytes, raw_bytes: int, besides_bytes: int = 0) -> bool:
        return False

    def has_room_for(self, hash: bytes, raw_bytes: int, besides_bytes: int = 0) -> bool:
        return False

    def hand_over(self, shard: VerifiedShard) -> bool:
        return False

    def place(self, shard: VerifiedShard) -> bool:
        return False


class HandingOver:
    """Lives on one loop. `stand_ins` None: there are none."""

    def __init__(self, stand_ins: StandIns | None) -> None:
        them = stand_ins or Nobody()
        self._may, self._stands_in, self._places = them.may_hand_over, them.hand_over, them.place
        self._taken: set[bytes] = set()
        self._under_way: dict[bytes, tuple[_Offer, asyncio.Task[bool]]] = {}
        self._ending = 0  # that are given up, and not over yet
        self._leaving_bytes = 0  # on disks, of all that are under way
        self._pool = ThreadPoolExecutor(_THREADS, "hand-over")

    def __len__(self) -> int:
        """Those that are under way."""
        return len(self._under_way) + self._ending

    def may(self, hash: bytes, raw_bytes: int) -> bool:
        """Whether it is worth while to begin with another one."""
        return len(self) < _MOST and self._may(hash, raw_bytes, self._leaving_bytes)

    def taken(self, hash: bytes) -> bool:
        """Whether another node took it, as far as is known."""
        return hash in self._taken

    def all_known(self) -> set[bytes]:
        """That others have taken, or are being offered."""
        return self._taken | self._under_way.keys()

    def forget(self, hashes: Iterable[bytes]) -> None:
        """Nobody has them any more, or nobody is to."""
        if self._taken:
            self._taken.difference_update(hashes)

    async def give_up(self, hashes: Collection[bytes]) -> None:
        """As `forget`: what has not been sent yet is not, and what is on its way just now is waited for. Who is to have
        one of these handed over later has it sent anew."""
        self.forget(hashes)
        ending = [self._under_way.pop(hash) for hash in hashes if hash in self._under_way]
        for offer, _ in ending:
            offer.is_given_up = True
        self._ending += len(ending)
        try:
            if ending:
                await asyncio.wait([task for _, task in ending])
        finally:
            self._ending -= len(ending)

    def under_way(self, hash: bytes) -> asyncio.Task[bool] | None:
        found = self._under_way.get(hash)
        return found[1] if found else None

    def start(self, shard: VerifiedShard, to_owner: bool = False) -> asyncio.Task[bool]:
        """Without keeping readers waiting; whether one took it. `to_owner`: another node, which is asked first."""
        if task := self.under_way(shard.hash):
            return task
        offer = _Offer(shard, to_owner)
        self._leaving_bytes += _disk_bytes(shard)
        task = asyncio.get_running_loop().create_task(self._hand_over(offer))
        self._under_way[shard.hash] = offer, task
        task.add_done_callback(lambda _: self._over(offer))
        return task

    async def close(self) -> None:
        tasks = [task for _, task in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)  # closing the peers ends what is under way

    async def _hand_over(self, offer: _Offer) -> bool:
        took = await asyncio.get_running_loop().run_in_executor(self._pool, self._take, offer)
        if took and not offer.is_given_up and not offer.to_owner:  # what another one owns it looks after itself
            self._taken.add(offer.shard.hash)
        return took

    def _take(self, offer: _Offer) -> bool:
        if offer.is_given_up:
            return False
        return self._places(offer.shard) if offer.to_owner else self._stands_in(offer.shard)

    def _over(self, offer: _Offer) -> None:
        self._leaving_bytes -= _disk_bytes(offer.shard)
        if not offer.is_given_up:  # else another one may be under way by now
            del self._under_way[offer.shard.hash]


def _disk_bytes(shard: VerifiedShard) -> int:
    return entry.disk_bytes(entry.HEADER_BYTES + len(shard.raw))
