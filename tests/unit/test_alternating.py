"""The store among a few flows that read what is resident first, and then the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.sim.job_queue_rates_store_bandwidth.alternating import MOST, share_in_turns
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import share


def in_turns(speeds: list[float], missed: list[float], limit: float, weights: list[float]) -> list[float]:
    nothing = np.zeros(len(speeds))
    made = share_in_turns(np.array(speeds), np.array(missed), nothing, limit, np.array(weights))
    return [float(one) for one in made]


FLOWS = st.lists(
    st.tuples(st.floats(1.0, 1e9), st.one_of(st.just(0.0), st.just(1.0), st.floats(0.001, 0.999)), st.floats(0.1, 1e9)),
    min_size=1,
    max_size=12,
)


@given(FLOWS, st.floats(1.0, 1e10))
def test_nobody_is_given_more_than_it_wants_and_all_together_no_more_than_there_is(
    flows: list[tuple[float, float, float]], limit: float
) -> None:
    speeds, missed, weights = map(list, zip(*flows, strict=True))
    made = in_turns(speeds, missed, limit, weights)
    assert all(0 <= one <= speed * part * (1 + 1e-9) for one, speed, part in zip(made, speeds, missed, strict=True))
    assert sum(made) <= limit * (1 + 1e-6)


@given(FLOWS, st.floats(1.0, 1e10))
def test_flows_that_always_or_never_want_it_share_as_ever(
    flows: list[tuple[float, float, float]], limit: float
) -> None:
    speeds, missed, weights = (np.array(one) for one in zip(*flows, strict=True))
    wanted = np.round(missed)
    made = share_in_turns(speeds, wanted, np.zeros(len(speeds)), limit, weights)
    assert made == pytest.approx(share(speeds * wanted, np.zeros(len(speeds)), limit, weights))


def test_one_alone_reads_what_it_finds_at_its_speed_and_the_rest_at_the_stores() -> None:
    """Half of it in half a second, the other half in two: 1 byte in 2.5 s, of which half from the store."""
    assert in_turns([1.0], [0.5], 0.25, [1.0]) == pytest.approx([0.2])


def test_who_always_wants_it_has_all_of_it_while_another_finds_what_it_reads() -> None:
    """`b` misses for x of its time, at half of the store's rate: 0.5 / (0.5 + 0.5 / 2) of it; then `a` has half."""
    a, b = in_turns([1.0, 1.0], [1.0, 0.5], 1.0, [1.0, 1.0])
    assert (a, b) == pytest.approx((1 - 2 / 3 / 2, 2 / 3 / 2))


def test_by_weight_while_both_want_it() -> None:
    assert in_turns([9.0, 9.0], [1.0, 1.0], 3.0, [2.0, 1.0]) == pytest.approx([2.0, 1.0])


def test_of_many_all_want_what_they_want_on_average() -> None:
    count = MOST + 1
    made = in_turns([1.0] * count, [0.5] * count, count / 4, [1.0] * count)
    assert made == pytest.approx([0.25] * count)
