"""Looks at the coordinator every ten seconds for people who look later (`past`). On the loop, a few sessions at a
time; what takes longer is counted in a thread."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
from absl import logging

from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.history_of_the_last_day import heat
from tfquiver.service.coordinator.history_of_the_last_day.past import Past
from tfquiver.service.coordinator.history_of_the_last_day.series import COARSE, STEP_S
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import JobMeters
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_meter import StoreMeter
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.service.coordinator.sessions.sessions import Sessions


class KeepingPast:
    def __init__(
        self, sessions: Sessions, caching: Caching, registry: Registry, meters: JobMeters, store: StoreMeter
    ) -> None:
        self._sessions, self._caching, self._registry = sessions, caching, registry
        self._meters, self._store = meters, store
        self._past, self._looks = Past(), 0

    def told(self, day: bool, jobs: list[str], digest_id: bytes) -> dict[str, Any]:
        return self._past.told(time.time(), day, jobs, digest_id.hex(), self._called)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(STEP_S - time.time() % STEP_S)
            try:
                await self._look()
                if self._looks % COARSE == 0:
                    await self._look_at_chunks()
                self._looks += 1
            except Exception:  # noqa: BLE001 - the loop of a task that is for people only: the next look may do
                logging.exception("what there was is not kept for people this time")

    async def _look(self) -> None:
        read, parts = [], InParts()
        for session in list(self._sessions):
            if session.readers:
                done = session.acked_shards / session.shards if session.shards else 1.0
                name = self._called(session.digest_id) or session.digest_id.hex()[:8]
                read.append((session.number, session.job, name, session.digest_id, session.epoch, done))
            await parts.rest()
        jobs: dict[str, dict[str, float]] = {}
        rate = stalled = 0.0
        for key, _ in self._meters:
            await parts.rest()
            if (measured := self._meters.measured_of(key)) is None:
                continue
            rate += measured.bytes_per_s
            stalled += measured.bytes_per_s * measured.stall_share
            figures = jobs.setdefault(self._meters.name_of(key), {"bytes_per_s": 0.0, "stall_share": 0.0})
            figures["bytes_per_s"] += measured.bytes_per_s
            figures["stall_share"] = max(figures["stall_share"], measured.stall_share)
            if measured.hit_share is not None:
                figures["hit_share"] = measured.hit_share
        cluster = {
            "read_bytes_per_s": rate,
            "store_bytes_per_s": self._store.told().bytes_per_s,
            "stall_share": stalled / rate if rate else 0.0,
            "jobs": float(len(jobs)),
            "readers": float(self._sessions.open_readers),
        }
        now = time.time()
        self._past.look(now, cluster, read)
        for name, its in jobs.items():
            self._past.job(now, name, its)
            await parts.rest()

    async def _look_at_chunks(self) -> None:
        residency = self._caching.residency
        for digest_id in residency.tables():
            if digest_id not in residency:
                continue  # it was closed meanwhile
            if board := self._caching.rotations.board(digest_id):
                sizes = np.asarray(board.columns.sizes, np.float64)
                shares = np.asarray(board.columns.resident, np.float64) / np.maximum(sizes, 1)
            else:
                resident = bytes(residency.table(digest_id).resident)
                shares = await asyncio.to_thread(heat.shares_of_ranges, resident)
            self._past.chunks(time.time(), digest_id.hex(), shares)
            await asyncio.sleep(0)

    def _called(self, digest_id: bytes) -> str:
        """Empty: it is not registered any more."""
        return self._registry.find(digest_id).name if digest_id in self._registry else ""
