"""The store on a real directory keeps what its rules say: limits, who goes first, and what is ordered away."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.contract.test_disk_cache import disk_bytes, noise, raw_of
from tfquiver import errors
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import UNSET, AccountTerms
from tfquiver.service.node.disk_quota_books_and_eviction.rules import KeepAll, Why
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

ENTRY_BYTES = 3 * 4096
A, B = b"a" * 32, b"b" * 32


def shards(count: int) -> list[VerifiedShard]:
    return [noise(8000) for _ in range(count)]


class Fixed:
    """Rules that name the accounts of each shard; those that are not named have not been set."""

    def __init__(self, terms: Mapping[bytes, AccountTerms], keys: Mapping[bytes, Sequence[bytes]]) -> None:
        self.terms, self._keys = terms, keys

    def accounts(self, hash: bytes, why: Why) -> Sequence[bytes]:
        return self._keys.get(hash, (UNSET,))

    def accounts_of(self, hashes: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        return [self.accounts(hash, Why.STANDS) for hash in hashes]


def all_in(key: bytes, terms: AccountTerms, made: Sequence[VerifiedShard]) -> Fixed:
    return Fixed({key: terms}, {shard.hash: (key,) for shard in made})


def put(store: DiskCache, made: Sequence[VerifiedShard]) -> int:
    """How many of them it took."""
    for shard in made:
        try:
            store.insert(shard)
        except errors.ResourceExhaustedError:
            continue
    return sum(shard.hash in store for shard in made)


@pytest.fixture
def store(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", 20 * ENTRY_BYTES, mode="raw", rng=random.Random(4))


@pytest.mark.slow
def test_what_came_first_stays_and_a_reduction_takes_any(tmp_path: Path, store: DiskCache) -> None:
    made = shards(15)
    store.use(all_in(A, AccountTerms("data set a", 10 * ENTRY_BYTES), made))
    assert put(store, made) == 10
    assert [shard.hash in store for shard in made] == [True] * 10 + [False] * 5
    assert (store.refusals.inserts, store.evictions) == (5, 0)
    with pytest.raises(errors.ResourceExhaustedError, match="data set a has 123 kB of its 123 kB"):
        store.insert(made[-1])
    left = Counter[int]()
    for seed in range(60):
        again = DiskCache(tmp_path / str(seed), 20 * ENTRY_BYTES, mode="raw", rng=random.Random(seed))
        again.use(all_in(A, AccountTerms("a", 10 * ENTRY_BYTES), made))
        put(again, made[:10])
        again.use(all_in(A, AccountTerms("a", 4 * ENTRY_BYTES - 1), made))
        again.settle()
        assert again.used_bytes == disk_bytes(tmp_path / str(seed)) == 3 * ENTRY_BYTES
        assert (again.evictions, again.evicted_bytes) == (7, 7 * ENTRY_BYTES)
        left.update(at for at, shard in enumerate(made) if shard.hash in again)
    assert set(left) == set(range(10)), "any of them may stay"
    assert max(left.values()) < 40


def test_lru_keeps_what_was_opened_last(store: DiskCache) -> None:
    made = shards(8)
    store.use(all_in(A, AccountTerms("a", 5 * ENTRY_BYTES, lru=True), made))
    assert put(store, made[:5]) == 5
    assert raw_of(store, made[3].hash) == made[3].raw
    store.used(made[1].hash)
    assert put(store, made[5:]) == 3
    assert [at for at, shard in enumerate(made) if shard.hash in store] == [1, 3, 5, 6, 7]
    assert store.used_bytes == 5 * ENTRY_BYTES


def test_an_entry_that_is_being_read_may_go(store: DiskCache) -> None:
    made = shards(6)
    store.use(all_in(A, AccountTerms("a", 5 * ENTRY_BYTES, lru=True), made))
    put(store, made[:5])
    opened = store.open_entry(made[0].hash)
    assert opened
    for shard in made[1:5]:
        store.used(shard.hash)
    put(store, made[5:])
    assert made[0].hash not in store
    assert opened.read_stored() == made[0].raw
    opened.close()


def test_those_that_nobody_has_set_give_way_and_are_found_again_after_a_restart(
    tmp_path: Path, store: DiskCache
) -> None:
    first, second = shards(20), shards(8)
    assert put(store, first) == 20
    rules = all_in(A, AccountTerms("a", 8 * ENTRY_BYTES), second)
    store.use(rules)
    store.settle()
    assert store.used_bytes == 20 * ENTRY_BYTES, "room that nobody needs is used"
    assert put(store, second) == 8
    assert sum(shard.hash in store for shard in first) == 12
    assert store.used_bytes == disk_bytes(tmp_path / "cache") == 20 * ENTRY_BYTES
    more = shards(1)
    assert put(store, more) == 0, "among themselves what came first stays"
    again = DiskCache(tmp_path / "cache", 20 * ENTRY_BYTES, mode="raw")
    again.use(Fixed({A: AccountTerms("a", 3 * ENTRY_BYTES)}, {shard.hash: (A,) for shard in second}))
    again.settle()
    assert sum(shard.hash in again for shard in second) == 3
    assert sum(shard.hash in again for shard in first) == 12


def test_what_is_not_kept_goes_and_does_not_come_back(store: DiskCache) -> None:
    made = shards(6)
    told: list[tuple[bytes, bool]] = []
    store._on_change = lambda *change: told.append(change)
    put(store, made[:4])
    nowhere = Fixed({B: AccountTerms("b")}, {shard.hash: () for shard in made} | {made[0].hash: (B,)})
    store.use(nowhere)
    assert len(store) == 4
    store.evict([shard.hash for shard in made[:2]])
    assert [shard.hash in store for shard in made] == [True, False, True, True, False, False]
    store.settle()
    assert store.hashes() == [made[0].hash]
    assert put(store, made) == 1
    assert (store.refusals.inserts, store.evictions) == (0, 3), "what is not wanted is no refusal"
    assert store.written_bytes == 4 * ENTRY_BYTES, "also what has gone"
    store.check_room(made[5].hash, 1 << 40)
    assert not store.has_room(made[5].hash, 1)
    assert told == [(shard.hash, True) for shard in made[:4]] + [(made[at].hash, False) for at in (1, 2, 3)]
    store.use(KeepAll())
    assert put(store, made) == 6


class UntilWritten(Fixed):
    """As soon as a temporary file is there, what it is for is not kept any more."""

    def __init__(self, root: Path, terms: Mapping[bytes, AccountTerms], keys: Mapping[bytes, Sequence[bytes]]) -> None:
        super().__init__(terms, keys)
        self._temporaries = root / "tmp"

    def accounts(self, hash: bytes, why: Why) -> Sequence[bytes]:
        return () if any(self._temporaries.iterdir()) else super().accounts(hash, why)


def test_what_is_ordered_away_while_it_is_being_written_does_not_stay(tmp_path: Path, store: DiskCache) -> None:
    (shard,) = shards(1)
    store.use(UntilWritten(tmp_path / "cache", {A: AccountTerms("a", ENTRY_BYTES)}, {shard.hash: (A,)}))
    store.insert(shard)
    assert (len(store), store.used_bytes, disk_bytes(tmp_path / "cache")) == (0, 0, 0)
    store.use(all_in(A, AccountTerms("a", ENTRY_BYTES), [shard]))
    assert store.has_room(shard.hash, ENTRY_BYTES), "nothing is left reserved"
    assert not store.has_room(shard.hash, ENTRY_BYTES, 1)


def test_limits_and_quota_hold_while_many_insert_and_settings_change(tmp_path: Path, store: DiskCache) -> None:
    ours, theirs, others = shards(12), shards(12), shards(12)
    keys = {shard.hash: (A,) for shard in ours} | {shard.hash: (B,) for shard in theirs}
    most: list[int] = []
    stop = threading.Event()

    def insert(made: list[VerifiedShard]) -> None:
        while not stop.is_set():
            put(store, made)

    def watch() -> None:
        while not stop.is_set():
            most.append(store.used_bytes)

    threads = [threading.Thread(target=insert, args=(made,)) for made in (ours, theirs, others)]
    threads.append(threading.Thread(target=watch))
    for thread in threads:
        thread.start()
    for turn in range(30):
        own, lru = (4 + turn % 5) * ENTRY_BYTES, (3 + turn % 4) * ENTRY_BYTES
        store.use(Fixed({A: AccountTerms("a", own), B: AccountTerms("b", lru, lru=True)}, keys))
        store.settle()
        assert sum(shard.hash in store for shard in ours) * ENTRY_BYTES <= own
        assert sum(shard.hash in store for shard in theirs) * ENTRY_BYTES <= lru
    stop.set()
    for thread in threads:
        thread.join()
    assert max(most) <= 20 * ENTRY_BYTES
    assert store.used_bytes == disk_bytes(tmp_path / "cache") == len(store) * ENTRY_BYTES
