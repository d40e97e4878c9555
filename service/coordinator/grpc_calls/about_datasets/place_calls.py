"""The calls on where data sets are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.grpc_plumbing.rpc import caller, handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run import rules, suggestions
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.held_bytes import held_of
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.placed import held_bits, message
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers, Tokens
from tfquiver.service.coordinator.long_work.asked_alike import AskedAlike
from tfquiver.shard_owners_chunks_hash_prefixes import labels
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places

MAX_CANDIDATES = 10_000
MAX_LOOKED_UP = 1 << 22  # prefixes times nodes
LOOKED_UP_AT_ONCE = 10_000  # a few ms, before others have their turn
_OF_A_NODE = 25  # prefixes: what it costs to begin with another one
_MOST_KNOWN = 64  # data sets of which it is known what is where: 0.1 MB each of a thousand nodes


@dataclass(frozen=True, slots=True)
class _Known:
    changes: tuple[int, Places | None]
    held: suggestions.Held


class PlaceCalls(Callers):
    def __init__(self, coordinator: Coordinator, tokens: Tokens | None = None) -> None:
        super().__init__(coordinator, tokens)
        self._looks = AskedAlike[suggestions.Held]()
        self._known: dict[bytes, _Known] = {}

    @handled
    async def SetPlacement(self, request: pb2.SetPlacementRequest, context: Any) -> pb2.PlacementReply:
        checks.hash_("digest_id", request.digest_id)
        self._owned(caller(), request.digest_id)
        rule = request.rule if request.HasField("rule") else None
        if (pinned := self._coordinator.caching.placement.pins.get(request.digest_id)) is not None:
            rules.check_kept_once(rule, pinned)

        def as_expected() -> None:
            now, expected = self._coordinator.caching.placed.rules.find(request.digest_id), request.expected
            if request.HasField("expected") and now != (expected.rule if expected.HasField("rule") else None):
                raise errors.InUseError("expected: somebody has set another placement meanwhile: look at it first")

        await self._coordinator.catalogue.set_placement(request.digest_id, rule, as_expected)
        return self._placement(request.digest_id)

    @handled
    async def GetPlacement(self, request: pb2.GetPlacementRequest, context: Any) -> pb2.PlacementReply:
        checks.hash_("digest_id", request.digest_id)
        self._visible.find(caller(), request.digest_id)
        return self._placement(request.digest_id)

    @handled
    async def Holders(self, request: pb2.HoldersRequest, context: Any) -> pb2.HoldersReply:
        checks.between("prefixes", len(request.prefixes) * len(request.node_ids), 0, MAX_LOOKED_UP)
        placed, reply = self._coordinator.caching.placed, pb2.HoldersReply()
        prefixes, names = np.array(request.prefixes, np.uint64), list(request.node_ids)
        at_once = max(1, LOOKED_UP_AT_ONCE // (len(prefixes) + _OF_A_NODE))
        for at in range(0, len(names), at_once):
            if request.places_version != placed.version:
                return pb2.HoldersReply(places_version=placed.version)
            held = [self._coordinator.residency.holds(node_id, prefixes) for node_id in names[at : at + at_once]]
            reply.held.extend(held_bits(np.stack(held)))
            await asyncio.sleep(0)  # of many nodes it takes a second
        reply.places_version = placed.version
        reply.settled = self._settled(request.digest_id)
        reply.moves = placed.reports.moved(request.digest_id)
        return reply

    @handled
    async def SuggestPlacement(self, request: pb2.SuggestPlacementRequest, context: Any) -> pb2.SuggestPlacementReply:
        checks.name("job", request.job, required=False)
        checks.hash_("digest_id", request.digest_id, required=False)
        checks.between("candidates", len(request.candidates), 0, MAX_CANDIDATES)
        for candidate in request.candidates:
            checks.name("candidates.name", candidate.name)
            labels.check(candidate.labels)
        digest_id = request.digest_id or self._read_by(request.job)
        self._visible.find(caller(), digest_id)
        nodes = {
            node.node_id: (_host(node.control_address), dict(node.labels))
            for node in self._coordinator.membership.live()
        }
        asked = [(one.name, dict(one.labels)) for one in request.candidates] or [(name, {}) for name in nodes]
        held = await self._held(digest_id, {name: its.get(labels.RACK, "") for name, (_, its) in nodes.items()})
        reply = pb2.SuggestPlacementReply(size_bytes=held.size_bytes)
        for one in suggestions.scores(suggestions.machines(asked, nodes), held):
            reply.scores.add(
                name=one.machine.name, node_id=one.machine.node_id, score=one.score, reason=one.reason,
                node_bytes=one.node_bytes, rack_bytes=one.rack_bytes, elsewhere_bytes=one.elsewhere_bytes,
                missing_bytes=one.missing_bytes, planned_bytes=one.planned_bytes,
            )  # fmt: skip
        return reply

    def _read_by(self, job: str) -> bytes:
        """What a job reads, or read last. Raises NotFoundError, InvalidArgumentError."""
        if not job:
            raise errors.InvalidArgumentError("digest_id, job: one of them must be set")
        for session in reversed(list(self._coordinator.sessions)):
            if session.job == job and self._coordinator.ownership.may_read(caller(), session.digest_id):
                return session.digest_id
        raise errors.NotFoundError(f"job: no job {job!r} reads anything")

    async def _held(self, digest_id: bytes, racks: Mapping[str, str]) -> suggestions.Held:
        """For all who ask at the same time, or before nodes have told anything new, it is looked for once: a scheduler
        asks for each pod of a sweep, and of a thousand nodes with a million shards it takes a tenth of a second."""
        known, now = self._known.get(digest_id), self._changes(digest_id)
        if known is not None and known.changes == now and known.held.racks == racks:
            await self._coordinator.registry.digest(digest_id)  # it may have been removed, or be damaged
            return known.held
        return await self._looks.made(digest_id, lambda: self._looked(digest_id, racks))

    async def _looked(self, digest_id: bytes, racks: Mapping[str, str]) -> suggestions.Held:
        digest, residency = await self._coordinator.registry.digest(digest_id), self._coordinator.residency
        for _ in residency.merge():
            await asyncio.sleep(0)
        changes, held = self._changes(digest_id), residency.held()
        places = self._coordinator.caching.placed.places(digest_id)
        found = await asyncio.to_thread(held_of, digest, held, racks, places)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[digest_id] = _Known(changes, found)
        return found

    def _changes(self, digest_id: bytes) -> tuple[int, Places | None]:
        """Others whenever nodes have told something else, or it is to be kept elsewhere."""
        return self._coordinator.residency.changes, self._coordinator.caching.placed.places(digest_id)

    def _placement(self, digest_id: bytes) -> pb2.PlacementReply:
        placed = self._coordinator.caching.placed
        places = placed.places(digest_id)
        if places is None:
            return pb2.PlacementReply()
        return pb2.PlacementReply(
            rule=placed.rules.find(digest_id),
            places=message(places),
            moves=placed.reports.of(digest_id),
            settled=self._settled(digest_id),
        )

    def _settled(self, digest_id: bytes) -> bool:
        placed = self._coordinator.caching.placed
        return placed.reports.settled(digest_id, self._coordinator.membership.storing, placed.version)


def _host(address: str) -> str:
    """Of host:port; "": it has none."""
    try:
        return addresses.split(address)[0]
    except ValueError:
        return ""
