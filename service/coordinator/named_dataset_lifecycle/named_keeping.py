"""Looks after the data sets that have names: journals what is asked for, and carries out what follows from it.

Level-triggered: whatever was left undone when a process was killed is seen, and done, at the next look.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from collections.abc import Sequence

from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.roles_and_tokens.identity import Identity, Role
from tfquiver.service.coordinator.commit_log.commit_log import CommitLog
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle, specs
from tfquiver.service.coordinator.named_dataset_lifecycle.held import Held
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import DELETING, EVICTING, SCANNING, WARMING, Life
from tfquiver.service.coordinator.named_dataset_lifecycle.read_lately import ReadLately
from tfquiver.service.coordinator.named_dataset_lifecycle.room_for_pins_and_when_full.pinned_room import PinnedRoom
from tfquiver.service.coordinator.named_dataset_lifecycle.room_for_pins_and_when_full.room import PARTIAL
from tfquiver.service.coordinator.named_dataset_lifecycle.room_for_pins_and_when_full.waiting_pins import (
    AGAIN_S,
    WaitingPins,
)
from tfquiver.service.coordinator.named_dataset_lifecycle.steps import (
    Become,
    Facts,
    GiveRoomBack,
    Go,
    Release,
    SetPin,
    SetPlacement,
    Step,
    next_step,
)
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import tasks
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.orders_of_names import OrdersOfNames
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.overview import Overview
from tfquiver.service.coordinator.named_dataset_lifecycle.troubles_over import TroublesOver
from tfquiver.service.coordinator.named_dataset_lifecycle.watching import Watching
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.catalogue import Catalogue
from tfquiver.service.coordinator.registering_sharing_removing_datasets.ownership import Ownership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.service.coordinator.sessions.sessions import Sessions

_LOOK_S = 1.0
_USED_S = 60
_STEPS = 100  # of one data set at a look
_PAUSE_S, _SHARE = 0.05, 3.0  # between looks: at least so long, and so many times as long as the last one took
_UNAVAILABLE = errors.code_number(errors.UnavailableError())
_PRECONDITION = errors.code_number(errors.InUseError())
_OTHER_FORMAT = "it was cut as another format than was asked for: is the node of an older version?"
_REMOVED_MEANWHILE = "what was scanned has been removed since: it is scanned again"


class NamedKeeping:
    """Lives on one event loop.

    Args:
      unread_s: a version before the newest one stays for so long after that has come, for who was given it and has not
        begun to read; and as long as a session of it is remembered.
    """

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
        unread_s: float = 3600.0,
    ) -> None:
        self._unread_s = unread_s
        self._clock, self._log, self._table, self._when_full = clock, log, table, when_full
        self._registry, self._ownership, self._membership = registry, ownership, membership
        self._caching, self._sessions, self._catalogue = caching, sessions, catalogue
        self._held = Held(registry, membership, caching)
        random_number = random.SystemRandom()
        # Numbers of this process are none of another's: nodes and people may bring those of the one before.
        self._watching = Watching(random_number.getrandbits(62) + 1)
        self._reported: set[str] = set()  # names of which nodes have said something since the last look
        self._overview = Overview(table, random_number.getrandbits(62) + 1)
        self.to_nodes = OrdersOfNames(clock, table, membership, caching, self._overview)
        self._due = asyncio.Event()
        self._not_before: dict[str, float] = {}  # by life: when a placement that was refused is tried again
        self._room = PinnedRoom(table, registry, caching, catalogue, membership)
        catalogue.on_copies = self._copies_are_others
        self._pins = WaitingPins(table, self._room.left_bytes)
        self._troubles = TroublesOver(clock, table, membership, caching)
        self._read = ReadLately(sessions, membership)

    # Nodes.

    @property
    def tasks(self) -> Sequence[pb2.DatasetTask]:
        """That nodes are to do now."""
        return self.to_nodes.tasks

    def registered(self, task_id: str, digest_id: bytes) -> None:
        """By a node: what it has scanned for that task."""
        if (life := self._table.of_task(task_id)) is not None:
            self._becomes(lifecycle.found(life, task_id, digest_id))

    async def report(self, request: pb2.ReportTaskRequest) -> bool:
        """Whether that is still to be done."""
        request.trouble = plain(request.trouble, lifecycle.MAX_TROUBLE)  # of millions of characters replies would fail
        if request.over:
            await self._log.writable()
        life = self._doing(request)
        if life is not None and life.phase == SCANNING and request.over and request.digest_id in self._registry:
            self._becomes(lifecycle.found(life, request.task_id, request.digest_id))
            await self._held.told(request.digest_id, request.node_id)
            life = self._doing(request)  # as it is after the wait
        if life is None:
            return False
        progress = self._overview.progress(life)
        if life.phase != SCANNING:
            progress.reports[request.node_id] = request
        elif progress.node_id not in ("", request.node_id):
            return False
        elif request.over and request.error_code:
            progress.failed(request, self._clock.now())
        elif request.over and request.digest_id not in self._registry:  # with another name, which had it too
            again = pb2.ReportTaskRequest(node_id=request.node_id, error_code=_UNAVAILABLE, trouble=_REMOVED_MEANWHILE)
            progress.failed(again, self._clock.now())
        elif request.over and not specs.has_format(self._registry.find(request.digest_id), life.spec.format):
            again = pb2.ReportTaskRequest(node_id=request.node_id, error_code=_PRECONDITION, trouble=_OTHER_FORMAT)
            progress.failed(again, self._clock.now())
        elif request.over:
            await self._scanned(life, request)
        else:
            progress.reports[request.node_id] = request
        self._reported.add(life.spec.name)
        self._due.set()  # those who wait hear of it then, of many reports at once
        return True

    def _doing(self, request: pb2.ReportTaskRequest) -> Life | None:
        life = self._table.of_task(request.task_id)
        return life if life is not None and lifecycle.task_id(life) == request.task_id else None

    async def outdated(self, digest_id: bytes, why: str) -> None:
        await self._log.writable()
        for life in self._table:
            self._becomes(lifecycle.outdated(life, digest_id, why))
        await self._log.synced()

    async def _scanned(self, life: Life, request: pb2.ReportTaskRequest) -> None:
        self._ownership.acquire(_maker(life), request.digest_id)
        if life.digest_id and life.digest_id != request.digest_id:
            self._ownership.carry_over(life.digest_id, request.digest_id)
        after = lifecycle.scanned(life, request.digest_id, request.node_id)
        self._becomes(after)
        await self._log.synced()
        logging.info(
            "data set %s: version %d is scanned, by node %s", life.spec.name, after.version, after.scanned_by,
            extra=about(dataset=life.spec.name, node=after.scanned_by),
        )  # fmt: skip

    # What time brings.

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self.look()
            except errors.TfquiverError as error:
                every_n_seconds(logging.ERROR, "data sets with names: %s", 10, error)
            except Exception:  # noqa: BLE001 - whatever it was: without this task none of them would go on
                logging.exception("looking after data sets with names failed; again in %g s", _LOOK_S)
            # Nodes report as they go on: looks that follow one another at once would leave no time for anybody else.
            await asyncio.sleep(max(_PAUSE_S, _SHARE * (loop.time() - began)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._due.wait()

    def release_waiters(self) -> None:
        self._held.release_waiters()
        self._watching.release()

    async def look(self) -> None:
        """Whatever is to be done now, once."""
        reported, self._reported = self._reported, set()
        self._watching.changed(name for name in reported if name in self._table)
        self._due.clear()
        self._pins.look_begins()
        self._room.looks_anew()
        self.to_nodes.look()  # nodes have the digest of a new version before they hear that the old one is removed
        parts = InParts()
        await self._read.look(parts)
        if self._caching.met:
            for digest_id in await self._room.outgrown():
                self._copies_are_others(digest_id)
            async for after in self._troubles.look(parts):
                self._becomes(after)
            for life in self._table:
                await parts.rest()
                if life.phase in (EVICTING, DELETING) and life.life in self.to_nodes.left_out:
                    continue  # nothing is to be done before nodes have
                is_read = self._read.any_of(tasks.versions(life))
                if self._is_settled(life) and life.digest_id in self._registry and not is_read:
                    continue
                try:
                    await self._look_after(life.spec.name)
                except errors.TfquiverError as error:  # what is wrong with one is nothing to the others
                    name = life.spec.name
                    every_n_seconds(logging.WARNING, "data set %s: %s", 60, name, error, extra=about(dataset=name))
        if self._pins.has_more:
            self._due.set()
        await self._log.synced()
        self.to_nodes.look()

    def _is_settled(self, life: Life) -> bool:
        if lifecycle.is_settled(life):
            return True
        return lifecycle.is_settled(life, but_for_room=True) and not self._pins.may_ask(life, self._clock.now())

    async def _look_after(self, name: str) -> None:
        if (life := self._table.get(name)) is not None:  # as it is now, not when the look began
            used_s = int(time.time()) // _USED_S * _USED_S if self._read.any_of(tasks.versions(life)) else 0
            self._becomes(lifecycle.used(life, used_s))
        for _ in range(_STEPS):
            now = self._table.get(name)
            if now is None or (step := next_step(now, self._facts(now))) is None:
                return
            await self._take(now, step)

    def _facts(self, life: Life) -> Facts:
        progress = self._overview.progress(life)
        if life.phase == SCANNING or self.to_nodes.is_told(life):  # until then nobody is waited for
            progress.begun(self._clock.now())
            if life.phase in (WARMING, EVICTING):
                progress.seen.update(self._membership.storing)
            if life.phase == EVICTING:
                progress.seen.update(self._membership.lost.node_ids)
        shared = self._table.holding(life.digest_id, life.spec.name) if life.phase == EVICTING else ()
        now = self._clock.now()
        may_set = now >= self._not_before.get(life.life, 0.0)
        if may_set and lifecycle.wants_pin(life):
            may_set = lifecycle.wants_place(life) or self._pins.may_ask(life, now)
        awaited = {old for old in life.old_digest_ids if self._is_awaited(life, old)}
        pins, short = {old for old in life.old_digest_ids if self._room.is_free(old)}, self._pins.is_short()
        storing = self._membership.storing
        return Facts(self._registry, storing, self._read.users, progress, may_set, awaited, pins, short, shared)

    def _is_awaited(self, life: Life, old: bytes) -> bool:
        return old in self._read.readers or lifecycle.old_ms(life, old, self._sessions.up_ms()) < 1000 * self._unread_s

    async def _take(self, life: Life, step: Step) -> None:
        match step:
            case Become():
                if life.digest_id and not step.life.digest_id and life.spec.pin:
                    # It is lost: whoever registers it again has asked for no room.
                    await self._room.give_back(life.digest_id, life.spec.name)
                    if self._table.get(life.spec.name) is not life:
                        return  # somebody has asked for something meanwhile
                self._becomes(step.life)
            case Go():
                self._not_before.pop(life.life, None)
                self._pins.over(life)
                self._table.gone(life.spec.name)
                self._overview.note()
                self._watching.gone(life.spec.name)
                self._due.set()
            case SetPin():
                await self._take_pin(life, step.pinned)
            case GiveRoomBack():
                waiting = self._pins.take_short()  # until they have asked again no other version gives its room
                await self._room.give_back(step.digest_id)
                self._pins.may_have_room(waiting)
                self._due.set()
            case SetPlacement():
                await self._take_placement(life)
            case Release():
                await self._release(life, step.digest_id, step.force)
        if not isinstance(step, Become):
            self._room.looks_anew()

    async def _take_pin(self, life: Life, pinned: bool) -> None:
        trouble = ""
        self._pins.asks(life)
        if pinned:
            try:
                await self._room.take(life.digest_id)
                self._pins.over(life)
            except errors.ResourceExhaustedError as error:
                trouble = f"{lifecycle.NOT_PINNED}{error}"
                self._pins.refused(life, await self._room.wanted_bytes(life.digest_id), self._clock.now())
                self._due.set()  # an old version may have room to give
        else:
            self._pins.over(life)
            await self._room.give_back(life.digest_id, life.spec.name)
        now = self._table.get(life.spec.name)  # as it is after the wait
        if now is not None and (now.life, now.digest_id) == (life.life, life.digest_id):
            said = trouble if now.spec.pin else ""
            self._becomes(lifecycle.pinned(now, pinned and not trouble, said, int(time.time())))

    def _copies_are_others(self, digest_id: bytes) -> None:
        """A pin that has the room of as many as there were asks for that of all."""
        for name in self._table.holding(digest_id):
            life = self._table.get(name)
            if life is not None and life.pinned and life.digest_id == digest_id and life.phase != DELETING:
                self._becomes(lifecycle.pinned(life, False))

    async def _take_placement(self, life: Life) -> None:
        trouble = ""
        check = functools.partial(self._check_placed, life.digest_id, life.spec)
        try:
            await self._catalogue.set_placement(life.digest_id, life.spec.placement, check)
        # Its nodes have gone, perhaps; or another name's are to keep it.
        except (errors.InvalidArgumentError, errors.ResourceExhaustedError, errors.InUseError) as error:
            trouble = f"{lifecycle.NOT_PLACED}{error}"
            self._not_before[life.life] = self._clock.now() + AGAIN_S
        now = self._table.get(life.spec.name)
        if now is not None and (now.life, now.digest_id) == (life.life, life.digest_id):
            self._becomes(lifecycle.placed(now, trouble))

    def _check_placed(self, digest_id: bytes, spec: pb2.DatasetSpec) -> None:
        """Raises InUseError: another name has that content, which is kept otherwise: nobody would have told it."""
        rule = self._caching.placed.rules.find(digest_id)
        if rule is None or rule == spec.placement:
            return
        for name in self._table.holding(digest_id, spec.name):
            other = self._table.get(name)
            if other is not None and other.digest_id == digest_id and other.phase != DELETING:
                raise errors.InUseError(specs.kept_otherwise(name, rule))

    async def _release(self, life: Life, digest_id: bytes, force: bool) -> None:
        """A version is this data set's no more; nobody else's: it is removed, as `tfquiver dataset delete` does."""
        if holders := self._table.holding(digest_id, life.spec.name):
            await self._leave_settings(life, digest_id, holders)
        elif digest_id in self._registry:

            def check() -> None:
                if self._table.holding(digest_id, life.spec.name):
                    raise errors.InUseError("another data set has become one of that content: it stays for that")

            await self._catalogue.delete(_maker(life), digest_id, force, check)
        else:
            await self._catalogue.unset_gone(digest_id)
        if (now := self._table.get(life.spec.name)) is not None and now.life == life.life:
            self._becomes(lifecycle.released(now, digest_id))

    async def _leave_settings(self, life: Life, digest_id: bytes, holders: Sequence[str]) -> None:
        """What it alone has asked for is so no more for those whose that version is still."""
        if life.spec.pin or life.pinned:
            await self._room.give_back(digest_id, life.spec.name)
        if life.spec.HasField("placement"):
            others = [other for name in holders if (other := self._table.get(name)) and other.digest_id == digest_id]
            placing = [other for other in others if other.spec.HasField("placement")]
            for other in placing:
                self._becomes(lifecycle.unplaced(other))
            if not placing and digest_id in self._registry:
                await self._catalogue.set_placement(digest_id, None)

    # Inside.

    def _becomes(self, life: Life) -> None:
        before, now_s, up_ms = self._table.get(life.spec.name), int(time.time()), self._sessions.up_ms()
        if self._table.put(lifecycle.since(life, before, now_s, up_ms)):
            self._overview.note()
            self._watching.changed([life.spec.name])
            self._due.set()

    def _is_read(self, digest_id: bytes) -> bool:
        if self._membership.mounts.is_read(digest_id):
            return True
        return any(session.readers for session in self._sessions.of_data_sets([digest_id]))


def _maker(life: Life) -> Identity:
    return Identity(Role.JOB if life.by_job else Role.ADMIN, life.owner)
