"""Which shards digests of this node name: each is read once, not again for every data set that goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

import numpy as np
import numpy.typing as npt
from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.hash_prefixes_and_sorted_numbers.prefixes import Prefixes, of_rows, strike
from tfquiver.logs import about
from tfquiver.service.node.removed_and_leftover_data.named_prefixes import NamedPrefixes

_LOOK_S = 10.0


class OtherDigests:
    """Lives on one loop. `start` it, `close` it.

    Args:
      here: ids of the digests that this node has.
      peek: those of these digests that can be read here, some at a time, without counting as used.
      digest: the digest with that id, got if it is not here; raises TfquiverError.
    """

    def __init__(
        self,
        here: Callable[[], Collection[bytes]],
        peek: Callable[[Sequence[bytes]], AsyncIterator[Sequence[Digest]]],
        digest: Callable[[bytes], Awaitable[Digest]],
    ) -> None:
        self._here, self._peek, self._digest = here, peek, digest
        self._prefixes = NamedPrefixes()
        self._changing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on digests are read beforehand, however many come."""
        self._task = asyncio.get_running_loop().create_task(self._keep_up())

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def alone(self, digests: Sequence[Digest], kept: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Which of their shards, one digest after the other, no digest of `kept` has. By a part of the hash: what is
        taken for another's stays."""
        parts, shard_of = await asyncio.to_thread(_distinct_parts, digests)
        of_shards: npt.NDArray[np.bool_] = ~(await self.named(parts, kept))[shard_of]
        return of_shards

    async def named(self, parts: Prefixes, by: Collection[bytes]) -> npt.NDArray[np.bool_]:
        """Which of these prefixes of hashes, sorted and distinct, one of those digests names."""
        struck = np.zeros(len(parts), np.bool_)
        unread = dict.fromkeys(digest_id for digest_id in by if digest_id not in self._prefixes.digest_ids)
        async for others in self._peek(list(unread)):
            await self._add(others)
            for other in others:
                await asyncio.to_thread(strike, struck, parts, other.hashes)
                unread.pop(other.digest_id, None)
        for digest_id in unread:
            try:
                other = await self._digest(digest_id)
            except errors.TfquiverError as error:  # it will be got again, and what it names is got again then
                logging.warning("digest %s: %s", digest_id.hex(), error, extra=about(digest=digest_id))
                continue
            await asyncio.to_thread(strike, struck, parts, other.hashes)
        async with self._changing:
            struck |= await asyncio.to_thread(self._prefixes.named, parts, by)
        return struck

    async def _keep_up(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                here = set(self._here())
                async with self._changing:
                    await asyncio.to_thread(self._prefixes.forget, self._prefixes.digest_ids - here)
                began_s = loop.time()
                async for digests in self._peek(list(here - self._prefixes.digest_ids)):
                    await self._add(digests)
                    await asyncio.sleep(loop.time() - began_s)  # readers want this machine, too
                    began_s = loop.time()
            except Exception:  # noqa: BLE001 - whatever it was: who asks reads what is not read, and it is tried again
                logging.exception("digests cannot be looked through")
            await asyncio.sleep(_LOOK_S)

    async def _add(self, digests: Sequence[Digest]) -> None:
        async with self._changing:
            known = self._prefixes.digest_ids
            new = {digest.digest_id: digest.hashes for digest in digests if digest.digest_id not in known}
            await asyncio.to_thread(self._prefixes.add, new.items())


def _distinct_parts(digests: Sequence[Digest]) -> tuple[Prefixes, npt.NDArray[np.intp]]:
    """Sorted; and of each shard of each digest where its part stands."""
    parts, shard_of = np.unique(np.concatenate([of_rows(digest.hashes) for digest in digests]), return_inverse=True)
    return parts, shard_of
