"""Derived shards computed at other nodes: a trainer that can is at one of them perhaps, and no reader of its shards.

So it is with workers of tf.data service: they read, at nodes of their own, what a trainer elsewhere can compute.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol, TypeVar

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.service.node.derived_shards.computers import COMPUTE_S
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

SEARCH_AGAIN_S = 5.0
_AS_GOOD_AS_NEW_S = 1.0  # many shards are missed at a time, and one search answers for them all
_MOST_REMEMBERED = 64  # data sets
T = TypeVar("T")


class Peers(Protocol):
    def others(self) -> Sequence[str] | None:
        """The live nodes but this one; None: it is not known yet."""

    async def get_of_its_own(self, node_id: str, digest: Digest, ref: ShardRef) -> ReadyShard:
        """As PeerClient."""


class Elsewhere:
    """Lives on one loop.

    A cluster may have a thousand nodes and a data set a thousand missing shards: one search at a time for a data set,
    and where nobody could, none for `again_s`. What it has found is as good as new for `as_new_s`.
    """

    def __init__(
        self, peers: Peers | None, again_s: float = SEARCH_AGAIN_S, as_new_s: float = _AS_GOOD_AS_NEW_S
    ) -> None:
        self._peers, self._again_s, self._as_new_s = peers, again_s, as_new_s
        self._able: dict[bytes, str] = {}  # digest id -> the node that could the last time
        self._in_vain: dict[bytes, tuple[float, _No]] = {}  # by digest id: until when, and why
        self._searches: dict[bytes, _Search] = {}

    async def compute(self, digest: Digest, ref: ShardRef) -> VerifiedShard:
        """Asks the other nodes, one after the other, for what they have or can have computed themselves.

        Raises:
          NobodyComputesError: all of them have answered, and none knows of anybody who could; `everywhere` where that
            is not what they said some time ago.
          UnavailableError: none of them could.
        """
        shard: VerifiedShard | _No = _No.NOBODY
        if self._peers is not None:
            able = self._able.get(digest.digest_id)
            if able is not None:
                shard = await self._ask(self._peers, able, digest, ref)
            if isinstance(shard, _No):
                shard = await self._searched(self._peers, digest, ref, able, shard)
        if not isinstance(shard, _No):
            return shard
        said = (
            "nor could one of another node: workers of tf.data service can read it where a trainer that called "
            "tfquiver.materialize is there"
        )
        if shard is _No.TROUBLE:
            raise errors.UnavailableError(said)
        nobody = errors.NobodyComputesError(said)
        nobody.everywhere = shard is _No.NOBODY
        raise nobody

    async def _searched(
        self, peers: Peers, digest: Digest, ref: ShardRef, tried: str | None, said: _No
    ) -> VerifiedShard | _No:
        """`tried`: was asked already, and `said` so."""
        key = digest.digest_id
        search = self._searches.setdefault(key, _Search())
        search.waiting += 1
        try:
            async with search.lock:
                found = self._able.get(key)  # by the search before this one
                if found in (None, tried):
                    return await self._search(peers, digest, ref, tried, said)
            assert found is not None
            return await self._ask(peers, found, digest, ref)
        finally:
            search.waiting -= 1
            if not search.waiting:
                del self._searches[key]

    async def _search(
        self, peers: Peers, digest: Digest, ref: ShardRef, tried: str | None, said: _No
    ) -> VerifiedShard | _No:
        key, now_s = digest.digest_id, asyncio.get_running_loop().time
        until_s, why = self._in_vain.get(key, (0.0, said))
        if (left_s := until_s - now_s()) > 0:
            if _No.TROUBLE in (why, said):
                return _No.TROUBLE
            return why if left_s > self._again_s - self._as_new_s else _No.NOBODY_THEN
        others = peers.others()
        if others is None:
            return _No.TROUBLE
        for name in others:
            if name == tried:
                continue
            shard = await self._ask(peers, name, digest, ref)
            if not isinstance(shard, _No):
                _remember(self._able, key, name)
                return shard
            if shard is _No.TROUBLE:
                said = shard
        if self._able.pop(key, None) is None:
            _remember(self._in_vain, key, (now_s() + self._again_s, said))
        # Else it may be this shard alone that cannot be had: the next one is searched for once more.
        return said

    async def _ask(self, peers: Peers, name: str, digest: Digest, ref: ShardRef) -> VerifiedShard | _No:
        try:
            async with asyncio.timeout(COMPUTE_S):
                ready = await peers.get_of_its_own(name, digest, ref)
            # Who is cancelled before a thread is free does not keep it from being closed there.
            taking = asyncio.get_running_loop().run_in_executor(None, _taken, ref, ready)
            taking.add_done_callback(lambda done: done.cancelled() or done.exception())
            return await asyncio.shield(taking)
        except (errors.TfquiverError, TimeoutError) as error:
            logging.log_every_n_seconds(
                logging.INFO, "shard %d of %s from node %s: %s", 30, ref.index, digest.name, name, error
            )
            return _No.NOBODY if isinstance(error, errors.NobodyComputesError) else _No.TROUBLE


class _No(Enum):
    NOBODY = auto()  # there is none who could
    NOBODY_THEN = auto()  # there was none a while ago; one may have come since
    TROUBLE = auto()  # one failed, or it is not known


@dataclass
class _Search:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


def _remember(known: dict[bytes, T], digest_id: bytes, what: T) -> None:
    known.pop(digest_id, None)
    known[digest_id] = what
    if len(known) > _MOST_REMEMBERED:
        del known[next(iter(known))]


def _taken(ref: ShardRef, ready: ReadyShard) -> VerifiedShard:
    """Blocks; closes it."""
    try:
        raw = bytearray()
        while len(raw) < ready.length_bytes:
            some = os.pread(ready.fd, ready.length_bytes - len(raw), ready.offset + len(raw))
            if not some:
                break
            raw += some
        return VerifiedShard.check(ref.hash, bytes(raw), f"{ref.file.uri} at {ref.offset}")
    finally:
        ready.close()
