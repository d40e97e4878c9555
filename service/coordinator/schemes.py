"""Samplers for sessions that have asked for an order of their own. Pure."""

from __future__ import annotations

import random
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.block_order import BlockOrder, units_of
from tfquiver.service.coordinator.chunk_layout import ChunkLayout
from tfquiver.service.coordinator.chunk_sampler import AllAtOnce, ChunkSampler
from tfquiver.service.coordinator.deterministic import Deterministic
from tfquiver.service.coordinator.session import Session
from tfquiver.striping import stripe


class Shards(Protocol):
    """What the schemes need to know of a data set's shards."""

    @property
    def resident(self) -> bytearray: ...
    @property
    def lengths(self) -> npt.NDArray[np.uint64]: ...
    @property
    def records(self) -> npt.NDArray[np.uint32]: ...


def deterministic(session: Session, shards: Shards) -> Deterministic:
    order = BlockOrder(shards.lengths, shards.records, session.order.order_seed, session.order.block_bytes)
    return Deterministic(order, session.pending_mask(), shards.lengths)


def homogeneous(session: Session, shards: Shards, rng: random.Random) -> ChunkSampler:
    """For a data set that is not cached by chunks: one chunk with as many units as suit the session."""
    size_bytes, records = int(shards.lengths.sum()), int(shards.records.sum())
    order = session.order
    units = units_of(size_bytes, records, len(shards.lengths), order.block_bytes, order.batch_records)
    layout = ChunkLayout(stripe(shards.lengths, 1, units), np.random.default_rng(session.seed), homogeneous=True)
    use = AllAtOnce(layout.chunks)
    return ChunkSampler(layout, session.pending_mask(), (), shards.resident, shards.lengths, use, rng)
