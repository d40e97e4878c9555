"""Why somebody has what he has, and what more would bring: told from the plan in force, and from what-ifs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.quiver_figure6 import figure_6
from tests.unit.policy_world import GB, POLICIES, one_job_each, views
from tfquiver import errors
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import explain
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, JobView, Plan

VIEW = one_job_each([100, 100], [1e8, 8e7], 100, 4e7)


def planned(name: str, view: ClusterView) -> Planner:
    planner = Planner(name)
    planner.replan(view, 0.0)
    return planner


def test_a_job_is_told_what_it_gets_and_what_more_would_bring_it() -> None:
    told = explain(planned("silod_greedy", VIEW), VIEW, "j1", 1.0)
    assert (told.kind, told.name, told.policy, told.refused) == ("job", "j1", "silod_greedy", "")
    assert told.gets.allocation == Allocation()
    assert told.gets.reads_bytes_per_s == pytest.approx(4e7, rel=0.02)
    assert told.gets.remote_bytes_per_s == pytest.approx(4e7, rel=0.02)
    more = {(one.cache, one.remote): one.share.reads_bytes_per_s for one in told.with_more}
    assert more[1.5, 1.0] == pytest.approx(8e7, rel=0.01)
    assert more[2.0, 1.0] == pytest.approx(8e7, rel=0.01)
    assert more[1.0, 1.5] == pytest.approx(6e7, rel=0.02)
    assert more[1.0, 2.0] == pytest.approx(8e7, rel=0.01)
    assert told.reasons["d1"].startswith("silod_greedy: rank 2 of 2, a GB spares 800 kB/s")


def test_a_data_set_is_told_for_all_its_jobs_with_what_was_refused() -> None:
    view = figure_6(203)
    told = explain(planned("quiver", view), view, "OpenImages", 1.0)
    assert (told.kind, told.gets.allocation) == ("dataset", Allocation("cooperative", 30 * GB))
    assert "refused: whole: takes 501 GB more, 1.0 GB were left" in told.reasons["OpenImages"]
    assert [one["name"] for one in told.history] == ["OpenImages"]
    assert {(one.cache, one.remote) for one in told.with_more} == {(1.5, 1.0), (2.0, 1.0)}, "nobody limits the store"


def test_what_is_measured_now_is_of_who_reads_now() -> None:
    """Of a data set all that read it together, each with what it was handed; who has just left is no part of it."""
    two = tuple(
        JobView(name, "d0", 1e8, reads_bytes_per_s=reads, hit_ratio=hits)
        for name, reads, hits in (("a", 3e7, 0.9), ("b", 1e7, 0.1), ("c", 5e6, None), ("d", None, None))
    )
    view = replace(one_job_each([100], [1e8], 100, None), jobs=two)
    planner = planned("benefit", view)
    now = explain(planner, view, "d0", 1.0).now
    assert now and (now.reads_bytes_per_s, now.remote_bytes_per_s) == pytest.approx((4.5e7, 1.2e7))
    assert now.hit_ratio == pytest.approx(1 - 1.2e7 / 4e7), "of what those read of whom it is known"
    without = explain(planner, view, "d0", 1.0, {"a"}).now
    assert without and (without.reads_bytes_per_s, without.hit_ratio) == pytest.approx((1.5e7, 0.1))
    assert explain(planner, view, "d0", 1.0, {"a", "b", "c"}).now is None
    (unknown, silent) = (explain(planner, view, name, 1.0).now for name in "cd")
    assert unknown and unknown.hit_ratio is None and silent is None


def test_what_is_expected_is_told_as_what_is_measured() -> None:
    """Hits and what comes from the store make a whole, as in the row of now: what another job of a cooperative data set
    has fetched is found in the cache, though its room is a third; who has left is no part of either row."""
    three = tuple(JobView(name, "d0", 1e8, reads_bytes_per_s=3e7, hit_ratio=0.7) for name in "abc")
    view = replace(one_job_each([100], [1e8], 36, None), jobs=three)
    planner = planned("benefit", view)
    told = explain(planner, view, "d0", 1.0)
    assert told.now and told.gets.allocation.mode == "cooperative"
    for row in (told.now, told.gets, *(more.share for more in told.with_more)):
        assert row.hit_ratio == pytest.approx(1 - row.remote_bytes_per_s / row.reads_bytes_per_s)
    assert told.gets.hit_ratio == pytest.approx(1 - (1 - 0.36) / 3, abs=0.01)
    alone = explain(planner, view, "d0", 1.0, {"a", "b"}).gets
    assert alone.reads_bytes_per_s == pytest.approx(told.gets.reads_bytes_per_s / 3)


def test_a_guess_is_for_plans_and_no_promise() -> None:
    """A job that only waits is tried with ten times what it reads; nobody is told that a cache would give it that."""
    waits = JobView("j0", "d0", ideal_bytes_per_s=1e8, reads_bytes_per_s=1e7, hit_ratio=0.0, ideal_guessed=True)
    view = replace(VIEW, jobs=(waits, *VIEW.jobs[1:]), remote_bytes_per_s=None)
    planner = planned("benefit", view)
    for name in ("j0", "d0"):
        told = explain(planner, view, name, 1.0)
        for share in (told.gets, *(more.share for more in told.with_more)):
            assert (share.reads_bytes_per_s, share.known) == (1e7, False)
        assert "not known yet" in told.reasons["d0"] and "MB/s" not in told.reasons["d0"]
        assert "1 of 1 has only been seen to wait: plans guess" in told.reasons["d0"]
    assert explain(planner, view, "j1", 1.0).gets.known
    assert planner.plan.allocations["d0"].cache_bytes == VIEW.cache_bytes, "and it is planned with"


@pytest.mark.parametrize("probed", [False, True])
def test_what_waits_for_the_store_is_not_told_to_read_as_if_it_did_not(probed: bool) -> None:
    """Of a store without a known limit too: with half of its data there it waits half as long, and never reads more
    than was measured of it."""
    slow = JobView("j0", "d0", 1e8, reads_bytes_per_s=1e7, hit_ratio=0.0)
    if probed:
        slow = replace(slow, reads_bytes_per_s=5e7, hit_ratio=0.9, hit_bytes_per_s=1e8, miss_bytes_per_s=1e7)
    view = replace(one_job_each([100], [1e8], 50, None), jobs=(slow,))
    told = explain(planned("benefit", view), view, "j0", 1.0)
    assert told.gets.hit_ratio == pytest.approx(0.5)
    assert told.gets.reads_bytes_per_s == pytest.approx(1 / (0.5 / 1e8 + 0.5 / 1e7))
    assert [more.share.reads_bytes_per_s for more in told.with_more] == pytest.approx([1 / (0.75e-8 + 0.25e-7), 1e8])


def test_it_is_json_and_changes_nothing() -> None:
    planner = planned("benefit", VIEW)
    before = (planner.plan, list(planner.history))
    assert (
        json.loads(json.dumps(explain(planner, VIEW, "d0", 1.0).as_json()))["gets"]["allocation"]["mode"] == "uniform"
    )
    assert (planner.plan, list(planner.history)) == before


class Fails:
    def plan(self, view: ClusterView, now: float) -> Plan:
        raise RuntimeError("no")


class WantsTooMuch:
    def plan(self, view: ClusterView, now: float) -> Plan:
        return Plan({one.name: Allocation("uniform", 10**15) for one in view.datasets})


def test_what_is_more_than_there_is_is_promised_to_nobody() -> None:
    planner = planned("benefit", VIEW)
    planner.policy = WantsTooMuch()
    planner.replan(VIEW, 1.0)
    assert "cache_bytes: 1.0 PB for a data set of" in (told := explain(planner, VIEW, "j0", 2.0)).refused
    assert told.with_more == ()


def test_a_refused_policy_is_told_of() -> None:
    planner = planned("benefit", VIEW)
    planner.policy = Fails()
    planner.replan(VIEW, 1.0)
    told = explain(planner, VIEW, "j0", 2.0)
    assert told.refused == "policy benefit failed: RuntimeError: no"
    assert told.with_more == ()
    assert told.gets.allocation == Allocation("uniform", 100 * GB)
    assert told.history[-1]["refused"] == told.refused


def test_who_is_not_there() -> None:
    with pytest.raises(errors.NotFoundError, match="name: there is no data set and no job 'x'"):
        explain(Planner(), VIEW, "x", 0.0)


@settings(max_examples=30)
@given(st.sampled_from(POLICIES), views())
def test_anybody_is_told_something_possible(name: str, view: ClusterView) -> None:
    planner = planned(name, view)
    for one in (*view.datasets, *view.jobs):
        told = explain(planner, view, one.name, 0.0)
        for share in (told.gets, *(more.share for more in told.with_more)):
            assert 0 <= share.hit_ratio <= 1
            assert 0 <= share.remote_bytes_per_s <= share.reads_bytes_per_s * (1 + 1e-9)


def test_more_of_both_is_never_less_for_all_together() -> None:
    for name in ("silod_greedy", "max_min_fair", "benefit"):
        planner = planned(name, VIEW)
        for one in VIEW.datasets:
            told = explain(planner, VIEW, one.name, 0.0)
            assert all(more.share.reads_bytes_per_s >= 0.95 * told.gets.reads_bytes_per_s for more in told.with_more)
