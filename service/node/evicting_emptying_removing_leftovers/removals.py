"""Data sets that were removed: what this node keeps of them alone goes, and then their digests.

The coordinator says which of the digests that lie here have been removed. Nothing is deleted for a digest that it only
does not know: it may have lost its memory, and what is cached is good still.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence, Set
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.logs import about
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.common_to_servers.repeated import OwnTask
from tfquiver.service.node.digests_kept_here.other_digests import OtherDigests
from tfquiver.sizes_durations_amounts.amounts import many

Kept = TypeVar("Kept", bound=Collection[bytes])
_ASKED_AT_ONCE = 16_384
_TRY_AGAIN_S = 5.0
_SHARDS_AT_ONCE = 4_000_000  # or those of one data set: about 60 bytes of memory each
_NAMED = 5


class Removals:
    """Lives on one loop. `start` it, `close` it.

    Args:
      here: ids of the digests that this node has, on the disk or in memory.
      digest: the digest with that id; raises TfquiverError.
      others: which shards they name.
      drop: forgets a digest, on the disk too.
      removed: those of these digest ids whose data sets were removed; raises TfquiverError.
      give_up: deletes the shards with these hashes; raises TfquiverError where some of them stay.
      still: returns when nothing of these digest ids is on its way here from another node.
    """

    def __init__(
        self,
        here: Callable[[], Sequence[bytes]],
        digest: Callable[[bytes], Awaitable[Digest]],
        others: OtherDigests,
        drop: Callable[[bytes], Awaitable[None]],
        removed: Callable[[Sequence[bytes]], Awaitable[Sequence[bytes]]],
        give_up: Callable[[Sequence[bytes]], Awaitable[None]],
        still: Callable[[Sequence[bytes]], Awaitable[None]],
    ) -> None:
        self._still = still
        self._here, self._digest, self._drop = here, digest, drop
        self._removed, self._give_up = removed, give_up
        self._others = others
        self._emptied, self._deleted = frozenset[bytes](), set[bytes]()
        self._named: Sequence[pb.NamedDigest] = ()
        self._nothing = frozenset[bytes]()  # digests that keep nothing
        self._nothing_of: Sequence[pb.NamedDigest] = self._named
        self._passes: list[Set[bytes]] = []  # what each that is under way does not spare
        self._passed = asyncio.Event()
        self._seen = 0
        self._news = asyncio.Event()
        self._own_task = OwnTask(self._run)

    def start(self) -> None:
        self._own_task.start()

    async def close(self) -> None:
        await self._own_task.close()

    def emptied(self, digest_ids: Set[bytes], deleted: Set[bytes]) -> None:
        """Of what is being emptied now, `deleted`: for good, none keeps what another one has, too: whichever comes
        last would find the other still there, and each leave it what they share."""
        self._emptied = frozenset(digest_ids)
        self._deleted |= deleted

    def wanted(self, named: Sequence[pb.NamedDigest]) -> None:
        """The newest data sets that have names. One that was emptied, and that nobody has used since, keeps nothing:
        what others shared with it, and the eviction has left to them, goes with these."""
        self._named = named

    async def let_go(self, digest_id: bytes) -> None:
        """Returns when nothing goes any more that this digest names, too, and has not kept: what is read of it before
        would be taken for here."""
        while any(digest_id in going for going in self._passes):
            await self._passed.wait()

    def told(self, removals: int) -> None:
        """The coordinator's number of them: another than before when there was one, or it is another coordinator."""
        if removals != self._seen:
            self._seen = removals
            self._news.set()

    def look_again(self) -> None:
        """A digest has come otherwise than with orders."""
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

    async def give_up(self, digest_ids: Sequence[bytes]) -> str:
        """What is kept of these alone; their data sets stay. What other data sets have of the first, too, and so stays,
        in words; "": nothing. Raises TfquiverError."""
        shared = ""
        await self._still(digest_ids)
        self._deleted &= set(self._here())  # after that wait: it may have been made anew meanwhile
        gone = await self._removed(list(self._deleted)) if self._deleted else ()
        with self._sparing(await self.keeping({*digest_ids, *gone})) as kept:
            for digest_id in digest_ids:
                digests = [await self._digest(digest_id)]
                alone = await self._others.alone(digests, kept)
                await self._give_up(await asyncio.to_thread(_hashes, digests, alone))
                if digest_id == digest_ids[0] and (stay := int((~alone).sum())):
                    shared = (
                        f"{stay} of its {many(len(alone), 'shard')} are other data sets', too: what is kept of these "
                        "goes when those are evicted or deleted"
                    )
        return shared

    async def keeping(self, going: Collection[bytes] = ()) -> list[bytes]:
        """The digests here that keep what they name while these go. One that has been deleted is here until that has
        been carried out."""
        while self._nothing_of is not (named := self._named):
            nothing = await asyncio.to_thread(_keep_nothing, named)
            self._nothing, self._nothing_of = nothing, named
        return sorted(set(self._here()).difference(going, self._emptied, self._nothing))

    @contextlib.contextmanager
    def _sparing(self, kept: Kept) -> Iterator[Kept]:
        going = frozenset(self._here()).difference(kept)
        self._passes.append(going)
        try:
            yield kept
        finally:
            self._passes.remove(going)
            self._passed.set()
            self._passed.clear()

    async def carry_out(self) -> None:
        """What is done twice, or after a kill half-way, does no harm: the digest goes last."""
        if not (gone := await self._gone(self._here())):
            return
        await self._still(gone)
        with self._sparing(set(self._here()).difference(gone)):
            # One that was made anew meanwhile may have been read since; who reads it from now on waits.
            await self._all_go(await self._gone(gone))

    async def _gone(self, digest_ids: Sequence[bytes]) -> list[bytes]:
        gone: list[bytes] = []
        for at in range(0, len(digest_ids), _ASKED_AT_ONCE):
            gone += await self._removed(digest_ids[at : at + _ASKED_AT_ONCE])
        return gone

    async def _all_go(self, gone: Sequence[bytes]) -> None:
        batch: list[bytes] = []
        digests: list[Digest] = []
        for at, digest_id in enumerate(gone, 1):
            batch.append(digest_id)
            try:
                digests.append(await self._digest(digest_id))
            except errors.TfquiverError as error:
                logging.warning(
                    "digest %s of a removed data set: %s", digest_id.hex(), error, extra=about(digest=digest_id)
                )
            if digest_id == gone[-1] or sum(digest.num_shards for digest in digests) >= _SHARDS_AT_ONCE:
                with self._sparing(await self.keeping([*batch, *gone[at:]])) as kept:
                    await self._go(batch, digests, kept, gone[at:])
                batch, digests = [], []

    async def _go(
        self, batch: Sequence[bytes], digests: Sequence[Digest], kept: Sequence[bytes], later: Sequence[bytes]
    ) -> None:
        """What these have alone, then their digests. `later`: those that go then, and keep nothing now."""
        alone: list[bytes] = []
        if digests:
            chosen = await self._others.alone(digests, kept)
            alone = await asyncio.to_thread(_hashes, digests, chosen)
            await self._give_up(alone)
            names = ", ".join(repr(digest.name) for digest in digests[:_NAMED])
            were = many(len(digests), "data set was", "data sets were")
            logging.info("%s removed (%s): %s", were, names, many(len(alone), "shard goes", "shards go"))
        for done in batch:
            await self._drop(done)
        if alone:  # who read them by force until their digests went has had some fetched again
            if new := sorted(set(await self.keeping(later)).difference(kept)):  # of the same content, perhaps
                chosen &= await self._others.alone(digests, new)
                alone = await asyncio.to_thread(_hashes, digests, chosen)
            await self._give_up(alone)


def _keep_nothing(named: Sequence[pb.NamedDigest]) -> frozenset[bytes]:
    """For a thread. What several names have keeps nothing where none of them does."""
    keep = {one.digest_id for one in named if not one.keeps_nothing}
    return frozenset({one.digest_id for one in named if one.keeps_nothing} - keep)


def _hashes(digests: Sequence[Digest], chosen: npt.NDArray[np.bool_]) -> list[bytes]:
    """Of the shards of all digests, one after the other, those that are chosen."""
    ends = np.cumsum([digest.num_shards for digest in digests])
    parts = zip(digests, np.split(chosen, ends[:-1]), strict=True)
    return [row.tobytes() for digest, its in parts for row in digest.hashes[its]]
