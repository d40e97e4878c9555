"""What sessions see of one data set."""

from __future__ import annotations

import random

from tfquiver.service.coordinator.chunk_rotation.rotations import Rotations
from tfquiver.service.coordinator.dataset_caching.placement import COOPERATIVE, LRU, Placement
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.made_orders import Key, MadeOrders
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.runs import run_of
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import (
    InAnyOrder,
    ResidentFirst,
    Sampler,
)
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.schemes import (
    block_order,
    deterministic,
    homogeneous,
    key_of,
    units,
)
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.staged import InTurn, Staged
from tfquiver.service.coordinator.sessions.session import Session


class View:
    def __init__(self, table: Table, placement: Placement, rotations: Rotations, made: MadeOrders) -> None:
        self._table, self._placement, self._rotations, self._made = table, placement, rotations, made
        self.resident, self.lengths = table.resident, table.lengths

    def sampler(self, session: Session, rng: random.Random) -> Sampler | None:
        """None: not yet; its readers are woken when there is one."""
        shards = len(self.lengths)
        if session.sampled:  # irregular: it reads what rotations and other jobs have brought, and takes no part in them
            drawn, pending = session.draws_of(shards), session.pending_mask()
            if drawn.in_turn:
                return InTurn(drawn, pending, self.resident, self.lengths)
            return Staged(drawn, pending, self.resident, self.lengths, rng)
        if session.order.deterministic or session.order.files:
            order = self._made.get(self._key(session), shards, lambda: block_order(session, self._table))
            return deterministic(session, self._table, order) if order else None
        mode = self._placement.setting(session.digest_id).mode
        if mode == COOPERATIVE:
            plan = self._rotations.plan(session.digest_id)
            if plan is None:
                return None
            if session.homogeneous and not plan.has_units:
                # With the plan, so that no other plan has its id while this is kept.
                key = (session.digest_id, "units of chunks", id(plan), 0)
                if self._made.get(key, shards, lambda: (plan, plan.units)) is None:
                    return None
            return self._rotations.sampler(session, rng)
        if session.homogeneous:
            made = self._made.get(self._key(session), shards, lambda: units(session, self._table))
            return homogeneous(session, self._table, made, rng) if made else None
        # A least-recently-used cache is what there is to compare with: its jobs read in an order of their own.
        if mode == LRU:
            return InAnyOrder(session.pending_mask(), self._table.none_resident, self.lengths, rng, self.resident)
        run = run_of(shards, self._table.digest.size_bytes)
        return ResidentFirst(session.pending_mask(), self.resident, self.lengths, rng, run=run)

    def shared(self, shard: int) -> bool:
        """Whether a shard that is fetched now becomes resident for all jobs that rotate through the data set."""
        digest_id = self._table.digest.digest_id
        return digest_id in self._rotations and self._rotations.keeps(digest_id, shard)

    def _key(self, session: Session) -> Key:
        return (session.digest_id, *key_of(session, self._table))
