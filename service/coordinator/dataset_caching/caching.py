"""Joins what is resident, how each data set is to be cached, and the rotations; tells nodes what to load and evict.

On the event loop of the coordinator; what takes long is computed in a thread, by whoever opens a data set.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CacheSet, PlacementSet
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MoveReport
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.chunk_rotation.rotations import ChunkPlan, Rotations
from tfquiver.service.coordinator.dataset_caching.placement import COOPERATIVE, NONE, Placement
from tfquiver.service.coordinator.dataset_caching.resident_share import LastShares, ResidentShare
from tfquiver.service.coordinator.dataset_caching.view import View
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.placed import Placed
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.resident_shards.residency import Change, Residency, Settled
from tfquiver.service.coordinator.resident_shards.table import Opening, Table
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.made_orders import MadeOrders, Run
from tfquiver.service.coordinator.sessions.sessions import Sessions

_KEPT_S = 60.0  # a rotation remembers between two epochs who had finished what
# In which the nodes that there were before a restart are heard of. Signs of life of each of a thousand are up to 5 s
# apart: for as long as one node comes after the other there are more to come.
MEETING_S, LONGEST_MEETING_S = 3.0, 12.0
_LAST_CAME_S = 1.0
# Tables let go of in a tick, or a sixteenth of all: a thousand that end with one sweep, of 5 million shards, took a
# tenth of a second in one turn of the loop.
_LET_GO_AT_ONCE, _LET_GO_PARTS = 32, 16


class Caching:
    def __init__(
        self,
        clock: Clock,
        membership: Membership,
        sessions: Sessions,
        chunk_timeout_s: float,
        wake: Callable[[bytes], None],
        run: Run,
        budgets: Budgets | None = None,
    ) -> None:
        """`wake`: told of a data set of which sessions may read something else now. `run`: see MadeOrders. `budgets`:
        are charged with what nodes load as they were ordered."""
        self.placement, self.residency = Placement(), Residency()
        self.placed = Placed(membership, self.residency, lambda digest_id: self.placement.setting(digest_id).mode)
        self.rotations = Rotations(clock, chunk_timeout_s, wake)
        self.settings_set = 0  # grows with every setting that nodes are to be told of
        self.announce: Callable[[], None] = lambda: None  # called when nodes may have to be told something else
        self.stepwise: Callable[[Iterator[None]], None] | None = None  # as in Placed
        self._is_starting = False
        self.placed.ready, self.placed.settings_set = lambda: self.met, lambda: self.settings_set
        self.placed.on_looked = lambda: self.announce()
        self._clock, self._membership, self._sessions, self._wake = clock, membership, sessions, wake
        self._run, self._is_joining = run, False
        self._made, self._budgets = MadeOrders(run, wake), budgets if budgets is not None else Budgets(clock)
        self._restored_at: float | None = None  # None: whoever there was has been met
        self._plans: dict[bytes, ChunkPlan] = {}
        self._used_at: dict[bytes, float] = {}
        self._last = LastShares()

    # Data sets.

    def __contains__(self, digest_id: bytes) -> bool:
        return digest_id in self.residency

    @property
    def loaded_ahead(self) -> Collection[bytes]:
        """Data sets of which nodes load chunks ahead of readers, or will once their rotations begin."""
        return self._plans.keys()

    def view(self, digest_id: bytes) -> View:
        return View(self.residency.table(digest_id), self.placement, self.rotations, self._made)

    def prepare(self, digest: Digest, opening: Opening) -> tuple[Table, ChunkPlan | None]:
        """What `open` wants. In a thread. `opening`: the residency's."""
        setting = self.placement.setting(digest.digest_id)
        table = Table(digest)
        table.enter(opening)
        return table, self._plan_of(digest, setting, table.resident)

    def open(self, opening: Opening, table: Table, plan: ChunkPlan | None) -> bool:
        """Begins to follow a data set. False: its setting is another by now than `prepare` saw; prepare it again."""
        digest_id = table.digest.digest_id
        setting = self.placement.setting(digest_id)
        if (plan.setting != setting) if plan else (setting.mode == COOPERATIVE):
            return False
        self.residency.open(table, opening)
        self._join()
        if plan:
            self._plans[digest_id] = plan
            self._start()
        return True

    def _join(self) -> None:
        """Has large tables joined, so that what nodes tell is looked for in all of them at once."""
        if self._is_joining or (join := self.residency.joining()) is None:
            return

        def joined(joint: Any) -> None:
            self._is_joining = False
            if joint is not None:  # else it failed, which is logged
                self.residency.join(joint)
                self._join()

        self._is_joining = True
        self._run(join, joined)

    def owners(self, table: Table, shards: Sequence[int], reader: str = "") -> list[str]:
        """Of each shard the node that holds it, or should; "" when none is to keep it.

        Args:
          reader: id of the node that it is for; of several holders the nearest is named.
        """
        names = self.residency.holders(table, shards)
        digest_id = table.digest.digest_id
        if self.placed.rules.find(digest_id) is not None:
            names = self.placed.nearest(digest_id, table.prefixes[np.asarray(shards, np.int64)], names, reader)
        if self.placement.setting(digest_id).mode != NONE:
            keeps = self.rotations.keeps
            wanted = [at for at, name in enumerate(names) if not name and keeps(digest_id, shards[at])]
            if wanted:
                found = self._keepers(table, [shards[at] for at in wanted], reader)
                for at, name in zip(wanted, found, strict=True):
                    names[at] = name
        return names

    def _keepers(self, table: Table, shards: Sequence[int], reader: str) -> list[str]:
        """Of shards that no node holds, who is to."""
        prefixes = table.prefixes[np.asarray(shards, np.int64)]
        found = self.placed.missing(table.digest.digest_id, prefixes, reader)
        return table.owners(shards, self._membership.storing) if found is None else found

    def place(self, record: PlacementSet) -> None:
        """A placement rule is another from now on, or none."""
        self.placed.rules.apply(record)
        self.announce()

    def take_moves(self, node_id: str, reports: Collection[MoveReport]) -> None:
        """What a node has to move, as it says."""
        if self.placed.take(node_id, reports):
            self.announce()

    def share(self, digest_id: bytes) -> ResidentShare | None:
        """How much of it is resident, or was when it was last followed. None: nobody has read it yet."""
        if digest_id not in self.residency:
            return self._last.find(digest_id, self._clock.now())
        return ResidentShare.of(self.residency.table(digest_id), self.rotations.board(digest_id))

    # Settings.

    def planned(self, digest: Digest, fixed: types_pb2.CacheSetting) -> ChunkPlan | None:
        """What `set` wants beside a setting that Placement.fix gave. In a thread."""
        resident = None
        with contextlib.suppress(KeyError):  # nobody reads it, or no longer
            resident = self.residency.table(digest.digest_id).resident
        return self._plan_of(digest, fixed, resident)

    def _plan_of(self, digest: Digest, setting: types_pb2.CacheSetting, resident: bytearray | None) -> ChunkPlan | None:
        if setting.mode != COOPERATIVE:
            return None
        plan = ChunkPlan.of(digest, setting)
        if resident is not None:
            plan.count(resident)
        return plan

    def resized(self, digest_id: bytes, asked: types_pb2.CacheSetting, policy: str) -> types_pb2.CacheSetting | None:
        """What a policy's decision makes of the setting there is, where only the bytes change: chunks and samplers
        stay. None: it has to be made anew."""
        before = self.placement.setting(digest_id)
        if asked.mode != before.mode:
            return None
        if asked.mode == COOPERATIVE:
            plan = self._plans.get(digest_id)
            if plan is None or not plan.has_room(asked.allocation_bytes):
                return None
        resized = types_pb2.CacheSetting()
        resized.CopyFrom(before)
        resized.allocation_bytes, resized.decided_by = asked.allocation_bytes, policy
        return resized

    def resize(self, digest_id: bytes) -> None:
        """What `resized` gave has been applied."""
        if plan := self._plans.get(digest_id):
            plan.setting = self.placement.setting(digest_id)
            if digest_id in self.rotations:
                self.rotations.allocate(digest_id, self._share)
                self.rotations.look(digest_id)
        self.settings_set += 1
        self.announce()

    def apply(self, record: CacheSet) -> None:
        self.placement.apply(record)

    def set(self, digest_id: bytes, plan: ChunkPlan | None) -> None:
        """The setting of a data set has been applied; `plan` is that of the new one."""
        self.rotations.stop(digest_id)
        self._plans.pop(digest_id, None)
        self._sessions.samplers_anew(digest_id)
        if plan and digest_id in self.residency:
            self._plans[digest_id] = plan
            self._start()
        self.settings_set += 1
        self.announce()
        self._wake(digest_id)

    def forget(self, digest_id: bytes) -> None:
        """A data set has been removed; its sessions have been forgotten before."""
        self.placement.settings.pop(digest_id, None)
        self.placed.rules.forget(digest_id)
        self._used_at.pop(digest_id, None)
        self._last.forget(digest_id)
        self.set(digest_id, None)
        if digest_id in self.residency:
            self.residency.close(digest_id)
            self._join()

    # What happens.

    def restored(self) -> None:
        """There was a coordinator before this one, whose nodes are still to be heard of."""
        self._restored_at = self._clock.now()

    @property
    def met(self) -> bool:
        """The nodes that there were before a restart have been heard of, or will not be."""
        if self._restored_at is not None:
            now = self._clock.now()
            still_come = now < self._membership.joined_at + _LAST_CAME_S and now < self._restored_at + LONGEST_MEETING_S
            if now >= self._restored_at + MEETING_S and not still_come:
                self._restored_at = None
        return self._restored_at is None

    def changed(self, changes: Iterable[Change], loaded: bool = False) -> None:
        """Residency has. `loaded`: what is resident now has just come from the store."""
        for digest_id, shards in changes:
            self._changed(digest_id, shards, shards if loaded else shards[:0])
        self._start()

    def settled(self, settled: Settled) -> None:
        """As `changed`; what has come has just come from the store."""
        digest_id, came, went = settled
        self._changed(digest_id, np.concatenate((came, went)), came)
        self._start()

    def _changed(self, digest_id: bytes, shards: npt.NDArray[np.uint32], loaded: npt.NDArray[np.uint32]) -> None:
        if len(shards):
            if self._budgets.in_use:
                self._charge(digest_id, loaded.tolist())
            self.rotations.residency_changed(digest_id, shards)
            self._sessions.residency_changed(digest_id, shards)
            self.look(digest_id)

    def look(self, digest_id: bytes) -> None:
        """Something may have happened to the data set."""
        self.rotations.look(digest_id)
        self.announce()

    def tick(self, in_use: Set[bytes]) -> None:
        """Time has passed. Lets go of data sets that nobody has read for a while, of which nothing is ordered then."""
        for _ in self.ticking(in_use):
            pass

    def ticking(self, in_use: Set[bytes]) -> Iterator[None]:
        """As `tick`, some at a time: others may be served between. `in_use` holds until the first time."""
        now, tables = self._clock.now(), self.residency.tables()
        left = max(_LET_GO_AT_ONCE, len(tables) // _LET_GO_PARTS)
        for digest_id in tables:
            if digest_id in in_use:
                self._used_at[digest_id] = now
            elif digest_id not in self.rotations or self._used_at.setdefault(digest_id, now) + _KEPT_S <= now:
                if not left:
                    continue  # with the next tick
                left -= 1
                if was := self.share(digest_id):
                    self._last.remember(digest_id, was, now)
                self._used_at.pop(digest_id, None)
                self._plans.pop(digest_id, None)
                self.rotations.stop(digest_id)
                self.residency.close(digest_id)
        self._join()
        self._start()
        yield
        share = self._share
        for digest_id in list(self.rotations):
            if digest_id in self.rotations:
                self.rotations.allocate(digest_id, share)
                self.rotations.tick(digest_id)
                yield
        self.announce()

    def missing(self, digest_id: bytes, shards: Sequence[int], node_id: str) -> tuple[list[int], list[int]]:
        """Those that no live node holds, and those that another than `node_id` does.

        Raises NotFoundError (nobody reads the data set), InvalidArgumentError.
        """
        if digest_id not in self.residency:
            raise errors.NotFoundError(f"digest_id: nothing is known of what is resident of {digest_id.hex()}")
        table = self.residency.table(digest_id)
        resident = table.resident
        if shards and max(shards) >= len(resident):
            raise errors.InvalidArgumentError(f"shards: {max(shards)}; the data set has {len(resident)}")
        asked = np.array(shards, np.int64)
        missing: list[int] = asked[np.frombuffer(resident, np.uint8)[asked] == 0].tolist()
        holders = zip(asked.tolist(), self.residency.holders(table, asked), strict=True)
        return missing, [shard for shard, holder in holders if holder not in ("", node_id)]

    def _charge(self, digest_id: bytes, loaded: Sequence[int]) -> None:
        """And wakes those who may read nothing but what is resident."""
        if digest_id in self.rotations:
            lengths = self.residency.table(digest_id).lengths
            self._budgets.resident(digest_id, loaded, [int(lengths[shard]) for shard in loaded])
        self._wake(digest_id)

    @property
    def _share(self) -> float:
        return self.placement.share([node.quota_bytes for node in self._membership.live()])

    def _start(self) -> None:
        """Lets rotations begin, once all that is resident is known: the rest they would have evicted."""
        if self._is_starting or len(self.rotations) == len(self._plans) or not self._may_start:
            return
        self._is_starting = True
        if self.stepwise is None or len(self._plans) == len(self.rotations) + 1:
            deque(self._starting(), maxlen=0)
        else:
            self.stepwise(self._starting())

    @property
    def _may_start(self) -> bool:
        return self._membership.all_told and self.met

    def _starting(self) -> Iterator[None]:
        """One after the other: of two hundred after a restart it takes a tenth of a second."""
        try:
            while self._may_start:
                digest_id = next((one for one in self._plans if one not in self.rotations), None)
                if digest_id is None:
                    break
                self.rotations.start(digest_id, self._plans[digest_id], self.residency.table(digest_id).resident)
                self._wake(digest_id)
                yield
        finally:
            self._is_starting = False
        self.announce()
