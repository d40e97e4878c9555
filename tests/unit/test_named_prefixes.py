"""Which digests name a shard, found for all digests of a node together."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
from hypothesis import given

from tfquiver.service.node.digests_kept_here.named_prefixes import NamedPrefixes
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_rows

SHARDS = 12
_digests = st.lists(st.lists(st.integers(0, SHARDS - 1), max_size=8), max_size=12)


def rows(shards: list[int]) -> npt.NDArray[np.uint8]:
    return np.repeat(np.array(shards, np.uint8).reshape(-1, 1), 32, 1)


@given(_digests, st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=20), st.sets(st.integers(0, 20)))
def test_it_says_what_looking_into_each_would(
    digests: list[list[int]], changes: list[tuple[int, bool]], by: set[int]
) -> None:
    prefixes, known = NamedPrefixes(), dict[int, list[int]]()
    parts = np.unique(of_rows(rows(list(range(SHARDS)))))
    for number, comes in changes:
        if number >= len(digests):
            continue
        if comes and number not in known:
            prefixes.add([(bytes([number]), rows(digests[number]))])
            known[number] = digests[number]
        elif not comes:
            prefixes.forget([bytes([number])])
            known.pop(number, None)
    assert prefixes.digest_ids == {bytes([number]) for number in known}
    named = {shard for number in by & known.keys() for shard in known[number]}
    found = prefixes.named(parts, [bytes([number]) for number in by])
    assert {shard for shard in range(SHARDS) if found[np.searchsorted(parts, of_rows(rows([shard])))[0]]} == named


def test_a_shard_costs_twelve_bytes_and_what_has_no_room_is_not_known() -> None:
    chance, prefixes = np.random.default_rng(1), NamedPrefixes(most=400_000)
    for number in range(50):
        prefixes.add([(bytes([number]), chance.integers(0, 256, (10_000, 32), np.uint8))])
    assert prefixes.memory_bytes <= 12.1 * 400_000
    assert prefixes.digest_ids == {bytes([number]) for number in range(40)}
    prefixes.forget([bytes([number]) for number in range(30)])
    assert prefixes.memory_bytes <= 12.1 * 100_000, "what has gone takes no memory"
    prefixes.add([(bytes([49]), chance.integers(0, 256, (10_000, 32), np.uint8))])
    assert bytes([49]) in prefixes.digest_ids
