"""Samplers for sessions that have asked for an order of their own. Pure."""

from __future__ import annotations

import random
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.block_order import BlockOrder, units_of
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout, ResidentSlots
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_sampler import AllAtOnce, ChunkSampler
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.deterministic import Deterministic
from tfquiver.shard_owners_chunks_hash_prefixes.striping import stripe


class Asker(Protocol):
    """What the schemes need to know of a session."""

    @property
    def order(self) -> types_pb2.SessionOrder: ...
    def pending_mask(self) -> npt.NDArray[np.bool_]:
        """Shape [shards]: what it has still to give out."""


class Shards(Protocol):
    """What the schemes need to know of a data set's shards."""

    @property
    def resident(self) -> bytearray: ...
    @property
    def lengths(self) -> npt.NDArray[np.uint64]: ...
    @property
    def records(self) -> npt.NDArray[np.uint32]: ...


def block_order(session: Asker, shards: Shards) -> BlockOrder:
    """What `deterministic` wants. Takes seconds for millions of shards: in a thread. Sessions that `key_of` says the
    same of may share it."""
    order = session.order
    return BlockOrder(shards.lengths, shards.records, None if order.files else order.order_seed, order.block_bytes)


def units(session: Asker, shards: Shards) -> tuple[ChunkLayout, ResidentSlots]:
    """As `block_order`, for `homogeneous`: one chunk with as many units as suit the session."""
    cut = stripe(shards.lengths, 1, _units_of(session, shards))
    layout = ChunkLayout(cut, np.random.default_rng(0), homogeneous=True)
    return layout, ResidentSlots(layout, bytearray(len(shards.lengths)))  # nobody asks


def key_of(session: Asker, shards: Shards) -> tuple[str, int, int]:
    """What of a session its order, or units, depend on."""
    if session.order.files:
        return "files", 0, session.order.block_bytes
    if session.order.deterministic:
        return "order", session.order.order_seed, session.order.block_bytes
    return "units", _units_of(session, shards), 0


def deterministic(session: Asker, shards: Shards, order: BlockOrder) -> Deterministic:
    return Deterministic(order, session.pending_mask(), shards.lengths, shards.resident)


def homogeneous(
    session: Asker, shards: Shards, units: tuple[ChunkLayout, ResidentSlots], rng: random.Random
) -> ChunkSampler:
    """For a data set that is not cached by chunks."""
    layout, there = units
    use = AllAtOnce(layout.chunks)
    return ChunkSampler(layout, session.pending_mask(), (), there, shards.lengths, use, rng, resident=shards.resident)


def _units_of(session: Asker, shards: Shards) -> int:
    size_bytes, records, order = int(shards.lengths.sum()), int(shards.records.sum()), session.order
    return units_of(size_bytes, records, len(shards.lengths), order.block_bytes, order.batch_records)
