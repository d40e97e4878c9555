"""Quiver's three options: the paper's decisions, and the greedy choice against the best one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.quiver_figure6 import PAPER, decisions, figure_6
from tests.unit.policy_world import GB
from tfquiver.service.coordinator.policies.choice import Option, _choose, _downs, choose, choose_named, tabled
from tfquiver.service.coordinator.policies.quiver import QuiverPolicy
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    DatasetView,
    JobView,
)


@pytest.mark.parametrize("cache_gb", PAPER)
def test_the_papers_decisions(cache_gb: int) -> None:
    assert decisions(figure_6(cache_gb)) == PAPER[cache_gb]


def test_a_reason_tells_what_was_measured_and_what_was_refused() -> None:
    reasons = QuiverPolicy().plan(figure_6(203), 0.0).reasons
    assert reasons["ImageNet"] == (
        "quiver: whole: 3.88 times as fast from the cache as from the store, on 16 accelerators (4 of 4 jobs probed), "
        "worth 46.1 accelerators more, for 154 GB"
    )
    assert reasons["OpenImages"].endswith("; refused: whole: takes 501 GB more, 1.0 GB were left")


def test_a_data_set_whose_jobs_gain_nothing_is_not_cached_though_there_is_room() -> None:
    jobs = (JobView("slow", "d", hit_bytes_per_s=1e8, miss_bytes_per_s=1e8),)
    view = ClusterView(1000 * GB, None, (DatasetView("d", 100 * GB, 20 * GB),), jobs)
    assert not QuiverPolicy().plan(view, 0.0).allocations


def test_one_job_alone_gains_nothing_of_two_chunks() -> None:
    """Section 5.4: "If the dataset does not fit in cache, the DLT job does not benefit"."""
    jobs = (JobView("one", "d", hit_bytes_per_s=3e8, miss_bytes_per_s=1e8),)
    view = ClusterView(99 * GB, None, (DatasetView("d", 100 * GB, 20 * GB),), jobs)
    assert not QuiverPolicy().plan(view, 0.0).allocations
    two = replace(view, jobs=(*jobs, replace(jobs[0], name="two")))
    assert QuiverPolicy().plan(two, 0.0).allocations["d"].mode == "cooperative"
    whole = QuiverPolicy().plan(replace(view, cache_bytes=100 * GB), 0.0).allocations["d"]
    assert (whole.mode, whole.cache_bytes) == ("uniform", 100 * GB)


def test_a_guest_makes_nothing_worth_more() -> None:
    jobs = (JobView("one", "d0", hit_bytes_per_s=2e8, miss_bytes_per_s=1e8), JobView("two", "d1"))
    sets = tuple(DatasetView(f"d{at}", 100 * GB, 20 * GB) for at in range(2))
    view = ClusterView(100 * GB, None, sets, jobs)
    guest = JobView("guest", "d0", hit_bytes_per_s=9e8, miss_bytes_per_s=1e8, accelerators=8, irregular=True)
    with_guest, policy = replace(view, jobs=(*jobs, guest)), QuiverPolicy()
    for kept in ({"d0": Allocation("uniform", 100 * GB)}, {"d1": Allocation("uniform", 100 * GB)}):
        assert policy.worth(with_guest, kept) == policy.worth(view, kept) > 0


@st.composite
def options(draw: st.DrawFn) -> list[Option]:
    made = [Option("none", 0, 0.0)]
    for name in draw(st.sampled_from([("whole",), ("cooperative", "whole")])):
        more, gain = draw(st.integers(1, 60)), draw(st.floats(0, 100))
        made.append(Option(name, made[-1].cost_bytes + more, made[-1].gain + gain))
    return made


@given(st.lists(options(), max_size=4), st.integers(0, 200))
def test_the_choice_fits_and_is_within_half_of_the_best(given_options: list[list[Option]], budget: int) -> None:
    named = {str(at): there for at, there in enumerate(given_options)}
    chosen, _ = choose_named(named, budget)
    taken = [named[name][at] for name, at in chosen.items()]
    assert sum(option.cost_bytes for option in taken) <= budget
    best = max(
        sum(option.gain for option in combination)
        for combination in product(*named.values())
        if sum(option.cost_bytes for option in combination) <= budget
    )
    assert sum(option.gain for option in taken) >= 0.5 * best - 1e-9


def test_many_small_ones_that_make_more_of_each_byte_come_before_the_largest_gain() -> None:
    large = {"large": [Option("none", 0, 0.0), Option("whole", 100, 100.0)]}
    small = {f"small{at}": [Option("none", 0, 0.0), Option("whole", 10, 20.0)] for at in range(10)}
    assert choose_named(large | small, 100)[0] == {"large": 0, **dict.fromkeys(small, 1)}


def test_several_small_ones_make_way_for_one_that_gains_more() -> None:
    small = {f"small{at}": [Option("none", 0, 0.0), Option("whole", 1, gain)] for at, gain in enumerate((1.0, 0.25))}
    chosen, refused = choose_named(small | {"large": [Option("none", 0, 0.0), Option("whole", 3, 3.0)]}, 3)
    assert chosen == {"small0": 0, "small1": 0, "large": 1}
    assert refused == dict.fromkeys(small, "whole: large makes more of that room")


def test_who_takes_the_lesser_of_two_is_told_what_the_better_one_lacked() -> None:
    first = [Option("none", 0, 0.0), Option("cooperative", 1, 0.0), Option("whole", 2, 2.0)]
    second = [Option("none", 0, 0.0), Option("cooperative", 1, 1e-267), Option("whole", 2, 1.0)]
    third = [Option("none", 0, 0.0), Option("cooperative", 1, 0.0), Option("whole", 4, 2.0)]
    chosen, refused = choose_named({"first": first, "second": second, "third": third}, 7)
    assert chosen == {"first": 2, "second": 1, "third": 2}
    assert refused == {"second": "whole: takes 1 B more, 0 B were left"}


@given(st.lists(options(), max_size=4), st.integers(0, 200))
def test_nothing_that_fits_is_left_out(given_options: list[list[Option]], budget: int) -> None:
    named = {str(at): there for at, there in enumerate(given_options)}
    chosen, refused = choose_named(named, budget)
    left_bytes = budget - sum(named[name][at].cost_bytes for name, at in chosen.items())
    for name, at in chosen.items():
        for option in named[name][at + 1 :]:
            if option.gain > named[name][at].gain:
                assert option.cost_bytes - named[name][at].cost_bytes > left_bytes
                assert name in refused


@given(st.lists(options(), max_size=12), st.integers(0, 400))
def test_who_is_told_why_hears_of_the_choice_that_was_made(given_options: list[list[Option]], budget: int) -> None:
    """Reasons are found by choosing again, more slowly."""
    columns = tabled(given_options)
    made, told = choose(columns, budget), _choose(columns, budget, {})
    assert (made.chosen.tolist(), made.left_bytes) == (told.chosen.tolist(), told.left_bytes)
    assert made.refused == told.refused


@given(st.lists(options(), min_size=1, max_size=4), st.data())
def test_nothing_is_freed_for_less_than_at_least(given_options: list[list[Option]], data: st.DataObject) -> None:
    """Exchanges that are passed over for that would not have been made."""
    chosen = [data.draw(st.integers(0, len(row) - 1)) for row in given_options]
    ways = []
    for levels in product(*(range(at + 1) for at in chosen)):
        steps = [(row[high], row[low]) for row, high, low in zip(given_options, chosen, levels, strict=True)]
        freed = sum(high.cost_bytes - low.cost_bytes for high, low in steps)
        ways.append((freed, sum(high.gain - low.gain for high, low in steps)))
    short = data.draw(st.integers(1, 300))
    least = min((lost for freed, lost in ways if freed >= short), default=inf)
    assert least >= _downs(tabled(given_options), np.array(chosen)).at_least(np.array([short]))[0]
