"""What may be taken back for another one: the way that is found, and the bound that spares most looks for one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.coordinator.policies import choice

row = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30)), min_size=1, max_size=2)


def taken(rows: list[list[tuple[int, int]]]) -> choice._Downs:
    """Steps back of data sets that have the best of their options each."""
    options = [
        [
            choice.Option(str(at), cost, float(gain))
            for at, (cost, gain) in enumerate(zip(np.cumsum([0, *costs]), np.cumsum([0, *gains]), strict=True))
        ]
        for costs, gains in (zip(*one, strict=True) for one in rows)
    ]
    table = choice.tabled(options)
    return choice._downs(table, np.array([len(one) - 1 for one in options]))


@given(st.lists(row, min_size=1, max_size=8), st.integers(1, 120), st.integers(0, 8))
def test_the_one_that_loses_least_is_found_as_by_looking_at_all(
    rows: list[list[tuple[int, int]]], short_bytes: int, but: int
) -> None:
    downs = taken(rows)
    enough = [at for at, one in enumerate(downs.steps) if one.cost_bytes >= short_bytes and one.dataset != but]
    best = min(enough, key=lambda at: (downs.steps[at].gain, at), default=None)
    assert downs.alone(short_bytes, but) == best


@given(st.lists(row, min_size=1, max_size=8), st.integers(1, 120), st.integers(0, 8))
def test_no_way_loses_less_than_the_bound(rows: list[list[tuple[int, int]]], short_bytes: int, but: int) -> None:
    downs = taken(rows)
    least = float(downs.at_least(np.array([short_bytes]))[0])
    alone = downs.alone(short_bytes, but)
    ways = [[downs.steps[alone]]] if alone is not None else []
    ways.append(choice._several(downs.steps, but, short_bytes))
    assert all(choice._lost(way) >= least for way in ways if way)
