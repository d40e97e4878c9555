"""Which shards a registered data set names: what scans that came to nothing have left on nodes is nobody's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
from absl import logging

from tfquiver import errors
from tfquiver.content.prefixes import Prefixes, strike
from tfquiver.service.coordinator.cache.caching import Caching
from tfquiver.service.coordinator.datasets.registry import Registry
from tfquiver.service.coordinator.named_datasets.lifecycle import SCANNING
from tfquiver.service.coordinator.named_datasets.table import NamedTable
from tfquiver.service.coordinator.nodes.membership import Membership


class Claims:
    """Lives on one loop."""

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
        self._asking = asyncio.Lock()  # each question may read every digest

    @property
    def scanning(self) -> bool:
        """Shards may be on their way to nodes that a data set will name; or nodes have not told yet."""
        if not self._caching.met or not self._membership.all_told or self._membership.scanning:
            return True
        return self._is_deriving() or any(life.phase == SCANNING for life in self._named)

    async def unclaimed(self, prefixes: Prefixes) -> bytes | None:
        """A byte for each: 1, none names it. None: a scan is under way. Those that were registered last are looked at
        first: what is asked for has mostly come with them."""
        if self.scanning:
            return None
        async with self._asking:
            distinct, shard_of = np.unique(prefixes, return_inverse=True)
            claimed = np.zeros(len(distinct), np.bool_)
            for dataset in self._registry.all():
                if claimed.all():
                    break
                try:
                    digest = await self._registry.digest(dataset.digest_id)
                except errors.NotFoundError:
                    continue  # removed meanwhile
                except errors.CorruptDigestError as error:  # it is to be registered again, and read again
                    logging.log_every_n_seconds(logging.WARNING, "%s", 600, error)
                    continue
                await asyncio.to_thread(strike, claimed, distinct, digest.hashes)
            if self.scanning:
                return None
            return (~claimed)[shard_of].astype(np.uint8).tobytes()
