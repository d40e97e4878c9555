"""Data sets that were removed: what this node keeps of them alone goes, and then their digests.

The coordinator says which of the digests that lie here have been removed. Nothing is deleted for a digest that it only
does not know: it may have lost its memory, and what is cached is good still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
from absl import logging

from tfquiver import errors
from tfquiver.digest import Digest

_ASKED_AT_ONCE = 16_384
_TRY_AGAIN_S = 5.0


class Removals:
    """Lives on one loop. `start` it, `close` it.

    Args:
      here: ids of the digests that this node has, on the disk or in memory.
      digest: the digest with that id; raises TfquiverError.
      drop: forgets a digest, on the disk too.
      removed: those of these digest ids whose data sets were removed; raises TfquiverError.
      give_up: deletes the shards with these hashes.
    """

    def __init__(
        self,
        here: Callable[[], Sequence[bytes]],
        digest: Callable[[bytes], Awaitable[Digest]],
        drop: Callable[[bytes], Awaitable[None]],
        removed: Callable[[Sequence[bytes]], Awaitable[Sequence[bytes]]],
        give_up: Callable[[Sequence[bytes]], Awaitable[None]],
    ) -> None:
        self._here, self._digest, self._drop = here, digest, drop
        self._removed, self._give_up = removed, give_up
        self._seen = 0
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def told(self, removals: int) -> None:
        """The coordinator's number of them: another than before when there was one, or it is another coordinator."""
        if removals != self._seen:
            self._seen = removals
            self._news.set()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.carry_out()
            except (errors.TfquiverError, OSError) as error:
                logging.warning("removed data sets: %s; trying again in %g s", error, _TRY_AGAIN_S)
            except Exception:  # noqa: BLE001 - whatever it was: without this task nothing would ever be removed again
                logging.exception("removed data sets; trying again in %g s", _TRY_AGAIN_S)
            else:
                continue
            self._news.set()
            await asyncio.sleep(_TRY_AGAIN_S)

    async def carry_out(self) -> None:
        """What is done twice, or after a kill half-way, does no harm: the digest goes last."""
        here = self._here()
        gone: list[bytes] = []
        for at in range(0, len(here), _ASKED_AT_ONCE):
            gone += await self._removed(here[at : at + _ASKED_AT_ONCE])
        if not gone:
            return
        kept = sorted(set(here).difference(gone))
        for digest_id in gone:
            try:
                digest = await self._digest(digest_id)
            except errors.TfquiverError as error:
                logging.warning("digest %s of a removed data set: %s", digest_id.hex(), error)
            else:
                alone = await self._alone(digest, kept)
                await self._give_up(alone)
                logging.info("data set %r was removed: %d shards go", digest.name, len(alone))
            await self._drop(digest_id)

    async def _alone(self, digest: Digest, kept: Sequence[bytes]) -> list[bytes]:
        """Its hashes that no other digest here has. By a part of the hash: what is taken for another's stays."""
        alone = np.ones(digest.num_shards, bool)
        for digest_id in kept:
            try:
                other = await self._digest(digest_id)
            except errors.TfquiverError as error:  # it will be got again, and what it names is got again then
                logging.warning("digest %s: %s", digest_id.hex(), error)
                continue
            alone &= await asyncio.to_thread(_not_in, digest, other)
        return [digest.hashes[index].tobytes() for index in np.flatnonzero(alone)]


def _not_in(digest: Digest, other: Digest) -> np.ndarray:
    return np.isin(_parts(digest), _parts(other), invert=True)


def _parts(digest: Digest) -> np.ndarray:
    return np.ascontiguousarray(digest.hashes.view(np.uint8).reshape(-1, 32)[:, :8]).view(np.uint64).ravel()
