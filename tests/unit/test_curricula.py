from __future__ import annotations

from math import exp, inf

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfquiver.service.sim.cache_contents.curricula import Curricula
from tfquiver.service.sim.workloads_and_recordings.workload import Pacing

SIZE = 1000.0


def curricula(*pacings: Pacing | None) -> Curricula:
    return Curricula(pacings, np.full(len(pacings), SIZE))


def sampled(pacing: Pacing, back: float, done: float) -> float:
    one = curricula(None, pacing)  # which is the second of all jobs, and the first of those with a curriculum
    return float(one.sampled(np.array([1]), np.array([back]), np.array([done]))[0])


def test_from_one_part_it_is_what_chance_leaves_of_it() -> None:
    assert sampled(Pacing(0.25, 1.0, 100.0), 50.0, 550.0) == pytest.approx(0.25 * (1 - exp(-2)))


@example(0.062056960310405675, 2.7151087070286635, 1595.2822118424253, 1981.9, 5784.4, 0)  # 3 steps // a step are 2
@given(
    st.floats(0.05, 1.0), st.floats(1.0, 3.0), st.floats(100.0, 3000.0), st.floats(0.0, 6000.0),
    st.floats(0.0, 6000.0), st.integers(0, 2**31),
)  # fmt: skip
def test_it_is_what_a_job_draws_that_draws(
    starting: float, growth: float, step: float, one: float, other: float, seed: int
) -> None:
    pacing, (back, done) = Pacing(starting, growth, step), sorted((one, other))
    records = 4000  # of a quarter of a byte
    at = np.arange(back, done, SIZE / records)
    parts = np.array([pacing.part(pacing.step(byte)) for byte in at])
    drawn = (np.random.default_rng(seed).random(len(at)) * parts * records).astype(int)
    assert sampled(pacing, back, done) == pytest.approx(len(set(drawn.tolist())) / records, abs=0.05)


@given(st.floats(0.05, 1.0), st.floats(1.0, 3.0), st.lists(st.floats(0.0, 6000.0), min_size=3, max_size=3))
def test_what_is_read_is_more_and_no_more_than_was_read(starting: float, growth: float, moments: list[float]) -> None:
    """Also where the part grows: nothing is resident that nobody has read."""
    pacing, (back, then, done) = Pacing(starting, growth, 250.0), sorted(moments)
    before, after = sampled(pacing, back, then), sampled(pacing, back, done)
    assert before - 1e-9 <= after <= before + (done - then) / SIZE + 1e-9


def test_the_next_step_is_where_the_part_grows() -> None:
    some = curricula(Pacing(0.25, 2.0, 100.0), None, Pacing(0.5, 1.0, 100.0))
    for done, left in ((0.0, 100.0), (99.0, 1.0), (100.0 - 1e-8, 100.0 + 1e-8), (150.0, 50.0), (200.0, inf)):
        assert some.to_step(np.array([0]), np.array([done]))[0] == pytest.approx(left)
    assert some.to_step(np.array([2]), np.array([7.0]))[0] == inf


def test_steps_may_be_absurdly_small() -> None:
    pacing = Pacing(0.25, 1.001, 5e-324)
    assert (pacing.step(0.0), pacing.step(1e12)) == (0, 100)
    assert sampled(pacing, 0.0, 500.0) == pytest.approx(pacing.part(100) * (1 - exp(-0.5 / pacing.part(100))))
