"""How much is here of a data set that nobody follows, against the table that is made of one that is followed."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfquiver
from tests.support.digests import digest_of
from tfquiver.service.coordinator.resident_shards import here
from tfquiver.service.coordinator.resident_shards.here import what_is_here
from tfquiver.service.coordinator.resident_shards.residency import Residency
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_hashes

HASHES = [n.to_bytes(1, "little") * 32 for n in range(12)]
hashes = st.lists(st.sampled_from(HASHES), max_size=8)


@given(hashes, st.lists(hashes, max_size=6), st.sampled_from([1, 3, 500_000]))
@settings(deadline=None)
def test_it_is_what_a_table_would_say(shards: list[bytes], held: list[list[bytes]], at_once: int) -> None:
    """A hash may be that of several shards, and several nodes may hold one."""
    digest, residency = digest_of(shards), Residency()
    for number, values in enumerate(held):
        residency.added(f"n{number}", of_hashes(values))
    table = Table(digest)
    table.enter(residency.opening())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(here, "_LOOKED_UP_AT_ONCE", at_once)
        found = what_is_here(digest, list(residency.held().values()))
    assert (found.size_bytes, found.shards) == (table.resident_bytes, table.resident_shards)
    assert found.kept_bytes == sum(100 * len(set(values) & set(shards)) for values in held), "each copy for itself"


@pytest.mark.parametrize("shards", [1, 5])
def test_few_shards_are_looked_for_at_each_node_and_many_hashes_in_the_data_set(shards: int) -> None:
    """Both ways it is the same."""
    digest = digest_of(HASHES[:shards])
    held = [of_hashes(HASHES[4:]), np.sort(of_hashes(HASHES[:2])), of_hashes(HASHES[:1])]
    found = what_is_here(digest, held)
    assert (found.size_bytes, found.shards) == {1: (100, 1), 5: (300, 3)}[shards]
    assert found.kept_bytes == found.size_bytes + 100


def test_nobody_asks_numpy_for_each_number_once() -> None:
    """It takes 35 times as long as sorting them (numpy 2.4), and of millions the loop waits for seconds: `distinct`,
    of sorted_numbers.py, does not. Where more is asked for, numpy sorts."""
    root, found = Path(tfquiver.__file__).parent, []
    for path in (*root.rglob("*.py"), *(root / "service").resolve().rglob("*.py")):
        text = path.read_text()
        for call in ast.walk(ast.parse(text)) if "unique" in text else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "np.unique" and not call.keywords:
                found.append(f"{path}:{call.lineno}")
    assert not found
