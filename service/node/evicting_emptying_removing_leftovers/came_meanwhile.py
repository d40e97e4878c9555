"""What others put here of a data set while all nodes empty it, and this one has done so already: it goes, too.

An owner without room hands over what it is being brought until it hears of the eviction itself. Each waits for what it
has under way before it says that it is through: so nothing of it is put any more when the task is over. What was put by
then, and the disk has not taken yet, is waited for: who put it may have been told that it is not kept.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence, Set

import numpy as np
import numpy.typing as npt
from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_hashes
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct

MOST_NOTED = 1 << 16  # beyond it whatever was emptied meanwhile is emptied once more


class CameMeanwhile:
    """`placed` may be called from any thread; the rest lives on one loop. `close` it.

    Args:
      is_here: whether that shard stands.
      coming: what others have put here, and is on its way onto the disk.
      still: returns when of these nothing is that is now.
      named: which of these prefixes of hashes, sorted and distinct, one of those digests names; raises TfquiverError.
      again: told the digests of which something came.
      unsettled: told, whenever that is another set, what all nodes are emptying, or have, and this one is still to look
        what came: until then nobody but this process knows of it, and a kill would forget it.
    """

    def __init__(
        self,
        is_here: Callable[[bytes], bool],
        coming: Callable[[], Set[bytes]],
        still: Callable[[Sequence[bytes]], Awaitable[None]],
        named: Callable[[Prefixes, Collection[bytes]], Awaitable[npt.NDArray[np.bool_]]],
        again: Callable[[Collection[bytes]], None],
        unsettled: Callable[[Set[bytes]], None],
    ) -> None:
        self._is_here, self._coming, self._still = is_here, coming, still
        self._named, self._again, self._unsettled = named, again, unsettled
        self._lock = threading.Lock()
        self._emptied: Set[bytes] = frozenset()
        self._going: Set[bytes] = frozenset()
        self._came: set[bytes] = set()
        self._looking: dict[asyncio.Task[None], Set[bytes]] = {}  # and after whose digests each looks

    def placed(self, hash: bytes) -> None:
        """It comes by, or was put here."""
        if self._emptied:
            with self._lock:
                if len(self._came) <= MOST_NOTED:
                    self._came.add(hash)

    def emptied(self, digest_ids: Set[bytes], going: Set[bytes] = frozenset()) -> None:
        """With every orders: what all nodes are emptying now, to be read again by whoever wants it. `going`: what goes
        for good."""
        over, self._emptied, self._going = self._emptied - digest_ids, frozenset(digest_ids), going
        if over:
            with self._lock:
                came = self._came | self._coming()
                if not self._emptied:
                    self._came = set()
            if came:
                task = asyncio.get_running_loop().create_task(self._look(over, came))
                self._looking[task] = over
                task.add_done_callback(self._looked)
        self._tell()

    async def close(self) -> None:
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)

    def _looked(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return  # it ends with this process: the next one empties all of it once more
        del self._looking[task]
        self._tell()

    def _tell(self) -> None:
        self._unsettled(frozenset().union(self._going, self._emptied, *self._looking.values()))

    async def _look(self, over: Set[bytes], came: Set[bytes]) -> None:
        try:
            await self._still(list(came))
            its = await self._of(over, came)
        except errors.TfquiverError as error:
            every_n_seconds(logging.WARNING, "what came while data sets were emptied: %s", 60, error)
            its = over
        except Exception:  # noqa: BLE001 - whatever it was: what came would stay, and nobody knew of it
            logging.exception("what came while data sets were emptied")
            its = over
        if its:
            self._again(its)

    async def _of(self, over: Set[bytes], came: Set[bytes]) -> Collection[bytes]:
        """Of these digests those of which something stands that came."""
        if len(came) > MOST_NOTED:
            return over
        parts = await asyncio.to_thread(self._standing, came)
        if not len(parts) or not (await self._named(parts, over)).any():
            return ()
        return [digest_id for digest_id in over if (await self._named(parts, [digest_id])).any()]

    def _standing(self, came: Set[bytes]) -> Prefixes:
        return distinct(of_hashes(filter(self._is_here, came)))
