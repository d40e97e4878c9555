"""Which account a shard goes to, and what a node's part of an allocation is."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.digests import digest_of, numbered_digest
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.coordinator_orders.chunk_map import ChunkMap
from tfquiver.service.node.coordinator_orders.dataset_rules import CacheRules, DatasetRule, share_bytes, terms
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import UNSET, AccountTerms
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why
from tfquiver.shard_owners_chunks_hash_prefixes import rendezvous, striping

NONE, UNIFORM = types_pb2.CACHE_MODE_NONE, types_pb2.CACHE_MODE_UNIFORM
COOPERATIVE, LRU = types_pb2.CACHE_MODE_COOPERATIVE, types_pb2.CACHE_MODE_LRU
Mode = types_pb2.CacheMode.ValueType
HASHES = [hashlib.sha256(bytes([number])).digest() for number in range(60)]


def rule(name: str, mode: Mode, hashes: list[bytes], **chunks: frozenset[int]) -> DatasetRule:
    digest = digest_of(hashes, name)
    cooperative = mode == COOPERATIVE
    return DatasetRule(
        digest.digest_id, mode, AccountTerms(name, 1), ChunkMap(digest, 10 * cooperative, 2 * cooperative), **chunks
    )


def chunk(rule: DatasetRule, number: int) -> list[bytes]:
    return rule.map.hashes(number)


def test_what_nobody_has_set_has_no_account_of_its_own() -> None:
    rules = CacheRules([rule("a", UNIFORM, HASHES[:10])])
    assert rules.accounts(HASHES[20], Why.PASSES) == (UNSET,)
    assert rules.accounts_of([]) == []


@pytest.mark.parametrize(
    ("why", "kept"),
    [
        (Why.STANDS, {"loading", "gone", "other"}),
        (Why.ASKED, {"loading", "other"}),
        (Why.PASSES, {"loading"}),
    ],
)
def test_a_chunk_that_goes_takes_nothing_in_and_what_only_passes_by_must_be_wanted(why: Why, kept: set[str]) -> None:
    its = rule("a", COOPERATIVE, HASHES, load=frozenset({1}), evict=frozenset({2}), gone=frozenset({2, 3}))
    rules = CacheRules([its])
    for name, number in {"loading": 1, "leaving": 2, "gone": 3, "other": 4}.items():
        for hash in chunk(its, number):
            assert bool(rules.accounts(hash, why)) == (name in kept), name


def test_shared_content_stays_for_the_data_set_that_still_keeps_it() -> None:
    rotating = rule("a", COOPERATIVE, HASHES, evict=frozenset(range(10)), gone=frozenset(range(10)))
    fixed, nothing, used = rule("b", UNIFORM, HASHES[:20]), rule("c", NONE, HASHES), rule("d", LRU, HASHES[10:30])
    rules = CacheRules([used, nothing, rotating, fixed])
    assert rules.accounts(HASHES[0], Why.STANDS) == [fixed.digest_id]
    assert rules.accounts(HASHES[15], Why.ASKED) == [fixed.digest_id, used.digest_id], "what keeps longest first"
    assert rules.accounts(HASHES[25], Why.STANDS) == [used.digest_id]
    assert rules.accounts(HASHES[40], Why.STANDS) == []
    assert set(rules.terms) == {rotating.digest_id, fixed.digest_id, used.digest_id}


@given(st.lists(st.sampled_from(HASHES), max_size=20))
def test_many_at_once_are_as_one_by_one(hashes: list[bytes]) -> None:
    rules = CacheRules(
        [
            rule("a", COOPERATIVE, HASHES[:30], evict=frozenset({1, 4, 5})),
            rule("b", UNIFORM, HASHES[25:40]),
            rule("c", NONE, HASHES[:50]),
        ]
    )
    assert [list(keys) for keys in rules.accounts_of(hashes)] == [
        list(rules.accounts(hash, Why.STANDS)) for hash in hashes
    ]


def test_a_map_names_chunks_as_the_striping_does_and_nodes_share_every_chunk() -> None:
    hashes = HASHES + HASHES[:7]  # some shards twice
    digest = digest_of(hashes)
    mapped = ChunkMap(digest, 6, 3)
    prefixes = digest.hashes[:, :8].copy().view("<u8").reshape(-1)
    cut = striping.stripe(digest.lengths, 6, 3, prefixes)
    assert [mapped.chunk(hash) for hash in hashes] == cut.chunk_of.tolist()
    assert mapped.chunks_of([*hashes, bytes(32)]).tolist() == [*cut.chunk_of.tolist(), -1]
    assert mapped.chunk(bytes(32)) is None
    names = ("a", "b", "c")
    owned = []
    for number in range(6):
        assert mapped.shards(number).tolist() == np.flatnonzero(cut.chunk_of == number).tolist()
        for name in names:
            own = mapped.own_shards(number, name, names)
            assert all(names[owner] == name for owner in rendezvous.owners(digest.hashes[own], names))
            owned += [hashes[shard] for shard in own]
    assert sorted(owned) == sorted(HASHES), "every shard has one owner; equal ones are loaded once"
    assert mapped.own_shards(0, "gateway", names).tolist() == []
    assert mapped.shards(17).tolist() == []


@pytest.mark.parametrize("chunks", [0, 5])
def test_an_empty_data_set_has_no_shards(chunks: int) -> None:
    mapped = ChunkMap(digest_of([]), chunks, 0)
    assert mapped.chunk(bytes(32)) is None
    assert mapped.chunks_of([bytes(32)]).tolist() == [-1]
    assert mapped.shards(0).tolist() == []


def setting(mode: Mode, allocation_bytes: int) -> types_pb2.CacheSetting:
    return types_pb2.CacheSetting(mode=mode, allocation_bytes=allocation_bytes)


def test_parts_of_an_allocation() -> None:
    digest_map = ChunkMap(numbered_digest(1000), 10, 0)
    quotas = {"a": 100, "b": 300}
    assert terms("x", setting(UNIFORM, 80), digest_map, "b", quotas) == AccountTerms("x", 60)
    assert terms("x", setting(LRU, 80), digest_map, "a", quotas) == AccountTerms("x", 20, lru=True)
    assert terms("x", setting(UNIFORM, 0), digest_map, "a", quotas) == AccountTerms("x", None)
    assert terms("x", setting(LRU, 80), digest_map, "gateway", quotas).limit_bytes == 0
    assert share_bytes(80, "a", {}) == 0
    nobody = terms("x", setting(UNIFORM, 80), digest_map, "a", {})
    assert nobody.by_order, "no node matches its placement just now: what is here stays until others own it"


@pytest.mark.parametrize("mode", [UNIFORM, LRU])
def test_where_there_is_room_for_all_of_it_nodes_keep_what_they_own_and_not_their_share(mode: Mode) -> None:
    """Two nodes with one quota own unequal parts, so that with half each one of them would keep less than it owns."""
    mapped = ChunkMap(numbered_digest(1000), 0, 0)
    all_bytes, quotas = int(mapped.entry_bytes.sum()), {"a": 10**9, "b": 10**9}
    whole = terms("x", setting(mode, all_bytes), mapped, "a", quotas)
    assert whole == AccountTerms("x", None if mode == UNIFORM else all_bytes // 2, lru=mode == LRU)
    assert terms("x", setting(mode, all_bytes - 2), mapped, "a", quotas).limit_bytes == all_bytes // 2 - 1


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(20, 400), st.integers(0, 10**6))
def test_what_hashing_gives_a_node_of_a_full_allocation_fits_its_limit(nodes: int, shards: int, seed: int) -> None:
    digest = numbered_digest(1000, str(seed))
    mapped = ChunkMap(digest, 10, 0)
    names = [f"node-{number}" for number in range(nodes)]
    entry = int(mapped.entry_bytes[0])
    owners = rendezvous.owners(digest.hashes[:shards], names)
    limits = terms("x", setting(COOPERATIVE, shards * entry), mapped, names[0], dict.fromkeys(names, 10**9))
    assert limits.by_order
    assert limits.limit_bytes is not None
    assert int((owners == 0).sum()) * entry <= limits.limit_bytes <= shards * entry * 1.03
