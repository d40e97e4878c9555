"""How many names of nodes are told, counted as placements change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.names_told import NamesTold
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places

KINDS = [Places([("", [f"n{node}" for node in range(count)])]) for count in range(1, 5)]
IDS = [bytes([number]) * 32 for number in range(4)]


@given(st.lists(st.tuples(st.sampled_from(IDS), st.none() | st.sampled_from(KINDS)), max_size=40))
def test_those_kept_alike_count_once(changes: list[tuple[bytes, Places | None]]) -> None:
    names, kept = NamesTold(), dict[bytes, Places]()
    for digest_id, places in changes:
        if places is not None:
            kept[digest_id] = places
        elif digest_id not in kept:
            continue
        else:
            del kept[digest_id]
        names.put(digest_id, places)
        for one in IDS:
            others = {id(its): its for other, its in kept.items() if other != one}
            assert names.without(one) == sum(len(its.members) for its in others.values())
