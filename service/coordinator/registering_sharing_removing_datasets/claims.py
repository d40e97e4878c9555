"""Which shards a registered data set names: what scans that came to nothing have left on nodes is nobody's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import SCANNING
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, strike
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct as distinct_of

_NOBODY = -1


@dataclass(frozen=True, slots=True)
class Claimed:
    """`unclaimed`: a byte for each: 1, none names it. `digest_ids`: of data sets that name the others."""

    unclaimed: bytes
    digest_ids: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class _Question:
    prefixes: Prefixes
    answer: asyncio.Future[Claimed | None]


class Claims:
    """Lives on one loop. `close` it."""

    def __init__(
        self,
        registry: Registry,
        named: NamedTable,
        membership: Membership,
        caching: Caching,
        is_deriving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_deriving`: whether derived data sets are being computed, whose shards no data set names yet."""
        self._is_deriving = is_deriving
        self._registry, self._named, self._membership, self._caching = registry, named, membership, caching
        self._waiting: list[_Question] = []
        self._answering: asyncio.Task[None] | None = None

    @property
    def scanning(self) -> bool:
        """Shards may be on their way to nodes that a data set will name; or nodes have not told yet."""
        if not self._caching.met or not self._membership.all_told or self._membership.scanning:
            return True
        return self._is_deriving() or any(life.phase == SCANNING for life in self._named)

    async def claimed(self, prefixes: Prefixes) -> Claimed | None:
        """None: a scan is under way. Raises UnavailableError: a disk that fails."""
        if self.scanning:
            return None
        question = _Question(prefixes, asyncio.get_running_loop().create_future())
        self._waiting.append(question)
        if self._answering is None or self._answering.done():
            self._answering = asyncio.get_running_loop().create_task(self._answer_all())
        return await question.answer

    async def close(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.gather(self._answering, return_exceptions=True)
        for question in self._waiting:
            question.answer.cancel()

    async def _answer_all(self) -> None:
        """All that wait at a time, with one look at the digests: of a thousand nodes each asks when a data set goes."""
        while self._waiting:
            asked, self._waiting = self._waiting, []
            try:
                distinct, shard_of = np.unique(np.concatenate([one.prefixes for one in asked]), return_inverse=True)
                by, digest_ids = await self._claimants(distinct)
                ends = np.cumsum([len(one.prefixes) for one in asked])
                for one, its in zip(asked, np.split(by[shard_of], ends[:-1]), strict=True):
                    if not one.answer.done():  # who asked may have gone
                        one.answer.set_result(None if self.scanning else _told(its, digest_ids))
            except errors.TfquiverError as error:  # a disk that fails; who has asked since may have more luck
                for one in asked:
                    if not one.answer.done():
                        one.answer.set_exception(error)
            finally:
                for one in asked:
                    one.answer.cancel()  # those that have no answer

    async def _claimants(self, distinct: Prefixes) -> tuple[npt.NDArray[np.int32], list[bytes]]:
        """Of each which of these digests names it; _NOBODY: none. Those that were registered last are looked at first:
        what is asked for has mostly come with them. What was emptied, and nobody has used since, claims nothing."""
        by, digest_ids = np.full(len(distinct), _NOBODY, np.int32), list[bytes]()
        claimed, seen = np.zeros(len(distinct), np.bool_), set[bytes]()
        # What is registered while others are read, by a scan that is over before they are, is looked at, too.
        while unseen := [one.digest_id for one in self._registry.all() if one.digest_id not in seen]:
            seen.update(unseen)
            emptied = self._emptied()
            for digest_id in (one for one in unseen if one not in emptied):
                if claimed.all():
                    return by, digest_ids
                try:
                    digest = await self._registry.digest(digest_id)
                except errors.NotFoundError:
                    continue  # removed meanwhile
                except errors.CorruptDigestError as error:  # it is to be registered again, and read again
                    every_n_seconds(logging.WARNING, "%s", 600, error)
                    continue
                await asyncio.to_thread(strike, claimed, distinct, digest.hashes)
                if (its := claimed & (by == _NOBODY)).any():
                    by[its] = len(digest_ids)
                    digest_ids.append(digest_id)
        return by, digest_ids

    def _emptied(self) -> set[bytes]:
        """Of these no name has kept anything since."""
        emptied, kept = set[bytes](), set[bytes]()
        for life in self._named:
            (emptied if life.keeps_nothing else kept).add(life.digest_id)
            kept.update(life.old_digest_ids)
        return emptied - kept


def _told(by: npt.NDArray[np.int32], digest_ids: Sequence[bytes]) -> Claimed:
    """`by`: numbers of digests."""
    named_by = distinct_of(by[by != _NOBODY]).tolist()
    return Claimed((by == _NOBODY).astype(np.uint8).tobytes(), [digest_ids[number] for number in named_by])
