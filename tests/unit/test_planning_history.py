"""The last decisions are kept, and come back from their records as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.history import History
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation

values = st.one_of(
    st.none(),
    st.floats(0, 1e12),
    st.text(max_size=5),
    st.builds(Allocation, st.sampled_from(["none", "uniform", "lru", "cooperative"]), st.integers(0, 1 << 60)),
)
decisions = st.builds(
    Decision,
    st.floats(0, 1e10),
    st.sampled_from(["dataset", "job", "plan", "policy"]),
    st.text(max_size=5),
    values,
    values,
    st.text(max_size=5),
    st.text(max_size=5),
    st.text(max_size=5),
    st.none() | st.integers(0, (1 << 63) - 1),
)


@given(decisions)
def test_a_decision_comes_back_from_json(decision: Decision) -> None:
    assert Decision.from_record(json.loads(json.dumps(decision.to_record()))) == decision


def test_what_a_later_version_adds_is_passed_over_and_what_an_older_lacks_is_empty() -> None:
    record = {"at_s": 1, "kind": "job", "name": "j", "colour": 3}
    assert Decision.from_record(record) == Decision(1.0, "job", "j", None, None)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("at_s", {"at_s": "now"}),
        ("at_s", {"at_s": True}),
        ("at_s", {"at_s": float("nan")}),
        ("at_s", {"at_s": 1e300}),
        ("was", {"was": float("nan")}),
        ("becomes", {"becomes": float("inf")}),
        ("kind", {"kind": "cat"}),
        ("kind", {"kind": None}),
        ("name", {"name": 1}),
        ("rule", {"rule": []}),
        ("was", {"was": {"mode": "best", "cache_bytes": 1}}),
        ("becomes", {"becomes": {"mode": "lru", "cache_bytes": "1"}}),
        ("becomes", {"becomes": True}),
        ("evicted_bytes", {"evicted_bytes": -1}),
        ("evicted_bytes", {"evicted_bytes": True}),
    ],
)
def test_a_damaged_record_is_told_by_its_field(field: str, wrong: dict[str, Any]) -> None:
    record = Decision(1.0, "job", "j", None, 2.0).to_record()
    with pytest.raises(errors.DataLossError, match=f"^decision.{field}: "):
        Decision.from_record(record | wrong)


def _told_bytes(history: History) -> int:
    return sum(len(json.dumps(one.to_record())) for one in history)


@pytest.mark.parametrize("letter", ["a", "ß", "\0", "\U0001f600"])
def test_reasons_as_long_as_they_may_be_take_no_more_than_their_room(letter: str) -> None:
    """Of all that are kept they made a quarter of a gigabyte of each snapshot of the log."""
    history, long = History(100, 400_000), letter * 10_000
    for at in range(300):
        history.extend([Decision(float(at), "job", f"j{at}", None, 1.0, long, "rule", evicted_bytes=at % 2)])
        assert _told_bytes(history) < 400_000 + 100 * 200
    kept = list(history)
    assert [one.at_s for one in kept] == list(range(200, 300)), "as many as ever"
    assert kept[0].measurement == f"{letter * 100}..." and kept[-1].rule == "rule"
    history.extend([Decision(300.0, "job", "last", None, 1.0, letter * 3000)])
    assert [*history][-1].measurement == letter * 3000, "the newest are whole"
    kept = list(history)
    history.rename({"last": "renamed"})
    again = History(100, 400_000)
    again.extend(Decision.from_record(one.to_record()) for one in history)
    assert len(again) == 100 and _told_bytes(again) < 420_000


def test_names_as_long_as_they_may_be_take_no_more_than_that_room_either() -> None:
    history = History(100, 10_000)
    history.extend(Decision(float(at), "job", "ß" * 256, None, 1.0) for at in range(100))
    assert 1 < len(history) < 10 and [*history][-1].at_s == 99.0


def test_only_the_last_are_kept() -> None:
    history = History(3)
    history.extend(Decision(float(at), "job", f"j{at % 2}", None, None) for at in range(5))
    assert [one.at_s for one in history] == [2.0, 3.0, 4.0]
    history.extend([Decision(5.0, "plan", "benefit", None, None, refused="no")])
    assert [one.at_s for one in history.of("d", "j0")] == [4.0, 5.0], "what concerns all is told to each"


def test_what_was_evicted_is_kept_though_rates_follow_jobs_by_the_thousand() -> None:
    history = History(100)
    history.extend(Decision(float(at), "dataset", "d", None, None, evicted_bytes=1) for at in range(3))
    history.extend(Decision(3.0 + at, "job", f"j{at}", None, None) for at in range(1000))
    assert [one.at_s for one in history] == [0.0, 1.0, 2.0, *(float(at) for at in range(906, 1003))]
    history.rename({"d": "e", "j999": "k"})
    assert len(history.of("e", "k")) == 4
    history.extend(Decision(2000.0 + at, "dataset", "d", None, None, evicted_bytes=1) for at in range(1000))
    assert [one.at_s for one in history] == [2900.0 + at for at in range(100)], "it is bounded, whatever comes"
