"""What is done to data sets: registered, claimed, shared, cached so or so, removed. Durable before it is said."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable, Callable, Mapping, Sequence

from absl import logging

from tfquiver import errors
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.disk_space_of_shards.node_room import most_bytes
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import SAID_AT_ONCE, SAID_S, every_n_seconds
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CacheSet, CommitRecord, DatasetRemoved, PlacementSet
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role
from tfquiver.service.coordinator.commit_log.commit_log import CommitLog
from tfquiver.service.coordinator.dataset_caching.caching import LONGEST_MEETING_S, Caching
from tfquiver.service.coordinator.dataset_caching.placement import COOPERATIVE, NONE, UNIFORM
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run import rules
from tfquiver.service.coordinator.long_polls.readers import Waiting
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.ownership import Ownership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.service.coordinator.sessions.users import Users

_MET_LOOK_S = 0.05
_CARRIED_OUT_AT_ONCE = 64  # of a policy's decisions
Check = Callable[[], None]  # made when nothing is waited for any more; raises where it may not be


def _may() -> None:
    """Nothing is against it."""


def _say(what: str, called: str, digest_id: bytes, said: str) -> None:
    """What somebody has asked for; of a program that asks all the time, not all."""
    extra = about(dataset=called, digest=digest_id)
    every_n_seconds(logging.INFO, what, SAID_S, called, said, extra=extra, apart=what, at_once=SAID_AT_ONCE)


class Catalogue:
    def __init__(
        self,
        log: CommitLog,
        registry: Registry,
        ownership: Ownership,
        membership: Membership,
        caching: Caching,
        sessions: Sessions,
        waiting: Waiting,
    ) -> None:
        self._log, self._registry, self._ownership = log, registry, ownership
        self._membership, self._caching, self._sessions, self._waiting = membership, caching, sessions, waiting
        self._setting, self._stopping = asyncio.Lock(), asyncio.Event()
        # Told of a data set of which nodes keep more copies, or fewer, from now on; before that is durable.
        self.on_copies: Callable[[bytes], None] = lambda digest_id: None

    def release_waiters(self) -> None:
        """Who waits is told so at once, from now on."""
        self._stopping.set()

    async def register(
        self,
        name: str,
        listing_key: bytes,
        terms: ListingTerms | None,
        parts: AsyncIterable[bytes],
        who: Identity = EVERYBODY,
        then: Callable[[bytes], None] = lambda digest_id: None,
        size_bytes: int = 0,
        sender: str = "",
    ) -> types_pb2.Dataset:
        """A job's word for what a listing is counts for itself alone: only nodes have scanned it.

        `then`: told its digest id; what that journals is durable together with it. `size_bytes`, `sender`: as
        Registry.register.
        """
        await self._log.writable()
        listed_for = who.owner if who.role is Role.JOB else ""
        ownership = self._ownership
        dataset = await self._registry.register(
            name, listing_key, terms, parts, listed_for,
            lambda digest_id: not ownership.access(digest_id).owners or ownership.owns(who, digest_id), size_bytes,
            sender,
        )  # fmt: skip
        ownership.acquire(who, dataset.digest_id)
        then(dataset.digest_id)
        await self._log.synced()
        return dataset

    async def acquire(self, who: Identity, digest_id: bytes) -> None:
        """They have shown the listing that it was scanned from."""
        if who.owner and who.owner not in self._ownership.access(digest_id).owners:
            await self._log.writable()
            self._ownership.acquire(who, digest_id)
            await self._log.synced()

    async def share(self, digest_id: bytes, names: Sequence[str], everybody: bool) -> None:
        await self._log.writable()
        self._ownership.share(digest_id, names, everybody)
        await self._log.synced()

    async def claim(self, who: Identity, session_key: str) -> None:
        await self._log.writable()
        self._ownership.claim(who, session_key)
        await self._log.synced()

    async def delete(self, who: Identity, digest_id: bytes, force: bool, check: Check = _may) -> list[str]:
        """Who owns it still, where a job is one of several owners; else it is gone. Raises InUseError, and what `check`
        raises, which looks when nothing can come between."""
        if not force:
            await self.nodes_met()
        async with self._setting:
            await self._log.writable()
            check()
            if who.role is Role.JOB and set(self._ownership.access(digest_id).owners) - {who.owner}:
                left = self._ownership.give_up(who, digest_id)
                await self._log.synced()
                return left
            called = self._registry.called(digest_id)
            users = Users.of(self._sessions.of_data_sets([digest_id]))
            shown = self._membership.mounts.said([digest_id], f"data set {called}")
            if not force and (said := users.said(f"data set {called}", self._sessions.now()) or shown):
                raise errors.InUseError(f"digest_id: {said}: --force ends them")
            for session_id in self._sessions.forget_data_set(digest_id):
                self._waiting.wake(session_id)
            self._log.append(CommitRecord(dataset_removed=DatasetRemoved(digest_id=digest_id)))
            self._registry.apply_removal(digest_id)
            self._ownership.forget(digest_id)
            self._caching.forget(digest_id)
            await self._log.synced()
        logging.info("data set %s was removed by %s", called, who, extra=about(dataset=called, digest=digest_id))
        await self._registry.prune()
        return []

    async def nodes_met(self, are_told: bool = False) -> None:
        """Those that there were before a restart have said what is read there without a session, or will not.
        `are_told`: and each of them all that it holds: not one that joins later on. Raises UnavailableError: the
        coordinator stops."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LONGEST_MEETING_S
        while loop.time() < until_s:
            lately = self._membership.up_ms() < 2000 * LONGEST_MEETING_S
            if self._caching.met and not (are_told and lately and not self._membership.all_told):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_MET_LOOK_S):
                    await self._stopping.wait()
            if self._stopping.is_set():
                raise errors.UnavailableError("the coordinator stops before its nodes have come back: try again")

    async def deleted(self, digest_id: bytes) -> None:
        """There is none such: returns when that is durable, which a `delete` that failed half-way has left undone."""
        if self._registry.removed([digest_id]):
            await self._log.synced()
            await self._registry.prune()

    async def check_rule(self, rule: types_pb2.PlacementRule, digest_id: bytes) -> None:
        """As `rules.check`, with the nodes that live; where some of those before a restart are still to come, with all
        of them."""
        if not self._caching.met:
            with contextlib.suppress(errors.InvalidArgumentError):
                rules.check(rule, digest_id, self._membership.labelled)
                return
            await self.nodes_met()
        rules.check(rule, digest_id, self._membership.labelled)

    async def set_placement(self, digest_id: bytes, rule: types_pb2.PlacementRule | None, check: Check = _may) -> None:
        """Where it is kept from now on; None: anywhere. Raises InvalidArgumentError, NotFoundError,
        ResourceExhaustedError, and what `check` raises, which looks when nothing can come between."""
        if rule is not None:
            await self.check_rule(rule, digest_id)
        async with self._setting:
            await self._log.writable()
            check()
            called = self._registry.called(digest_id)
            if rule is not None:
                rules.check(rule, digest_id, self._membership.labelled)
                self._caching.placed.check_room(digest_id, rule)
            rules_now = self._caching.placed.rules
            if rule == rules_now.find(digest_id) and digest_id not in rules_now.ending:
                await self._log.synced()
                return
            record = CommitRecord(placement_set=PlacementSet(digest_id=digest_id, rule=rule))
            before = self._caching.placed.copies(digest_id)
            self._log.append(record)
            self._caching.place(record.placement_set)
            if self._caching.placed.copies(digest_id) != before:
                self.on_copies(digest_id)
            await self._log.synced()
        said = str(rule).replace("\n", " ") if rule else "on any node"
        _say("data set %s is kept so: %s", called, digest_id, said)

    async def unset_gone(self, digest_id: bytes) -> None:
        """Of a data set that is registered no more: it may have lost its digest, and has a setting still."""
        if digest_id in self._caching.placement.settings:
            await self.unset_cache(digest_id)
        await self.deleted(digest_id)

    async def unset_cache(self, digest_id: bytes, check: Check = _may) -> types_pb2.CacheSetting:
        """Also of a data set that is not registered any more."""
        async with self._setting:
            await self._log.writable()
            check()
            record = CommitRecord(cache_set=CacheSet(digest_id=digest_id, setting=types_pb2.CacheSetting()))
            self._log.append(record)
            self._caching.apply(record.cache_set)
            self._caching.set(digest_id, None)
            await self._log.synced()
        return record.cache_set.setting

    async def allocate_cache(
        self, digest_id: bytes, allocation_bytes: int, check: Check = _may
    ) -> types_pb2.CacheSetting:
        """As `set_cache`, with the mode that suits so many bytes. Chunks that there are stay if they can."""
        digest = await self._registry.digest(digest_id)
        asked = types_pb2.CacheSetting(mode=NONE, allocation_bytes=allocation_bytes)
        if allocation_bytes >= int(most_disk_bytes(digest.lengths).sum()):
            asked.mode = UNIFORM
        elif allocation_bytes:
            asked.mode = COOPERATIVE
        try:
            return await self.set_cache(digest_id, asked, keep_chunks=True, check=check)
        except errors.InvalidArgumentError:  # no room for two chunks
            if asked.mode != COOPERATIVE:
                raise
            asked.mode = UNIFORM
            return await self.set_cache(digest_id, asked, check=check)

    async def set_cache(
        self, digest_id: bytes, asked: types_pb2.CacheSetting, keep_chunks: bool = False, check: Check = _may
    ) -> types_pb2.CacheSetting:
        """`keep_chunks`: where only the bytes change, rather than those that suit them best."""
        if asked.mode != NONE and not self._caching.met:
            rule = self._caching.placed.rules.find(digest_id)
            counted = rule is not None and (rule.rack_local or rule.replicas > 1)  # copies, by the nodes that live
            if asked.allocation_bytes and not counted:  # it may have room at the nodes that are back
                with contextlib.suppress(errors.ResourceExhaustedError):
                    return await self._set_cache(digest_id, asked, keep_chunks, check)
            await self.nodes_met()
        return await self._set_cache(digest_id, asked, keep_chunks, check)

    async def _set_cache(
        self, digest_id: bytes, asked: types_pb2.CacheSetting, keep_chunks: bool, check: Check
    ) -> types_pb2.CacheSetting:
        digest = await self._registry.digest(digest_id)
        async with self._setting:  # what is left depends on the settings before
            await self._log.writable()
            self._registry.find(digest_id)
            keepers = self.keepers(digest_id)
            quotas_bytes, rooms_bytes = [node.quota_bytes for node in keepers], [most_bytes(node) for node in keepers]
            copies = self._caching.placed.copies(digest_id)
            fix = self._caching.placement.fix
            fixed = await asyncio.to_thread(fix, digest, asked, quotas_bytes, "", rooms_bytes, copies)
            plan = await asyncio.to_thread(self._caching.planned, digest, fixed)
            resized = self._caching.resized(digest_id, fixed, "") if keep_chunks else None
            fixed = resized or fixed
            check()
            is_as_before = fixed == self._caching.placement.settings.get(digest_id)
            if (
                keep_chunks and is_as_before and (resized or digest_id not in self._caching)
            ):  # said every second, perhaps
                await self._log.synced()
                return fixed
            record = CommitRecord(cache_set=CacheSet(digest_id=digest_id, setting=fixed))
            self._log.append(record)
            self._caching.apply(record.cache_set)
            self._caching.resize(digest_id) if resized else self._caching.set(digest_id, plan)
            await self._log.synced()
        called = self._registry.called(digest_id)
        _say("data set %s is cached so: %s", called, digest_id, str(fixed).replace("\n", " "))
        return fixed

    async def carry_out(self, decided: Mapping[bytes, types_pb2.CacheSetting], policy: str) -> None:
        """What a policy has decided; an empty setting takes its own away. What a person has set meanwhile, or removed,
        stays so; what cannot be is passed over. Raises UnavailableError, when some of it may have been carried out.

        Nobody is answered with it: many are made durable together, and a coordinator that is killed before plans again.
        """
        parts = InParts()
        for at, (digest_id, asked) in enumerate(decided.items(), 1):
            await parts.rest()
            if at % _CARRIED_OUT_AT_ONCE == 0:
                await self._log.synced()
            try:
                await self._carry_out(digest_id, asked, policy)
            except (errors.NotFoundError, errors.CorruptDigestError, errors.InvalidArgumentError) as error:
                if digest_id in self._registry:
                    called = self._registry.called(digest_id)
                    every_n_seconds(
                        logging.ERROR,
                        "data set %s stays as it was: %s",
                        10,
                        called,
                        error,
                        extra=about(dataset=called, digest=digest_id),
                    )
        await self._log.synced()

    async def writable(self) -> None:
        """Raises UnavailableError where nothing could be decided: the log cannot be written."""
        await self._log.writable()

    def take_back_decided(self) -> None:
        """What policies have decided holds no more: nobody would ever take it away for what persons set."""
        for digest_id, setting in list(self._caching.placement.settings.items()):
            if setting.decided_by:
                self._take_back(digest_id)

    def take_back_chunks_of_bytes(self) -> None:
        """Versions before let data sets be set cooperative that have no records: nothing of them is cached then."""
        for digest_id, setting in list(self._caching.placement.settings.items()):
            if setting.mode != COOPERATIVE or digest_id not in self._registry:
                continue
            found = self._registry.find(digest_id)
            if found.size_bytes and not found.records:
                self._take_back(digest_id)
                logging.warning(
                    "data set %s is cooperative no more: chunks come and go for readers of records, it has none, and "
                    "nothing of it would be cached; `tfquiver dataset set-cache` gives it a size",
                    found.name, extra=about(dataset=found.name, digest=digest_id),
                )  # fmt: skip

    def _take_back(self, digest_id: bytes) -> None:
        record = CommitRecord(cache_set=CacheSet(digest_id=digest_id, setting=types_pb2.CacheSetting()))
        self._log.append(record)
        self._caching.apply(record.cache_set)

    def left_bytes(self, digest_id: bytes) -> int:
        """What the nodes that may keep it have for whom persons have set nothing yet."""
        keepers = self.keepers(digest_id)
        quotas_bytes, rooms_bytes = (sum(node.quota_bytes for node in keepers), sum(map(most_bytes, keepers)))
        return self._caching.placement.left_bytes(min(quotas_bytes, rooms_bytes))

    def cache(self, digest_id: bytes) -> types_pb2.CacheSetting:
        self._registry.find(digest_id)
        return self._caching.placement.setting(digest_id)

    async def _carry_out(self, digest_id: bytes, asked: types_pb2.CacheSetting, policy: str) -> None:
        live = [node.quota_bytes for node in self.keepers(digest_id)]
        digest = await self._registry.digest(digest_id) if asked.mode else None
        async with self._setting:
            await self._log.writable()
            before = self._caching.placement.settings.get(digest_id)
            if digest_id not in self._registry or (before and not before.decided_by):
                return
            plan = None
            fixed = self._caching.resized(digest_id, asked, policy) if digest else asked
            anew = fixed is None or digest is None
            if fixed is None:
                assert digest is not None
                fixed = await asyncio.to_thread(self._caching.placement.fix, digest, asked, live, policy)
                plan = await asyncio.to_thread(self._caching.planned, digest, fixed)
            record = CommitRecord(cache_set=CacheSet(digest_id=digest_id, setting=fixed))
            self._log.append(record)
            self._caching.apply(record.cache_set)
            self._caching.set(digest_id, plan) if anew else self._caching.resize(digest_id)

    def keepers(self, digest_id: bytes) -> list[types_pb2.NodeInfo]:
        """The live nodes that may keep it."""
        places = self._caching.placed.places(digest_id)
        return [node for node in self._membership.live() if places is None or node.node_id in places.members]
