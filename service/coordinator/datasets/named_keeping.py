"""Looks after the data sets that have names: journals what is asked for, and carries out what follows from it.

Level-triggered: whatever was left undone when a process was killed is seen, and done, at the next look.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence

from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.cache.caching import Caching
from tfquiver.service.coordinator.cache.placement import UNIFORM
from tfquiver.service.coordinator.cache.resident_share import ResidentShare
from tfquiver.service.coordinator.datasets.catalogue import Catalogue
from tfquiver.service.coordinator.datasets.ownership import Ownership
from tfquiver.service.coordinator.datasets.registry import Registry
from tfquiver.service.coordinator.durable.commit_log import CommitLog
from tfquiver.service.coordinator.named_datasets import lifecycle, specs, tasks
from tfquiver.service.coordinator.named_datasets.lifecycle import DELETING, EVICTING, SCANNING, Life
from tfquiver.service.coordinator.named_datasets.progress import TaskProgress
from tfquiver.service.coordinator.named_datasets.room import PARTIAL, Candidate, to_evict
from tfquiver.service.coordinator.named_datasets.steps import (
    Become,
    Facts,
    Go,
    Release,
    SetPin,
    SetPlacement,
    Step,
    next_step,
)
from tfquiver.service.coordinator.named_datasets.table import NamedTable, unknown
from tfquiver.service.coordinator.named_datasets.told import told
from tfquiver.service.coordinator.nodes.membership import Membership
from tfquiver.service.coordinator.places import rules
from tfquiver.service.coordinator.residency.residency import Table
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.trust.identity import Identity, Role

_LOOK_S = 1.0
_AGAIN_S = 10.0  # a room that there was not, asked for again
_USED_S = 60
_STEPS = 100  # of one data set at a look


class NamedKeeping:
    """Lives on one event loop. `announce`: called when nodes are to be told something else."""

    def __init__(
        self,
        clock: Clock,
        log: CommitLog,
        table: NamedTable,
        registry: Registry,
        ownership: Ownership,
        membership: Membership,
        caching: Caching,
        sessions: Sessions,
        catalogue: Catalogue,
        when_full: str = PARTIAL,
    ) -> None:
        self._clock, self._log, self._table, self._when_full = clock, log, table, when_full
        self._registry, self._ownership, self._membership = registry, ownership, membership
        self._caching, self._sessions, self._catalogue = caching, sessions, catalogue
        self.announce: Callable[[], None] = lambda: None
        self.orders = 0  # grows whenever `tasks` or `named` are others
        self.tasks: Sequence[pb2.DatasetTask] = ()
        self.named: Sequence[pb2.NamedDigest] = ()
        self._progress: dict[str, TaskProgress] = {}  # by task id
        self._seen = random.SystemRandom().getrandbits(62) + 1
        self._changed, self._due = asyncio.Event(), asyncio.Event()
        self._not_before: dict[str, float] = {}  # by life: when a pin that was refused is tried again
        self._reading = Counter[bytes]()  # readers by digest id, at the last look
        self._stopping = False

    # What people ask for.

    async def create(self, who: Identity, spec: pb2.DatasetSpec) -> pb2.NamedDataset:
        specs.check(spec)
        await self._log.writable()
        before = self._table.get(spec.name)
        if before is not None:
            if before.phase == DELETING:
                raise errors.InUseError(f"name: the data set that is called {spec.name} is being deleted: try again")
            if not self._owns(who, before) or not specs.is_same(before.spec, spec):
                raise errors.InUseError(
                    f"name: {spec.name} is taken, by a data set of another source or owner: choose another name, or "
                    "delete that one (tfquiver dataset delete)"
                )
            return self._told(before)
        if spec.digest_id:
            self._registry.find(spec.digest_id)
        if spec.HasField("placement"):
            rules.check(spec.placement, spec.digest_id, self._membership.labelled)
        life = lifecycle.made(spec, uuid.uuid4().hex, who.owner, who.role is Role.JOB, int(time.time()))
        return await self._put(life)

    async def prefetch(self, who: Identity, name: str) -> pb2.NamedDataset:
        life = await self._owned(who, name)
        lifecycle.prefetch(life)  # whether it can be at all
        if life.digest_id and self._when_full != PARTIAL:
            await self._make_room(life)
        return await self._put(lifecycle.prefetch(await self._owned(who, name)))

    async def _make_room(self, life: Life) -> None:
        """Raises ResourceExhaustedError. What is to go is told to nodes at once; what is to come, when that is gone."""
        digest = await self._registry.digest(life.digest_id)
        wanted_bytes = self._caching.placement.whole_bytes(digest) - (await self.resident_bytes(life.digest_id) or 0)
        free_bytes = sum(max(0, node.quota_bytes - node.used_bytes) for node in self._membership.live())
        if wanted_bytes <= free_bytes:
            return
        candidates = []
        for other in self._table:
            kept = other.digest_id in self._caching.placement.pins or other.spec.pin
            idle = other.phase == lifecycle.READY and other.digest_id in self._registry
            if other.life != life.life and idle and not kept and not self._readers(other.digest_id):
                resident_bytes = await self.resident_bytes(other.digest_id) or 0
                candidates.append(Candidate(other.spec.name, resident_bytes, other.used_s or other.created_s))
        for name in to_evict(self._when_full, life.spec.name, wanted_bytes, free_bytes, candidates):
            if (other_now := self._table.get(name)) is not None and not self._readers(other_now.digest_id):
                logging.info("data set %s makes room for %s", name, life.spec.name)
                self._becomes(lifecycle.evict(other_now))

    async def pin(self, who: Identity, name: str, pinned: bool) -> pb2.NamedDataset:
        life = await self._owned(who, name)
        after = lifecycle.pin(life, pinned)
        if pinned and not life.pinned and life.digest_id and life.phase != SCANNING:
            await self._set_pin(life.digest_id)  # refused here and now where there is no room
            after = lifecycle.pinned(lifecycle.pin(await self._owned(who, name), True), True)
        return await self._put(after)

    async def evict(self, who: Identity, name: str, force: bool) -> pb2.NamedDataset:
        life = await self._owned(who, name)
        after = lifecycle.evict(life)
        if not force:
            self._check_unread(life, "evict")
        return await self._put(after)

    async def delete(self, who: Identity, name: str, force: bool) -> pb2.NamedDataset:
        """Of one that nobody knows nothing is left to be done."""
        await self._log.writable()
        life = self._table.get(name)
        if life is None or not self._sees(who, life):
            await self._log.synced()
            return pb2.NamedDataset(spec=pb2.DatasetSpec(name=name))
        self._check_owner(who, life)
        if not force and life.phase != DELETING:
            self._check_unread(life, "delete")
        return await self._put(lifecycle.delete(life))

    async def refresh(self, who: Identity, name: str) -> pb2.NamedDataset:
        return await self._put(lifecycle.refresh(await self._owned(who, name)))

    # What there is.

    def listed(self, who: Identity) -> list[pb2.NamedDataset]:
        seen = [life for life in self._table if self._sees(who, life)]
        return [self._told(life) for life in sorted(seen, key=lambda life: life.spec.name)]

    def find(self, who: Identity, name: str) -> pb2.NamedDataset:
        return self._told(self._visible(who, name))

    async def newer(self, who: Identity, name: str, seen: int, wait_s: float) -> pb2.NamedDataset:
        """As soon as something may have changed since `seen`."""
        try:
            async with asyncio.timeout(wait_s):
                while seen == self._seen and not self._stopping:
                    await self._changed.wait()
        except TimeoutError:
            pass
        return self.find(who, name)

    async def resident_bytes(self, digest_id: bytes) -> int | None:
        """Of a registered data set, what live nodes hold; raw bytes. None: not all nodes have told."""
        if not self._membership.all_told or not self._caching.met:
            return None
        if digest_id in self._caching and (share := self._caching.share(digest_id)) is not None:
            return share.resident_bytes
        digest = await self._registry.digest(digest_id)
        for _ in self._caching.residency.merge():
            await asyncio.sleep(0)
        opening = self._caching.residency.opening()
        try:

            def looked() -> int:
                table = Table(digest)
                table.enter(opening)
                return ResidentShare.of(table, None).resident_bytes

            return await asyncio.to_thread(looked)
        finally:
            self._caching.residency.finish(opening)

    def holders(self, digest_id: bytes) -> list[str]:
        """Names of the data sets that it is a version of."""
        return self._table.holding(digest_id)

    # Nodes.

    async def report(self, request: pb2.ReportTaskRequest) -> bool:
        """Whether that is still to be done."""
        life = self._table.of_life(request.task_id.partition("/")[0])
        if life is None or lifecycle.task_id(life) != request.task_id:
            return False
        progress = self._progress.setdefault(request.task_id, TaskProgress())
        if life.phase != SCANNING:
            progress.reports[request.node_id] = request
        elif progress.node_id not in ("", request.node_id):
            return False
        elif request.over and request.error_code:
            progress.failed(request, self._clock.now())
        elif request.over:
            await self._scanned(life, request)
        else:
            progress.reports[request.node_id] = request
        self._look_soon()
        return True

    async def outdated(self, digest_id: bytes, why: str) -> None:
        await self._log.writable()
        for life in self._table:
            self._becomes(lifecycle.outdated(life, digest_id, why))
        await self._log.synced()

    async def _scanned(self, life: Life, request: pb2.ReportTaskRequest) -> None:
        self._registry.find(request.digest_id)
        await self._log.writable()
        self._ownership.acquire(_maker(life), request.digest_id)
        if life.digest_id and life.digest_id != request.digest_id:
            self._ownership.carry_over(life.digest_id, request.digest_id)
        after = lifecycle.scanned(life, request.digest_id, request.node_id)
        self._table.put(after)
        await self._log.synced()
        logging.info("data set %s: version %d is scanned, by node %s", life.spec.name, after.version, after.scanned_by)

    # What time brings.

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except errors.TfquiverError as error:
                logging.log_every_n_seconds(logging.ERROR, "data sets with names: %s", 10, error)
            except Exception:  # noqa: BLE001 - whatever it was: without this task none of them would go on
                logging.exception("looking after data sets with names failed; again in %g s", _LOOK_S)
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._due.wait()
            except TimeoutError:
                continue

    def release_waiters(self) -> None:
        self._stopping = True
        self._bump()

    async def look(self) -> None:
        """Whatever is to be done now, once."""
        self._due.clear()
        self._order()  # nodes are to have the digest of a new version before they hear that the old one is removed
        self._reading = Counter[bytes]()
        for session in self._sessions:
            self._reading[session.digest_id] += len(session.readers)
        if self._caching.met:
            for life in self._table:
                try:
                    await self._look_after(life)
                except (errors.ResourceExhaustedError, errors.InUseError, errors.NotFoundError) as error:
                    logging.log_every_n_seconds(logging.WARNING, "data set %s: %s", 60, life.spec.name, error)
        await self._log.synced()
        self._order()

    async def _look_after(self, life: Life) -> None:
        name = life.spec.name
        if any(self._reading[one] for one in tasks.versions(life)):
            self._becomes(lifecycle.used(life, int(time.time()) // _USED_S * _USED_S))
        for _ in range(_STEPS):
            now = self._table.get(name)
            if now is None or (step := next_step(now, self._facts(now))) is None:
                return
            await self._take(now, step)

    def _facts(self, life: Life) -> Facts:
        progress = self._progress.setdefault(lifecycle.task_id(life), TaskProgress())
        may_set = self._clock.now() >= self._not_before.get(life.life, 0.0)
        return Facts(self._registry, self._membership.storing, self._reading, progress, may_set)

    async def _take(self, life: Life, step: Step) -> None:
        match step:
            case Become():
                self._becomes(step.life)
            case Go():
                self._not_before.pop(life.life, None)
                self._table.gone(life.spec.name)
                self._look_soon()
            case SetPin():
                await self._take_pin(life, step.pinned)
            case SetPlacement():
                await self._take_placement(life)
            case Release():
                await self._release(life, step.digest_id, step.force)

    async def _take_pin(self, life: Life, pinned: bool) -> None:
        trouble = ""
        if pinned:
            try:
                await self._set_pin(life.digest_id)
            except errors.ResourceExhaustedError as error:
                trouble = f"not pinned: {error}"
                self._not_before[life.life] = self._clock.now() + _AGAIN_S
        elif not any(other.pinned and other.digest_id == life.digest_id for other in self._table if other != life):
            await self._catalogue.unset_cache(life.digest_id)
        now = self._table.get(life.spec.name)  # as it is after the wait
        if now is not None and (now.life, now.digest_id) == (life.life, life.digest_id):
            self._becomes(lifecycle.pinned(now, pinned and not trouble, trouble))

    async def _take_placement(self, life: Life) -> None:
        trouble = ""
        try:
            await self._catalogue.set_placement(life.digest_id, life.spec.placement)
        except errors.InvalidArgumentError as error:  # the nodes that it was made for have gone
            trouble = f"not placed: {error}"
            self._not_before[life.life] = self._clock.now() + _AGAIN_S
        now = self._table.get(life.spec.name)
        if now is not None and (now.life, now.digest_id) == (life.life, life.digest_id):
            self._becomes(lifecycle.placed(now, trouble))

    async def _set_pin(self, digest_id: bytes) -> None:
        digest = await self._registry.digest(digest_id)
        room_bytes = self._caching.placement.whole_bytes(digest)
        await self._catalogue.set_cache(digest_id, types_pb2.CacheSetting(mode=UNIFORM, allocation_bytes=room_bytes))

    async def _release(self, life: Life, digest_id: bytes, force: bool) -> None:
        """A version is this data set's no more; nobody else's: it is removed, as `tfquiver dataset delete` does."""
        if not self._table.holding(digest_id, life.spec.name):
            if digest_id in self._registry:
                await self._catalogue.delete(_maker(life), digest_id, force)
            else:
                await self._catalogue.unset_gone(digest_id)
        now = self._table.get(life.spec.name)
        if now is not None and now.life == life.life:
            self._becomes(lifecycle.released(now, digest_id))

    def _order(self) -> None:
        made, named = [], []
        making_room = any(life.phase == EVICTING for life in self._table)
        for life in self._table:
            scanner = ""
            if life.phase == SCANNING and self._caching.met:
                progress = self._progress.setdefault(lifecycle.task_id(life), TaskProgress())
                scanner = progress.scanner(self._membership.storing, life.scanned_by, life.life, self._clock.now())
            alone = self._alone(life) if life.phase in (EVICTING, DELETING) else []
            task = tasks.task(life, scanner, alone)
            if task is not None and not (task.HasField("warm") and making_room):
                made.append(task)
            named += tasks.named(life)
        current = {lifecycle.task_id(life) for life in self._table}
        self._progress = {key: one for key, one in self._progress.items() if key in current}
        if made != self.tasks or named != self.named:
            self.tasks, self.named = made, named
            self.orders += 1
            self.announce()

    # Inside.

    async def _put(self, life: Life) -> pb2.NamedDataset:
        self._becomes(life)
        await self._log.synced()
        return self._told(life)

    def _becomes(self, life: Life) -> None:
        if self._table.put(life):
            self._look_soon()

    def _look_soon(self) -> None:
        self._due.set()
        self._bump()

    def _bump(self) -> None:
        self._seen += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _alone(self, life: Life) -> list[bytes]:
        """Its versions that are nobody else's."""
        return [one for one in tasks.versions(life) if not self._table.holding(one, life.spec.name)]

    def _told(self, life: Life) -> pb2.NamedDataset:
        dataset = self._registry.find(life.digest_id) if life.digest_id in self._registry else None
        progress = self._progress.get(lifecycle.task_id(life))
        reply = told(life, progress, dataset, bool(self._membership.storing))
        reply.seen = self._seen
        return reply

    def _readers(self, digest_id: bytes) -> int:
        return sum(len(session.readers) for session in self._sessions if session.digest_id == digest_id)

    def _check_unread(self, life: Life, verb: str) -> None:
        readers = sum(map(self._readers, tasks.versions(life)))
        if readers:
            many = "1 reader reads" if readers == 1 else f"{readers} readers read"
            raise errors.InUseError(f"name: {many} {life.spec.name}: --force to {verb} it all the same")

    def _visible(self, who: Identity, name: str) -> Life:
        life = self._table.get(name)
        if life is None or not self._sees(who, life):
            raise unknown(name, [one.spec.name for one in self._table if self._sees(who, one)])
        return life

    async def _owned(self, who: Identity, name: str) -> Life:
        await self._log.writable()
        life = self._visible(who, name)
        self._check_owner(who, life)
        return life

    def _check_owner(self, who: Identity, life: Life) -> None:
        if not self._owns(who, life):
            raise errors.PermissionError_(f"name: {life.spec.name} belongs to {life.owner or 'admins'}, not to {who}")

    def _owns(self, who: Identity, life: Life) -> bool:
        return who.role is Role.ADMIN or bool(who.owner and who.owner == life.owner)

    def _sees(self, who: Identity, life: Life) -> bool:
        if who.role is not Role.JOB or self._owns(who, life):
            return True
        return bool(life.digest_id) and self._ownership.may_read(who, life.digest_id)


def _maker(life: Life) -> Identity:
    return Identity(Role.JOB if life.by_job else Role.ADMIN, life.owner)
