"""Which shards digests of this node name: each is read once, not again for every data set that goes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence, Set
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.logs import about
from tfquiver.service.common_to_servers.repeated import OwnTask
from tfquiver.service.node.digests_kept_here.named_prefixes import NamedPrefixes
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows, strike

T = TypeVar("T")
_LOOK_S = 10.0
_UNREADABLE_LOOKS = 60  # until what cannot be read is tried again: whoever needs it tries by himself


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
        self._alone = asyncio.Lock()
        self._calls: set[asyncio.Task[Any]] = set()
        self._own_task = OwnTask(self._keep_up)

    def start(self) -> None:
        """From now on digests are read beforehand, however many come."""
        self._own_task.start()

    async def close(self) -> None:
        await self._own_task.close()
        await asyncio.gather(*self._calls, return_exceptions=True)

    async def alone(self, digests: Sequence[Digest], kept: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Which of their shards, one digest after the other, no digest of `kept` has. By a part of the hash: what is
        taken for another's stays. Raises as `named`."""
        parts, shard_of = await asyncio.to_thread(_distinct_parts, digests)
        of_shards: npt.NDArray[np.bool_] = ~(await self.named(parts, kept))[shard_of]
        return of_shards

    async def named(self, parts: Prefixes, by: Collection[bytes]) -> npt.NDArray[np.bool_]:
        """Which of these prefixes of hashes, sorted and distinct, one of those digests names.

        Raises UnavailableError: it cannot be said now, one of them cannot be read.
        """
        struck, looked = np.zeros(len(parts), np.bool_), set[bytes]()
        while True:  # what is read here counts whoever forgets it meanwhile: each time there is less to read
            named, unread = await self._with_index(self._named, parts, by, frozenset(looked))
            if not unread:
                return struck | named
            async for others in self._peek(unread):
                await self._add(others)
                await asyncio.to_thread(_strike_all, struck, parts, others)
                looked.update(other.digest_id for other in others)
            for digest_id in unread:
                if digest_id not in looked:
                    looked.add(digest_id)
                    if got := await self._got(digest_id):
                        await asyncio.to_thread(strike, struck, parts, got.hashes)

    def _named(
        self, parts: Prefixes, by: Collection[bytes], looked: Set[bytes]
    ) -> tuple[npt.NDArray[np.bool_], Sequence[bytes]]:
        """With the index alone. What it does not know, and nobody has looked at; nothing is said until that is read."""
        known = self._prefixes.digest_ids
        if unread := [
            digest_id for digest_id in dict.fromkeys(by) if digest_id not in known and digest_id not in looked
        ]:
            return np.zeros(0, np.bool_), unread
        return self._prefixes.named(parts, by), []

    async def _got(self, digest_id: bytes) -> Digest | None:
        """None: its data set was removed, or it is damaged at the coordinator, too, so that nobody can read that."""
        try:
            return await self._digest(digest_id)
        except (errors.NotFoundError, errors.DataLossError) as error:
            logging.warning("digest %s: %s", digest_id.hex(), error, extra=about(digest=digest_id))
            return None
        except errors.TfquiverError as error:
            raise errors.UnavailableError(
                f"what digest {digest_id.hex()} names is to stay, and not known: {error}; until it is, nothing of other"
                " data sets is deleted here: see to its file at the coordinator"
            ) from error

    async def _keep_up(self) -> None:
        loop = asyncio.get_running_loop()
        unreadable = set[bytes]()
        for looks in itertools.count():
            try:
                here = frozenset(self._here())
                unreadable = set() if looks % _UNREADABLE_LOOKS == 0 else unreadable & here
                unread = set(await self._with_index(self._keep, here)) - unreadable
                unreadable |= unread  # as long as it is not read
                began_s = loop.time()
                async for digests in self._peek(list(unread)):
                    unreadable.difference_update(digest.digest_id for digest in digests)
                    await self._add(digests)
                    await asyncio.sleep(loop.time() - began_s)  # readers want this machine, too
                    began_s = loop.time()
            except Exception:  # noqa: BLE001 - whatever it was: who asks reads what is not read, and it is tried again
                logging.exception("digests cannot be looked through")
                unreadable.clear()
            await asyncio.sleep(_LOOK_S)

    async def _add(self, digests: Sequence[Digest]) -> None:
        await self._with_index(self._add_new, digests)

    def _keep(self, here: Set[bytes]) -> Sequence[bytes]:
        """With the index alone: forgets the others. Those that it does not know, and may have room for."""
        self._prefixes.forget((self._prefixes.digest_ids | self._prefixes.left_out) - here)
        return list(here - self._prefixes.digest_ids - self._prefixes.left_out)

    def _add_new(self, digests: Sequence[Digest]) -> None:
        """With the index alone."""
        new = {
            digest.digest_id: digest.hashes for digest in digests if digest.digest_id not in self._prefixes.digest_ids
        }
        self._prefixes.add(new.items())

    async def _with_index(self, call: Callable[..., T], *arguments: object) -> T:
        """In a thread, which goes on where who has asked waits no more: until it ends nobody else has the index."""
        task = asyncio.get_running_loop().create_task(self._alone_with_index(call, *arguments))
        self._calls.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def _alone_with_index(self, call: Callable[..., T], *arguments: object) -> T:
        async with self._alone:
            return await asyncio.to_thread(call, *arguments)

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # what fails when nobody waits any more is no error of the loop


def _strike_all(struck: npt.NDArray[np.bool_], parts: Prefixes, digests: Sequence[Digest]) -> None:
    """All of some at once: of ten thousand digests a thread for each took as long as to read them."""
    for digest in digests:
        strike(struck, parts, digest.hashes)


def _distinct_parts(digests: Sequence[Digest]) -> tuple[Prefixes, npt.NDArray[np.intp]]:
    """Sorted; and of each shard of each digest where its part stands."""
    parts, shard_of = np.unique(np.concatenate([of_rows(digest.hashes) for digest in digests]), return_inverse=True)
    return parts, shard_of
