"""What scans that came to nothing have left on this node's disk: nobody's bytes go.

A scan places shards at their owners before there is a data set that names them. If it never ends, because its data set
was deleted or everybody was killed, they are nobody's. They go soon after a data set that has a name was deleted; else
an hour after they came, in which no scan was seen anywhere: until then one that is asked for again finds them. Nothing
goes while a scan is under way on any node, nor what a registered data set names, unless that was emptied and nobody
has used it since.

What is a data set's is noted until the digest that names it stands on this node's disk, too: by that it goes with its
data set. A scan of another node leaves none here, nor is one here after a kill that had not been written.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.service.common_to_servers.repeated import OwnTask
from tfquiver.service.node.evicting_emptying_removing_leftovers.placed_log import PlacedLog
from tfquiver.service.node.hanging_disk.disk_threads import OnDisk
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_hashes
from tfquiver.sizes_durations_amounts.amounts import many

KEPT_S = 3600.0
MAX_ASKED = 1 << 19  # prefixes in a question: 4 MiB
_LOOK_S, _SOON_S = 300.0, 5.0
_LATE_S = 60.0  # shards of a scan that is given up still come for so long
_GIVEN_UP_AT_ONCE = 1000

Unclaimed = Callable[[bytes], Awaitable[coordinator_pb2.UnclaimedReply]]
NamedHere = Callable[[Prefixes], Awaitable[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]]


class Leftovers:
    """Lives on one loop. `start` it, `close` it.

    Args:
      is_here: whether an entry with that hash stands.
      named_here: which of these prefixes of hashes, sorted and distinct, a digest of this node names that keeps any,
        and which one that stands on the disk.
      unclaimed: of 8-byte prefixes of hashes, one after the other, which of them no registered data set names, and
        which do. Raises TfquiverError.
      get: gets the digest with that id, which is kept on the disk soon; raises TfquiverError.
      give_up: deletes the shards with these hashes; raises TfquiverError where some of them stay.
      steady_s: the log's clock, which never goes back.
      on_disk: runs what waits for the disk.
    """

    def __init__(
        self,
        log: PlacedLog,
        is_here: Callable[[bytes], bool],
        named_here: NamedHere,
        unclaimed: Unclaimed,
        get: Callable[[bytes], Awaitable[None]],
        give_up: Callable[[Sequence[bytes]], Awaitable[None]],
        steady_s: Callable[[], float],
        on_disk: OnDisk = asyncio.to_thread,
    ) -> None:
        self._on_disk = on_disk
        self._log, self._is_here, self._named_here = log, is_here, named_here
        self._unclaimed, self._give_up, self._steady_s = unclaimed, give_up, steady_s
        self._get_digest = get
        self._got = set[bytes]()  # digests, for what is noted: none is got twice that the disk does not keep
        self._quiet_since_s = steady_s()
        self._abandoned_s = -np.inf
        self._news = asyncio.Event()
        self._looking = asyncio.Lock()
        self._own_task = OwnTask(self._run)

    def start(self) -> None:
        self._own_task.start()

    async def close(self) -> None:
        await self._own_task.close()
        await self._on_disk(self._log.close)

    def abandoned(self) -> None:
        """A data set was deleted: what its scans have placed, if any was under way, is not waited for."""
        self._abandoned_s = self._steady_s()
        self._news.set()

    async def look(self) -> bool:
        """Lets go of what is nobody's; whether nothing is left that is to go soon. Raises TfquiverError."""
        async with self._looking:
            noted = await self._on_disk(self._log.noted)
            left = await self._on_disk(self._standing, noted)
            if not left:
                self._got.clear()
            if left and (await self._unclaimed(b"")).scanning:
                self._quiet_since_s = self._steady_s()
                return not any(self._is_abandoned(noted[hash]) for hash in left)
            left = await self._unnamed_here(left)
            for at in range(0, len(left), MAX_ASKED):
                asked = left[at : at + MAX_ASKED]
                reply = await self._unclaimed(of_hashes(asked).astype("<u8").tobytes())
                if reply.scanning or len(reply.unclaimed) != len(asked):
                    return False
                new = [digest_id for digest_id in reply.digest_ids if digest_id not in self._got]
                await self._let_go(await self._on_disk(self._due, asked, reply.unclaimed, noted, not new))
                await self._get(new)
            return True

    async def _get(self, digest_ids: Sequence[bytes]) -> None:
        """What they name is settled at a later look, when they stand on the disk."""
        for digest_id in digest_ids:
            try:
                await self._get_digest(digest_id)
            except errors.NotFoundError:
                continue  # it was removed meanwhile: nobody names it then
            except errors.TfquiverError as error:
                every_n_seconds(
                    logging.WARNING, "digest %s, of what is cached here: %s", 600, digest_id.hex(), error,
                    extra=about(digest=digest_id),
                )  # fmt: skip
                continue
            self._got.add(digest_id)

    def _standing(self, noted: Mapping[bytes, float]) -> list[bytes]:
        """Settles what does not stand, unless it may be on its way just now. For a thread: there may be a million."""
        left = [hash for hash in noted if self._is_here(hash)]
        too_old_s = self._steady_s() - _LATE_S
        gone = [hash for hash in noted.keys() - set(left) if noted[hash] < too_old_s]
        self._log.settle(gone)
        for hash in filter(self._is_here, gone):  # it has come since it was looked for
            self._log.note(hash)
        return left

    def _due(self, asked: Sequence[bytes], bits: bytes, noted: Mapping[bytes, float], settle: bool) -> list[bytes]:
        """For a thread, too. `settle`: what a data set names: its digest has been here, or none is told of."""
        if settle:
            self._log.settle(hash for hash, bit in zip(asked, bits, strict=True) if not bit)
        return [hash for hash, bit in zip(asked, bits, strict=True) if bit and self._is_due(noted[hash])]

    def _is_abandoned(self, placed_s: float) -> bool:
        return placed_s <= self._abandoned_s + _LATE_S

    def _is_due(self, placed_s: float) -> bool:
        return self._is_abandoned(placed_s) or self._steady_s() - max(placed_s, self._quiet_since_s) >= KEPT_S

    async def _let_go(self, hashes: Sequence[bytes]) -> None:
        for at in range(0, len(hashes), _GIVEN_UP_AT_ONCE):
            part = hashes[at : at + _GIVEN_UP_AT_ONCE]
            await self._give_up(part)
            await self._on_disk(self._log.settle, part)
        if hashes:
            logging.info(
                "%s of what scans have left: no data set has them", many(len(hashes), "shard goes", "shards go")
            )

    async def _unnamed_here(self, hashes: list[bytes]) -> list[bytes]:
        """Those that no digest of this node keeps; the others are settled, but for those whose digest the disk has not
        taken yet: a kill would leave what they name without an owner."""
        if not hashes:
            return []
        distinct, shard_of = np.unique(of_hashes(hashes), return_inverse=True)
        named, kept = (mask[shard_of] for mask in await self._named_here(distinct))
        await self._on_disk(self._log.settle, [hashes[at] for at in np.flatnonzero(kept)])
        return [hashes[at] for at in np.flatnonzero(~named)]

    async def _run(self) -> None:
        soon_s = _SOON_S
        while True:
            is_done = False
            try:
                is_done = await self.look()
            except errors.TfquiverError as error:
                every_n_seconds(logging.WARNING, "what scans have left: %s", 600, error)
            except Exception:  # noqa: BLE001 - whatever it was: without this task nothing would ever go
                logging.exception("what scans have left")
            is_soon = not is_done or self._steady_s() <= self._abandoned_s + _LATE_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(soon_s if is_soon else _LOOK_S * random.uniform(0.5, 1.5)):
                    await self._news.wait()
            soon_s = _SOON_S if self._news.is_set() or not is_soon else min(_LOOK_S, 1.5 * soon_s)
            self._news.clear()
