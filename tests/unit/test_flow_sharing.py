"""The store's bandwidth is shared max-min fair, and what was promised is kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import alone_from_store, share, water_fill

AMOUNT = st.floats(0, 1e9, allow_subnormal=False)
FLOWS = st.lists(st.tuples(AMOUNT, AMOUNT, st.integers(1, 8)), min_size=1, max_size=12)


@given(FLOWS, AMOUNT)
def test_nobody_can_have_more_without_another_having_less(flows: list[tuple[float, float, int]], limit: float) -> None:
    demands = np.array([demand for demand, _, _ in flows])
    weights = np.array([float(weight) for _, _, weight in flows])
    got = water_fill(demands, limit, weights)
    assert (got <= demands * (1 + 1e-9)).all()
    assert got.sum() == pytest.approx(min(limit, demands.sum()), rel=1e-9, abs=1e-3)
    wanting = got < demands * (1 - 1e-9) - 1e-6
    if wanting.any():
        # Who wants more has as much, by weight, as anybody.
        assert (got / weights)[wanting].min() >= (got / weights).max() * (1 - 1e-9) - 1e-6


@given(FLOWS, AMOUNT)
def test_of_equal_weights_none_need_be_given(flows: list[tuple[float, float, int]], limit: float) -> None:
    demands = np.array([demand for demand, _, _ in flows])
    assert water_fill(demands, limit, None).tobytes() == water_fill(demands, limit, np.ones(len(flows))).tobytes()


def test_who_wants_a_rounding_error_more_than_there_is_gets_nearly_all() -> None:
    """Added up in another order they want just the limit, and all was once shared as if all wanted the same."""
    for seed in range(200):
        demands = 10 ** np.random.default_rng(seed).uniform(-3, 3, 9)
        limit = float(np.nextafter(demands.sum(), 0))
        assert water_fill(demands, limit, np.ones(9)).sum() == pytest.approx(limit, rel=1e-9)


@given(FLOWS, AMOUNT)
def test_promises_are_kept_and_what_is_left_is_lent(flows: list[tuple[float, float, int]], limit: float) -> None:
    demands, promised = np.array([d for d, _, _ in flows]), np.array([p for _, p, _ in flows])
    got = share(demands, promised, limit, np.ones(len(flows)))
    assert (got <= demands * (1 + 1e-9)).all()
    assert got.sum() == pytest.approx(min(limit, demands.sum()), rel=1e-9, abs=1e-3)
    kept = np.minimum(demands, promised)
    if kept.sum() <= limit:
        assert (got >= kept * (1 - 1e-9)).all()
    for weights in (None, np.ones(len(flows))):
        nothing = share(demands, np.zeros(len(flows)), limit, weights)
        assert share(demands, None, limit, weights).tolist() == nothing.tolist()


@given(FLOWS, st.floats(1, 1e9))
def test_probing_finds_what_a_job_gets_when_all_it_reads_comes_from_the_store(
    flows: list[tuple[float, float, int]], limit: float
) -> None:
    ideals = np.array([max(d, p) for d, p, _ in flows])
    demands = np.array([min(d, p) for d, p, _ in flows])
    weights = np.ones(len(flows))
    alone = alone_from_store(ideals, demands, limit, weights)
    for at in range(len(flows)):
        others = demands.copy()
        others[at] = ideals[at]
        assert alone[at] == pytest.approx(water_fill(others, limit, weights)[at], rel=1e-6, abs=1e-3)
