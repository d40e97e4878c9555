"""Where the data of a pod is, as the coordinator says: in time, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import grpc
import grpc.aio
from absl import logging

from tfquiver.grpc_plumbing import rpc
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, named_datasets_pb2, named_datasets_pb2_grpc
from tfquiver.service.extender.scheduler_json import MAX_MACHINES, Question
from tfquiver.shard_owners_chunks_hash_prefixes import labels

_QUIET_S = 5.0  # after a call that failed nobody is kept waiting for another
_KNOWN_S = 10.0  # for so long a data set is what it was
_MOST_KNOWN = 4096
_AT_ONCE = 64
# What the coordinator says of what one pod asked for: it would say something else to the next one.
_OF_THIS_POD = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
)


class Advice:
    """On one loop.

    Args:
      within_s: of both calls that an answer takes.
    """

    def __init__(self, address: str, token: str, within_s: float, clock: Callable[[], float]) -> None:
        self._metadata, self._within_s, self._clock = rpc.metadata(token), within_s, clock
        self._channel = rpc.aio_channel(address)
        self._datasets = named_datasets_pb2_grpc.NamedDatasetsStub(self._channel)
        self._coordinator = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._known: dict[str, tuple[bytes, float]] = {}
        self._quiet_until_s = 0.0
        self._asking = 0

    async def close(self) -> None:
        await self._channel.close()

    async def scores(self, asked: Question) -> Mapping[str, float]:
        """Of the machines that were asked for, 0 to 1; empty: it is not known, or not in time. Raises nothing."""
        if not asked.dataset or not asked.machines or self._clock() < self._quiet_until_s or self._asking >= _AT_ONCE:
            return {}
        self._asking += 1
        try:
            async with asyncio.timeout(self._within_s):
                return await self._asked(asked)
        except TimeoutError:
            self._failed(f"no answer within {self._within_s:g} s")
        except grpc.RpcError as error:
            if error.code() in _OF_THIS_POD:
                every_n_seconds(
                    logging.INFO,
                    "data set %s: %s",
                    10,
                    asked.dataset,
                    error.details(),
                    extra=about(dataset=asked.dataset),
                )
            else:
                self._failed(f"{error.code().name}: {error.details()}")
        finally:
            self._asking -= 1
        return {}

    def _failed(self, why: str) -> None:
        self._quiet_until_s = self._clock() + _QUIET_S
        every_n_seconds(
            logging.WARNING, "the coordinator: %s; pods are placed without its advice for %g s", 10, why, _QUIET_S
        )

    async def _asked(self, asked: Question) -> Mapping[str, float]:
        digest_id = await self._digest(asked.dataset)
        if not digest_id:
            return {}
        candidates = [
            pb.Candidate(name=name, labels=labels.of_machine(its))
            for name, its in list(asked.machines.items())[:MAX_MACHINES]
        ]
        request = pb.SuggestPlacementRequest(job=asked.job, digest_id=digest_id, candidates=candidates)
        reply = await self._coordinator.SuggestPlacement(request, metadata=self._metadata)
        return {one.name: one.score for one in reply.scores}

    async def _digest(self, name: str) -> bytes:
        """Of its newest version; empty: there is none yet."""
        now_s = self._clock()
        digest_id, until_s = self._known.get(name, (b"", 0.0))
        if now_s < until_s:
            return digest_id
        request = named_datasets_pb2.GetNamedDatasetRequest(name=name)
        digest_id = (await self._datasets.Get(request, metadata=self._metadata)).dataset.digest_id
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name] = digest_id, now_s + _KNOWN_S
        return digest_id
