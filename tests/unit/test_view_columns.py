"""Columns and rows say the same, and what is planned by columns is what rows would be planned."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.policy_world import GB, POLICIES, one_job_each, views
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.columns import (
    AllocationColumns,
    RateColumns,
    Rows,
    columns_of,
)
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView
from tfquiver.service.coordinator.speed_model_and_weighted_shares.closed_form import hit_ratio
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import (
    effective,
    hit_ratio_column,
    reading_rate_column,
    reading_rates,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.filling import fill, fill_column


@given(views())
def test_columns_say_what_the_rows_say(view: ClusterView) -> None:
    columns = columns_of(view)
    assert columns.datasets == [one.name for one in view.datasets]
    assert columns.size_bytes.tolist() == [one.size_bytes for one in view.datasets]
    assert columns.pinned.tolist() == [one.pin is not None for one in view.datasets]
    assert [columns.datasets[place] for place in columns.dataset_of] == [job.dataset for job in view.jobs]
    for known, job in zip(columns.ideal_bytes_per_s.tolist(), view.jobs, strict=True):
        assert isnan(known) if job.ideal_bytes_per_s is None else known == job.ideal_bytes_per_s
    assert dict(zip(columns.jobs, reading_rate_column(columns), strict=True)) == pytest.approx(reading_rates(view))


@given(views(), st.sampled_from(POLICIES))
def test_a_policy_says_the_same_whoever_made_the_columns(view: ClusterView, policy: str) -> None:
    rows = Rows(len(view.datasets), lambda: view.datasets), Rows(len(view.jobs), lambda: view.jobs)
    columns = replace(columns_of(view), rows=rows)
    shown = replace(view, datasets=rows[0], jobs=rows[1], columns=columns)
    made = registry.make(policy)
    ours, theirs = made.plan(shown, 0.0), made.plan(view, 0.0)
    assert ours.allocations == theirs.allocations
    assert ours.remote_bytes_per_s == theirs.remote_bytes_per_s
    assert dict(ours.reasons) == dict(theirs.reasons)


def test_columns_of_other_rows_do_not_count() -> None:
    view = one_job_each([100, 200], [1e6, 2e6], 150, 1e6)
    view = replace(view, columns=columns_of(view))
    assert columns_of(view) is view.columns
    fewer = replace(view, datasets=view.datasets[:1], jobs=view.jobs[:1])
    assert columns_of(fewer).datasets == ["d0"]


@given(views(), st.booleans())
def test_what_is_found_is_what_the_closed_form_says(view: ClusterView, resident_only: bool) -> None:
    plan = registry.make("static").plan(view, 0.0)
    said = effective(view, plan.allocations) if resident_only else plan.allocations
    found = hit_ratio_column(columns_of(view), plan.allocations, resident_only)
    for one, ratio in zip(view.datasets, found.tolist(), strict=True):
        assert ratio == hit_ratio(said.get(one.name, Allocation()), one.size_bytes)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.5, 100)), min_size=1, max_size=12),
    st.floats(0, 1e7),
)
def test_filled_by_column_as_by_name(each: list[tuple[float, float]], total: float) -> None:
    caps = {str(at): cap for at, (cap, _) in enumerate(each)}
    weights = {str(at): weight for at, (_, weight) in enumerate(each)}
    by_column = fill_column(total, np.array([*caps.values()]), np.array([*weights.values()]))
    assert dict(zip(caps, by_column.tolist(), strict=True)) == pytest.approx(fill(total, caps, weights), abs=1e-6)


def test_what_a_plan_says_by_column_is_a_mapping() -> None:
    names, places = ["a", "b", "c"], np.array([2, 0])
    allocations = AllocationColumns(names, places, "lru", np.array([5, 7]))
    assert allocations == {"c": Allocation("lru", 5), "a": Allocation("lru", 7)}
    assert "b" not in allocations and len(allocations) == 2
    assert allocations | {} is allocations
    assert allocations | {"b": Allocation("uniform", GB)} == {**allocations, "b": Allocation("uniform", GB)}
    assert RateColumns(names, places, np.array([0.5, 1.5])).get("a") == 1.5
