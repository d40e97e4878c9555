"""What people ask of data sets that have names: checked against what they may and what there is, journaled, told."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Collection, Sequence

from absl import logging

from tfquiver import errors
from tfquiver.disk_space_of_shards.node_room import room_bytes
from tfquiver.log_files_and_lines.logs import about
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.roles_and_tokens.identity import Identity, Role
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle, specs
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import DELETING, FAILED, SCANNING, Life
from tfquiver.service.coordinator.named_dataset_lifecycle.named_keeping import NamedKeeping
from tfquiver.service.coordinator.named_dataset_lifecycle.room_for_pins_and_when_full.room import (
    MANUAL,
    PARTIAL,
    ToEvict,
    known_of,
)
from tfquiver.service.coordinator.named_dataset_lifecycle.table import unknown
from tfquiver.service.coordinator.named_dataset_lifecycle.told import ITS_TURN, fitting, told
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import tasks
from tfquiver.service.coordinator.resident_shards.here import Here
from tfquiver.service.coordinator.sessions.users import Users

MAX_OF_JOB = 1000  # names: no job takes all that there can be


class _OtherContentError(Exception):
    """The name has become another version's, or another data set's, since its room was asked for."""


class NamedRequests(NamedKeeping):
    """Every method that changes something is durable when it returns. Each raises NotFoundError, PermissionError_."""

    # What people ask for.

    async def create(self, who: Identity, spec: pb2.DatasetSpec) -> pb2.NamedDataset:
        specs.check(spec)
        await self._log.writable()
        if spec.HasField("placement") and spec.name not in self._table:
            await self._catalogue.check_rule(spec.placement, spec.digest_id)
        before = self._table.get(spec.name)  # from here on nothing is waited for
        if before is not None:
            if before.phase == DELETING:
                raise errors.InUseError(f"name: data set {spec.name} is being deleted: try again when it is gone")
            if not self._owns(who, before):
                raise errors.InUseError(f"name: {spec.name} is taken, by another owner's data set: choose another name")
            if not specs.is_same(before.spec, spec):
                raise errors.InUseError(specs.taken(before.spec, spec, before.phase == FAILED))
            return self._told(before)
        specs.check_new_name(spec.name)
        if who.role is Role.JOB and self._table.owned_by(who.owner) >= MAX_OF_JOB:
            raise errors.ResourceExhaustedError(
                f"name: {who} has given {MAX_OF_JOB} names already: delete some (tfquiver dataset delete)"
            )
        if spec.digest_id:
            registered = self._registry.find(spec.digest_id)
            if spec.format and not specs.has_format(registered, spec.format):
                raise errors.InvalidArgumentError("format: it is not that of the digest, which says it: leave it out")
        if spec.HasField("placement"):
            self._check_placed(spec.digest_id, spec)
        life = lifecycle.made(spec, uuid.uuid4().hex, who.owner, who.role is Role.JOB, int(time.time()))
        return await self._put(life)

    async def prefetch(self, who: Identity, name: str) -> pb2.NamedDataset:
        life, go = await self._owned(who, name), list[str]()
        if self._begins(life) and life.digest_id and self._when_full != PARTIAL:
            await self._catalogue.nodes_met(are_told=True)
            life = await self._owned(who, name)  # it may have been deleted meanwhile, or be another version
            if self._begins(life) and life.digest_id:
                go = await self._for_room(who, life)
        life = await self._owned(who, name)  # from here on nothing is waited for
        if self._begins(life):
            self._make_room(life, go)
        return await self._put(lifecycle.prefetch(life))

    def _begins(self, life: Life) -> bool:
        """Whether it is asked for now: who asks again, as one whose answer was lost, has no more evicted. Raises
        InUseError: it cannot be."""
        return lifecycle.prefetch(life) is not life

    async def _for_room(self, who: Identity, life: Life) -> list[str]:
        """What goes so that it has room. Raises ResourceExhaustedError."""
        digest_id, keepers = life.digest_id, self._catalogue.keepers(life.digest_id)
        nodes = {node.node_id for node in keepers}
        copies = self._caching.placed.copies(digest_id)
        there_bytes = min(
            await self._held.kept_bytes(digest_id, nodes), copies * (await self.resident_bytes(digest_id) or 0)
        )
        wanted_bytes = await self._room.wanted_bytes(digest_id) - there_bytes
        where = "all nodes" if len(nodes) == len(self._membership.live()) else "the nodes that may keep it"
        room = ToEvict(self._when_full, life.spec.name, wanted_bytes, sum(map(room_bytes, keepers)), where)
        if room.is_enough or (life.pinned and self._when_full == MANUAL):  # a pin has its room, whatever needs some
            return []
        left, parts = [], InParts()
        for one in self._table:
            await parts.rest()
            if one.life != life.life and self._may_go(one):
                left.append(one)
        left.sort(key=lambda one: (one.used_s or one.created_s, one.spec.name), reverse=True)
        while left and not room.is_enough:
            other = self._table.get(left.pop().spec.name)
            if other is not None and self._may_go(other):
                room.show(other.spec.name, await self._held.kept_bytes(other.digest_id, nodes), self._sees(who, other))
        lacks_bytes = room.lacks_bytes(len(left))
        if lacks_bytes and life.pinned:
            return []  # nodes make the room that it has
        held = await self._stays(who, life, nodes) if lacks_bytes else []
        return room.names(len(left), held)

    def _make_room(self, life: Life, names: Sequence[str]) -> None:
        """What is to go is told to nodes at once; what is to come, when that is gone."""
        for name in names:
            if (other_now := self._table.get(name)) is not None and self._may_go(other_now):
                logging.info("data set %s makes room for %s", name, life.spec.name, extra=about(dataset=name))
                self._becomes(lifecycle.evict(other_now))

    async def _stays(self, who: Identity, life: Life, nodes: Collection[str]) -> list[tuple[str, int]]:
        """What is pinned or read, and what it has on these nodes, the most first; as far as they may know of it. Of
        what is neither followed nor named nothing is known."""
        placement, residency = self._caching.placement, self._caching.residency
        names = {digest_id: self._registry.called(digest_id) for digest_id in residency.tables()}
        for one in self._table:
            if placement.is_pinned(one.digest_id) or one.digest_id in names:
                names[one.digest_id] = one.spec.name
        held, parts = list[tuple[str, int]](), InParts()
        for digest_id, name in names.items():
            await parts.rest()
            may_see = digest_id in self._registry and self._ownership.may_read(who, digest_id)
            stays = self._is_read(digest_id) or placement.is_pinned(digest_id)
            if digest_id != life.digest_id and may_see and stays:
                held.append((name, await self._held.kept_bytes(digest_id, nodes)))
        return sorted((one for one in held if one[1]), key=lambda one: (-one[1], one[0]))

    def _may_go(self, other: Life) -> bool:
        """Evicting what is another name's, too, would free nothing. It goes with all of its versions."""
        if self._table.holding(other.digest_id, other.spec.name):
            return False
        kept = self._caching.placement.is_pinned(other.digest_id) or other.spec.pin
        idle = other.phase == lifecycle.READY and other.digest_id in self._registry
        return idle and not kept and not any(map(self._is_read, tasks.versions(other)))

    async def pin(self, who: Identity, name: str, pinned: bool) -> pb2.NamedDataset:
        life = await self._owned(who, name)
        after = lifecycle.pin(life, pinned)
        if not pinned or life.pinned or not life.digest_id or life.phase == SCANNING:
            return await self._put(after)

        def has_room() -> None:
            """The wish is journaled before the room: what is broken off between them is carried out later."""
            self._check_owner(who, now := self._visible(who, name))
            self._becomes(lifecycle.pin(now, True))
            if (now.life, now.digest_id) != (life.life, life.digest_id):
                raise _OtherContentError

        with contextlib.suppress(_OtherContentError):  # it has its room later, as any that is wished for
            await self._room.take(life.digest_id, has_room)  # refused here and now where there is none
        now = await self._owned(who, name)
        if (now.life, now.digest_id) == (life.life, life.digest_id):
            now = lifecycle.pinned(now, True)
        return await self._put(now)

    def check_not_pinned(self, who: Identity, digest_id: bytes) -> None:
        """Raises InUseError: another setting would take a pin's room from it, and it would still be told of."""
        for name in self._table.holding(digest_id):
            life = self._table.get(name)
            if life is not None and life.digest_id == digest_id and life.spec.pin:
                called, do = "another's name for it", ""
                if self._sees(who, life):
                    called, do = f"data set {name}", f" (tfquiver dataset unpin {name})"
                raise errors.InUseError(f"digest_id: {called} is pinned: unpin it first{do}")

    async def evict(self, who: Identity, name: str, force: bool) -> pb2.NamedDataset:
        life = await self._owned(who, name)
        after = lifecycle.evict(life)
        if not force:
            readers = Users.of(self._sessions.of_data_sets(tasks.versions(life))).readers
            if readers:
                said = Users(readers, ()).said(name, self._sessions.now())
                raise errors.InUseError(f"name: {said}: --force to evict it all the same")
        return await self._put(after)

    async def delete(self, who: Identity, name: str, force: bool) -> pb2.NamedDataset:
        """Of one that nobody knows nothing is left to be done."""
        await self._log.writable()
        if not force and name in self._table:
            await self._catalogue.nodes_met()
        life = self._table.get(name)
        if life is None or not self._sees(who, life):
            await self._log.synced()
            return pb2.NamedDataset(spec=pb2.DatasetSpec(name=name))
        self._check_owner(who, life)
        after = lifecycle.delete(life)
        if not force and life.phase != DELETING:
            # Of what is emptied a job's next epoch reads the source; of what is gone it finds nothing.
            going = [one for one in tasks.versions(after) if not self._stays_for_others(one, name)]
            users = Users.of(self._sessions.of_data_sets(going))
            shown = self._membership.mounts.said(going, name)
            if said := users.said(name, self._sessions.now()) or shown:
                raise errors.InUseError(f"name: {said}: --force to delete it all the same")
        return await self._put(after)

    async def refresh(self, who: Identity, name: str) -> pb2.NamedDataset:
        return await self._put(lifecycle.refresh(await self._owned(who, name)))

    # What there is.

    async def listed(self, who: Identity) -> list[pb2.NamedDataset]:
        """By name. In parts: of ten thousand it takes a fifth of a second."""
        parts, shown = InParts(), dict[str, tuple[pb2.NamedDataset, int]]()
        for name in sorted(life.spec.name for life in self._table):
            await parts.rest()
            if (life := self._table.get(name)) and self._sees(who, life):
                one = self._shown(who, life)
                shown[name] = one, one.ByteSize()
        return fitting(shown)

    def find(self, who: Identity, name: str) -> pb2.NamedDataset:
        return self._shown(who, self._visible(who, name))

    async def newer(self, who: Identity, name: str, seen: int, wait_s: float) -> pb2.NamedDataset:
        """As soon as something may have changed since `seen`."""
        await self._watching.news(name, seen, wait_s)
        return self.find(who, name)

    async def resident_bytes(self, digest_id: bytes, unreached: Collection[str] = ()) -> int | None:
        """Of a registered data set, what live nodes other than `unreached` hold; raw bytes. None: not all nodes have
        told."""
        return await self._held.resident_bytes(digest_id, unreached)

    async def here(self, digest_id: bytes, unreached: Collection[str] = ()) -> Here | None:
        """As `resident_bytes`, of a data set that is not followed, too."""
        return await self._held.here(digest_id, unreached)

    async def unreached(self, digest_id: bytes, unreached: Collection[str]) -> tuple[int, int]:
        """Raw bytes and shards of a data set that is followed that only these nodes hold."""
        return await self._held.unreached(digest_id, unreached)

    def check_not_named(self, who: Identity, digest_id: bytes) -> None:
        """Raises InUseError, which names the data sets that it is a version of, as far as they may know of them."""
        holders = [life for name in self._table.holding(digest_id) if (life := self._table.get(name))]
        seen = [life.spec.name for life in holders if self._sees(who, life)]
        if holders:
            of = known_of(seen, len(holders) - len(seen))
            raise errors.InUseError(f"digest_id: it is a version of {of}: delete that (tfquiver dataset delete NAME)")

    # Inside.

    async def _put(self, life: Life) -> pb2.NamedDataset:
        self._becomes(life)
        await self._log.synced()
        return self._told(life)

    def _visible(self, who: Identity, name: str) -> Life:
        life = self._table.get(name)
        if life is None or not self._sees(who, life):
            seen = [one.spec.name for one in self._table if self._sees(who, one)]
            raise unknown(name, seen, sees_all=who.role is not Role.JOB)
        return life

    async def _owned(self, who: Identity, name: str) -> Life:
        await self._log.writable()
        life = self._visible(who, name)
        self._check_owner(who, life)
        return life

    def _stays_for_others(self, digest_id: bytes, name: str) -> bool:
        """Whether it stays when `name` is deleted: who reads it loses nothing."""
        others = (self._table.get(other) for other in self._table.holding(digest_id, name))
        return any(other.phase != DELETING for other in others if other is not None)

    def _check_owner(self, who: Identity, life: Life) -> None:
        if not self._owns(who, life):
            owner = life.owner or "admins"
            raise errors.PermissionError_(f"name: data set {life.spec.name} belongs to {owner}, not to {who}")

    def _owns(self, who: Identity, life: Life) -> bool:
        return who.role is Role.ADMIN or bool(who.owner and who.owner == life.owner)

    def _sees(self, who: Identity, life: Life) -> bool:
        if who.role is not Role.JOB or self._owns(who, life):
            return True
        return bool(life.digest_id) and self._ownership.may_read(who, life.digest_id)

    def _shown(self, who: Identity, life: Life) -> pb2.NamedDataset:
        """Where its secret lies is nothing to those who only read it."""
        shown = self._told(life)
        if who.role is Role.JOB and not self._owns(who, life):
            shown.spec.ClearField("credentials")
        return shown

    def _told(self, life: Life) -> pb2.NamedDataset:
        dataset = self._registry.find(life.digest_id) if life.digest_id in self._registry else None
        progress = self._overview.find_progress(life)
        reply = told(life, progress, dataset, self._membership.storing, self._clock.now(), self._caching.met)
        if life.life in self.to_nodes.left_out and self._membership.storing:
            reply.reason = ITS_TURN
        reply.seen = self._watching.number
        return reply
