"""The calls on data sets, as each caller may see them: what somebody may not read is not there for them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np

from tfquiver import errors
from tfquiver.grpc_plumbing.rpc import caller, handled, handled_stream
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import Identity, Role
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run import rules
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers, Tokens
from tfquiver.service.coordinator.grpc_calls.uploads import parts_of, sender
from tfquiver.service.coordinator.long_work.asked_alike import AskedAlike
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import PREFIX_BYTES
from tfquiver.shard_owners_chunks_hash_prefixes.striping import MAX_CHUNKS

_MOST_LOOKED_AT = 32
_MOST_UNREACHED = 1024
MAX_OWNED = 2000  # by a name that is not an admin's: no job fills the registry alone


def check_owns_few(coordinator: Coordinator, who: Identity) -> None:
    """Before one more is theirs. Raises ResourceExhaustedError."""
    if who.role is Role.JOB and coordinator.ownership.owned_by(who.owner) >= MAX_OWNED:
        raise errors.ResourceExhaustedError(
            f"{who} owns {MAX_OWNED} data sets already: remove some (tfquiver dataset delete)"
        )


class DatasetCalls(Callers):
    def __init__(self, coordinator: Coordinator, tokens: Tokens | None = None) -> None:
        super().__init__(coordinator, tokens)
        self._lists = AskedAlike[pb2.ListDatasetsReply]()

    @handled
    async def RegisterDataset(
        self, request_iterator: AsyncIterator[pb2.RegisterDatasetRequest], context: Any
    ) -> types_pb2.Dataset:
        who = caller()
        first = await anext(aiter(request_iterator), None)
        if first is None:
            raise errors.InvalidArgumentError("part: the stream is empty")
        checks.name("name", first.name, required=False)
        checks.hash_("listing_key", first.listing_key, required=False)
        checks.name("task_id", first.task_id, required=False)
        terms = ListingTerms.of(first.terms) if first.HasField("terms") else None
        check_owns_few(self._coordinator, who)

        def then(digest_id: bytes) -> None:
            if who.role is not Role.JOB:
                self._coordinator.named.registered(first.task_id, digest_id)

        try:
            dataset = await self._coordinator.catalogue.register(
                first.name, first.listing_key, terms, parts_of(first, request_iterator), who, then,
                first.size_bytes, sender(who, context.peer()),
            )  # fmt: skip
            return self._visible.told(dataset)
        except errors.CorruptDigestError as error:
            raise errors.InvalidArgumentError(f"part: {error}") from error

    @handled
    async def FindDataset(self, request: pb2.FindDatasetRequest, context: Any) -> types_pb2.Dataset:
        who = caller()
        if bool(request.digest_id) + bool(request.listing_key) + bool(request.name) != 1:
            raise errors.InvalidArgumentError("digest_id, listing_key, name: exactly one is set")
        checks.name("scanner", request.scanner, required=False)
        try:
            found = await self._found(who, request)
        except errors.NotFoundError:
            if request.scanner and request.listing_key and who.role is not Role.JOB:
                self._scans(request)
            raise
        if request.listing_key:
            await self._coordinator.catalogue.acquire(who, found.digest_id)
        return self._visible.told(found)

    async def _found(self, who: Identity, request: pb2.FindDatasetRequest) -> types_pb2.Dataset:
        registry = self._coordinator.registry
        if request.digest_id:
            found = self._visible.find(who, request.digest_id)
        elif request.listing_key:
            found = registry.find_listing(request.listing_key, who.owner)
        else:
            found = self._visible.by_name(who, request.name)
        return await registry.sound(found)

    def _scans(self, request: pb2.FindDatasetRequest) -> None:
        checks.hash_("listing_key", request.listing_key)
        if other := self._first_uses.scanned_by(request.listing_key, request.scanner):
            raise errors.AlreadyRunningError(
                f"listing_key: node {other} scans these files: ask again for their data set"
            )
        if request.scan_ended:
            self._first_uses.over(request.listing_key)

    @handled_stream
    async def GetDigest(self, request: pb2.GetDigestRequest, context: Any) -> AsyncIterator[pb2.DigestPart]:
        self._visible.find(caller(), request.digest_id)
        async for part in self._coordinator.registry.parts(request.digest_id):
            yield pb2.DigestPart(part=part)

    @handled
    async def ListDatasets(self, request: pb2.ListDatasetsRequest, context: Any) -> pb2.ListDatasetsReply:
        checks.between("looked_at", len(request.looked_at), 0, _MOST_LOOKED_AT)
        checks.between("unreached", len(request.unreached), 0, _MOST_UNREACHED)
        who = caller()
        alike = who, request.with_settings, frozenset(request.looked_at), frozenset(request.unreached)
        return await self._lists.made(alike, lambda: self._listed(who, request))

    async def _listed(self, who: Identity, request: pb2.ListDatasetsRequest) -> pb2.ListDatasetsReply:
        unreached, named = frozenset(request.unreached), self._coordinator.named
        async with self._lists.turn:
            reply = await self._told(who, request)
        for one in reply.datasets if request.looked_at else ():
            if one.resident_age_ms or not one.HasField("resident_bytes"):
                # It has just been removed, or is damaged: of the others it is known all the same.
                with contextlib.suppress(errors.NotFoundError, errors.CorruptDigestError):
                    if (here := await named.here(one.digest_id)) is not None:
                        for field in ("resident_age_ms", "chunks", "resident_chunks"):
                            one.ClearField(field)
                        one.resident_bytes, one.resident_shards = here.size_bytes, here.shards
                        if unreached and (reached := await named.here(one.digest_id, unreached)) is not None:
                            one.resident_bytes = min(reached.size_bytes, here.size_bytes)
                            one.resident_shards = min(reached.shards, here.shards)
                            one.unreached_bytes = here.size_bytes - one.resident_bytes
        return reply

    async def _told(self, who: Identity, request: pb2.ListDatasetsRequest) -> pb2.ListDatasetsReply:
        """What is known without a look at each shard."""
        unreached, caching = frozenset(request.unreached), self._coordinator.caching
        reply, parts = pb2.ListDatasetsReply(), InParts()
        if request.looked_at:
            visible = self._visible.some(who, request.looked_at)
        else:
            visible = await self._visible.all(who, parts.rest)
        for told in visible:
            await parts.rest()
            reply.datasets.append(told)
            one = reply.datasets[-1]
            if request.with_settings:
                reply.settings.append(caching.placement.setting(one.digest_id))
            lost_bytes = lost_shards = 0
            if unreached and one.digest_id in caching:
                lost_bytes, lost_shards = await self._coordinator.named.unreached(one.digest_id, unreached)
            share = caching.share(one.digest_id)  # after that, as heartbeats change it meanwhile
            if share is not None:
                one.resident_bytes = max(0, share.resident_bytes - lost_bytes)
                one.resident_shards = max(0, share.resident_shards - lost_shards)
                one.chunks, one.resident_chunks = share.chunks, share.resident_chunks
                one.resident_age_ms = int(1000 * share.age_s)
                one.unreached_bytes = lost_bytes
            caching.placed.tell(one)
        return reply

    @handled
    async def ShareDataset(self, request: pb2.ShareDatasetRequest, context: Any) -> types_pb2.Dataset:
        checks.hash_("digest_id", request.digest_id)
        found = self._owned(caller(), request.digest_id)
        await self._coordinator.catalogue.share(request.digest_id, request.names, request.everybody)
        return self._visible.told(found)

    @handled
    async def DeleteDataset(self, request: pb2.DeleteDatasetRequest, context: Any) -> pb2.DeleteDatasetReply:
        checks.hash_("digest_id", request.digest_id)
        who = caller()
        try:
            self._owned(who, request.digest_id)
        except errors.NotFoundError:
            await self._coordinator.catalogue.deleted(request.digest_id)
            return pb2.DeleteDatasetReply()

        def check() -> None:
            self._coordinator.named.check_not_named(who, request.digest_id)

        check()  # before anything is waited for, too
        return pb2.DeleteDatasetReply(
            owners=await self._coordinator.catalogue.delete(who, request.digest_id, request.force, check)
        )

    @handled
    async def RemovedDatasets(self, request: pb2.RemovedDatasetsRequest, context: Any) -> pb2.RemovedDatasetsReply:
        checks.between("digest_ids", len(request.digest_ids), 0, checks.MAX_INVENTORY_HASHES)
        return pb2.RemovedDatasetsReply(digest_ids=self._coordinator.registry.removed(request.digest_ids))

    @handled
    async def Unclaimed(self, request: pb2.UnclaimedRequest, context: Any) -> pb2.UnclaimedReply:
        checks.between("prefixes", len(request.prefixes), 0, checks.MAX_PREFIXES_BYTES)
        if len(request.prefixes) % PREFIX_BYTES:
            raise errors.InvalidArgumentError(f"prefixes: {len(request.prefixes)} bytes; each has {PREFIX_BYTES}")
        prefixes = np.frombuffer(request.prefixes, "<u8").astype(np.uint64)
        if (claimed := await self._coordinator.claims.claimed(prefixes)) is None:
            return pb2.UnclaimedReply(scanning=True)
        return pb2.UnclaimedReply(unclaimed=claimed.unclaimed, digest_ids=claimed.digest_ids)

    @handled
    async def SetCache(self, request: pb2.SetCacheRequest, context: Any) -> types_pb2.CacheSetting:
        checks.hash_("digest_id", request.digest_id)
        checks.between("setting.chunks", request.setting.chunks, 0, MAX_CHUNKS)
        checks.between("setting.partitions", request.setting.partitions, 0, checks.MAX_PARTITIONS)
        checks.name("setting.rotation", request.setting.rotation, required=False)
        who, unset = caller(), request.HasField("setting") and request.setting == types_pb2.CacheSetting()
        if not (unset and who.role is Role.ADMIN and request.digest_id in self._coordinator.caching.placement.settings):
            self._owned(who, request.digest_id)
        not_pinned = self._not_pinned(who, request.digest_id)
        if unset:
            return await self._coordinator.catalogue.unset_cache(request.digest_id, not_pinned)
        rules.check_kept_once(self._coordinator.caching.placed.rules.find(request.digest_id), request.setting)
        return await self._coordinator.catalogue.set_cache(request.digest_id, request.setting, check=not_pinned)

    @handled
    async def AllocateCacheSize(self, request: pb2.AllocateCacheSizeRequest, context: Any) -> types_pb2.CacheSetting:
        checks.hash_("digest_id", request.digest_id)
        checks.between("allocation_bytes", request.allocation_bytes, 0, checks.MAX_BYTES)
        self._owned(who := caller(), request.digest_id)
        return await self._coordinator.catalogue.allocate_cache(
            request.digest_id, request.allocation_bytes, self._not_pinned(who, request.digest_id)
        )

    def _not_pinned(self, who: Identity, digest_id: bytes) -> Callable[[], None]:
        return lambda: self._coordinator.named.check_not_pinned(who, digest_id)

    @handled
    async def GetCache(self, request: pb2.GetCacheRequest, context: Any) -> types_pb2.CacheSetting:
        checks.hash_("digest_id", request.digest_id)
        self._visible.find(caller(), request.digest_id)
        return self._coordinator.catalogue.cache(request.digest_id)
