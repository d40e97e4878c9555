"""Which records the draws of a session are of: told to nodes, who know neither weights nor chances."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards
from tfquiver.messages_and_binary_formats.record_picks import RecordPicks
from tfquiver.messages_and_binary_formats.record_weights import RecordWeights
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.samplings import Samplings
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.weight_files import WeightFiles
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.draw_planes import planes
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.sizes_durations_amounts.amounts import of_bytes

MOST_REPLY_BYTES = 4 << 20
_KEPT = 4  # data sets: 8 bytes a shard of each
THREADS = 2  # the others of the loop's pool are for who waits for the disk, such as the commit log
BETWEEN_S = 600.0  # so long after an epoch has ended its job may be about to begin the next


def weights_in_use(sessions: Sessions) -> set[bytes]:
    """Of sessions that have not ended, or have just now."""
    sampled = (session for session in sessions if session.sampled)
    needed = (one for one in sampled if not one.ended or sessions.idle_s(one) < BETWEEN_S)
    return {session.drawn.picks.weights_id for session in needed} - {b""}


class Picking:
    """Lives on the coordinator's loop."""

    def __init__(self, registry: Registry, sessions: Sessions, samplings: Samplings, weights: WeightFiles) -> None:
        self._registry, self._sessions, self._samplings, self._weights = registry, sessions, samplings, weights
        self._before: OrderedDict[bytes, npt.NDArray[np.int64]] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, "picks")

    def close(self) -> None:
        """Those under way are finished; nobody asks any more."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def pick(self, session_id: str, draws: Sequence[int]) -> list[bytes]:
        """As PickRecordsReply. Raises NotFoundError, InvalidArgumentError, DataLossError (the weights are gone)."""
        session = self._sessions.session(session_id)
        if not session.sampled or not session.drawn.HasField("picks"):
            raise errors.InvalidArgumentError(f"session_id: {session_id} is of whole shards")
        digest_id, drawn = session.digest_id, await self._samplings.draws_of(session)
        assert drawn.picks is not None
        if max(draws) >= len(drawn.shards):
            raise errors.InvalidArgumentError(f"draws: {max(draws)}; the session has {len(drawn.shards)}")
        before = await self._records_before(digest_id)
        numbers = drawn.shards[list(draws)].astype(np.int64)
        records = before[numbers + 1] - before[numbers]
        size_bytes = sum(drawn.picks.pick_bytes(int(count)) for count in records)
        if size_bytes > MOST_REPLY_BYTES:
            raise errors.InvalidArgumentError(f"draws: their picks take {of_bytes(size_bytes)}; ask for fewer")
        try:
            weights = await self._weights.get(drawn.picks.weights_id)
        except (errors.NotFoundError, errors.DataLossError) as error:
            raise errors.DataLossError(f"session {session_id}: the weights of its records are gone: {error}") from error
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _planes, drawn, drawn.picks, weights, before, draws)

    async def _records_before(self, digest_id: bytes) -> npt.NDArray[np.int64]:
        if digest_id not in self._before:
            digest = await self._registry.digest(digest_id)
            self._before[digest_id] = await asyncio.to_thread(_summed, digest.records)
        self._before.move_to_end(digest_id)
        while len(self._before) > _KEPT:
            self._before.popitem(last=False)
        return self._before[digest_id]


def _summed(records: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(records, dtype=np.int64)))


def _planes(
    drawn: DrawnShards,
    picks: RecordPicks,
    weights: RecordWeights,
    before: npt.NDArray[np.int64],
    draws: Sequence[int],
) -> list[bytes]:
    found = []
    for draw in draws:
        shard = int(drawn.shards[draw])
        first, end = int(before[shard]), int(before[shard + 1])
        found.append(planes(picks, weights.values[first:end], draw, first))
    return found
