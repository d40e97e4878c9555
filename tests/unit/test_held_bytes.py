"""How much of a data set nodes and racks hold: as counted one by one, and at what cost where there are many nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.digests import numbered_digest
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.held_bytes import held_of
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_rows

DIGEST = numbered_digest(30)
CONTENTS = of_rows(DIGEST.hashes)
RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": ""}


@given(st.dictionaries(st.sampled_from(sorted(RACKS)), st.frozensets(st.integers(0, 29))))
def test_each_byte_counts_once_for_a_node_a_rack_and_all(holding: dict[str, frozenset[int]]) -> None:
    others = np.array([0, 5, 2**64 - 1], np.uint64)
    held = {
        name: np.unique(np.concatenate((CONTENTS[sorted(its)], others))) if its else others
        for name, its in holding.items()
    }
    found = held_of(DIGEST, held, RACKS, None)

    def size_bytes(shards: Iterable[int]) -> int:
        return sum(int(DIGEST.lengths[shard]) for shard in shards)

    assert found.size_bytes == size_bytes(range(30))
    assert found.by_node == {name: size_bytes(its) for name, its in holding.items()}
    assert found.any_bytes == size_bytes(frozenset[int]().union(*holding.values()))
    for rack in ("r1", "r2"):
        its = frozenset[int]().union(*(its for name, its in holding.items() if RACKS[name] == rack))
        assert found.by_rack.get(rack, 0) == size_bytes(its)
    assert "" not in found.by_rack


class Counted(np.ndarray[Any, Any]):
    """Counts the elements that numpy goes through: of what is bisected only what is looked for."""

    elements = 0

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        arrays = [one for one in args if isinstance(one, np.ndarray)]
        Counted.elements += sum(one.size for one in (arrays[1:] if func is np.searchsorted else arrays))
        return func(*(one.view(np.ndarray) if isinstance(one, Counted) else one for one in args), **kwargs)


def test_a_node_costs_what_it_holds_however_large_the_data_set_is() -> None:
    digest, nodes, each = numbered_digest(20_000), 200, 10
    contents = of_rows(digest.hashes)
    held = {f"n{at}": np.sort(contents[at * each : (at + 1) * each]).view(Counted) for at in range(nodes)}
    Counted.elements = 0
    found = held_of(digest, held, dict.fromkeys(held, "r"), None)
    assert found.any_bytes == sum(found.by_node.values()) == found.by_rack["r"] > 0
    assert 0 < Counted.elements <= 10 * nodes * each
