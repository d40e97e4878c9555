"""Sessions that have asked for an order of their own get the sampler for it, at any moment of their lives."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.chunk_rotation.rotations import ChunkPlan, Rotations
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards import schemes
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.deterministic import Deterministic
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.wish import Wish
from tfquiver.service.coordinator.sessions.session import Reader, Session

SHARDS = 600


@dataclass
class Shards:
    resident: bytearray = field(default_factory=lambda: bytearray(SHARDS))
    lengths: npt.NDArray[np.uint64] = field(default_factory=lambda: np.full(SHARDS, 1000, np.uint64))
    records: npt.NDArray[np.uint32] = field(default_factory=lambda: np.full(SHARDS, 50, np.uint32))

    def shared(self, shard: int) -> bool:
        return False

    def sampler(self, session: Session, rng: random.Random) -> Deterministic:
        return schemes.deterministic(session, self, schemes.block_order(session, self))


def session_of(wish: Wish) -> Session:
    created = log_pb2.SessionCreated(
        session_id="s", shards=SHARDS, seed=wish.seed, homogeneous=wish.homogeneous, order=wish.fixed(epoch=0)
    )
    return Session(created, 0, 0.0)


def test_units_come_one_after_the_other() -> None:
    order = types_pb2.SessionOrder(block_bytes=10_000, batch_records=25)
    session = session_of(Wish(1, True, order))
    sampler = schemes.homogeneous(session, Shards(), schemes.units(session, Shards()), random.Random(1))
    taken = list(itertools.chain(*iter(lambda: sampler.take(7, 1 << 40), [])))
    assert sorted(taken) == list(range(SHARDS))
    units = [unit for unit, _ in itertools.groupby(sampler.place(shard).unit for shard in taken)]
    assert len(units) == len(set(units)) == 64
    assert 0 not in units and units != sorted(units)


def test_units_do_not_wait_for_a_budget_where_they_are_resident() -> None:
    session, shards = session_of(Wish(1, homogeneous=True)), Shards()
    shards.resident[:] = b"\1" * SHARDS
    sampler = schemes.homogeneous(session, shards, schemes.units(session, shards), random.Random(1))
    taken = sampler.take(100, 1 << 40, 0.0)
    assert len(taken) == 100
    shards.resident[:] = bytes(SHARDS)
    assert sampler.take(100, 1 << 40, 0.0) == []
    assert len(sampler.take(100, 1 << 40, 1001.0)) == 2


def test_units_of_a_data_set_that_is_cached_by_chunks_are_those_of_its_chunks() -> None:
    shards = Shards()
    sizes = np.full(SHARDS, 1000, np.uint64)
    setting = types_pb2.CacheSetting(rotation="relevance", chunks=10, partitions=5)
    setting.allocation_bytes = int(most_disk_bytes(sizes).sum())
    plan = ChunkPlan(sizes, np.arange(SHARDS, dtype=np.uint64), 1, setting)
    rotations = Rotations(ManualClock(), 30.0, lambda _: None)
    shards.resident[:] = b"\1" * SHARDS
    session = session_of(Wish(1, homogeneous=True))
    rotations.start(session.digest_id, plan, shards.resident)
    sampler = rotations.sampler(session, random.Random(1))
    taken = list(itertools.chain(*iter(lambda: sampler.take(7, 1 << 40), [])))
    assert sorted(taken) == list(range(SHARDS))
    units = [unit for unit, _ in itertools.groupby(sampler.place(shard).unit for shard in taken)]
    assert len(units) == len(set(units)) == 50


def test_a_reader_that_wants_shards_is_given_those_that_are_pending_in_its_order() -> None:
    shards = Shards()
    session = session_of(Wish(1, order=types_pb2.SessionOrder(deterministic=True, block_bytes=5000)))
    session.sampler = shards.sampler(session, random.Random(1))
    first, second = Reader("a", "n", "i", ""), Reader("b", "n", "i", "")
    session.reader_opened(first)
    session.reader_opened(second)
    assert session.lease(first, 5, 1, shards, [7, 3, 9]) == [7, 3, 9]
    assert session.lease(second, 5, 1, shards, [3, 8, 8, 7]) == [8]
    session.shards_acked([7], presumed=False)
    assert session.lease(second, 5, 1, shards, [7]) == []
    assert session.sampler.pending == SHARDS - 4
    shards.resident[11] = 1
    assert session.lease(second, 5, 1, shards, [11, 12], store_bytes=0.0) == [], "in its order, and so all or none"
    assert session.lease(second, 5, 1, shards, [11], store_bytes=0.0) == [11]
    assert session.lease(second, 5, 1, shards, [12, 13], store_bytes=1.0) == [12, 13]


def test_the_order_of_the_files_is_one_for_all_epochs_whatever_is_resident() -> None:
    shards, order = Shards(), types_pb2.SessionOrder(files=True)
    shards.resident[100:300] = b"\1" * 200
    for epoch, seed in ((0, 0), (5, 7)):
        assert Wish(seed, False, order).fixed(epoch) == order
        session = session_of(Wish(seed, False, order))
        assert schemes.key_of(session, shards) == ("files", 0, 0)
        sampler = shards.sampler(session, random.Random(epoch))
        first = sampler.take(7, 1 << 40)
        sampler.give_back(first[2:])
        rest = list(itertools.chain(*iter(lambda sampler=sampler: sampler.take(7, 1 << 40), [])))
        assert first[:2] + rest == list(range(SHARDS))
        assert (sampler.place(9).position, sampler.place(9).records, sampler.place(9).offset) == (450, 50, 0)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Wish(0, True, types_pb2.SessionOrder(files=True)), "homogeneous"),
        (Wish(1, False, types_pb2.SessionOrder(files=True, deterministic=True)), "files"),
        (Wish(0, False, types_pb2.SessionOrder(deterministic=True)), "seed"),
        (Wish(1, True, types_pb2.SessionOrder(deterministic=True)), "homogeneous"),
    ],
)
def test_wishes_that_cannot_be_are_refused(wish: Wish, said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=said):
        wish.fixed(epoch=0)


def test_the_order_seed_of_a_checkpoint_is_kept_and_others_are_made_of_seed_and_epoch() -> None:
    fixed = Wish(0, False, types_pb2.SessionOrder(deterministic=True, order_seed=5)).fixed(epoch=3)
    assert fixed and fixed.order_seed == 5
    wish = Wish(4, False, types_pb2.SessionOrder(deterministic=True))
    seeds = [fixed.order_seed for fixed in map(wish.fixed, range(3)) if fixed]
    assert len(set(seeds)) == 3 and 0 not in seeds
