"""What kube-scheduler sends and is answered, for anything that may come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.extender import scheduler_json
from tfquiver.service.extender.scheduler_json import filtered, prioritized, question

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
SCORES = {"a": 1.0, "b": 0.26}
NAMES = ["a", "b", "c"]


def pod(**annotations: str) -> dict[str, Any]:
    env = [{"name": "OTHER"}, {"name": "TFQUIVER_DATASET", "value": "team.train"}]
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "m"}, {"env": env}]}}


def by_names(**annotations: str) -> dict[str, Any]:
    return {"Pod": pod(**annotations), "Nodes": None, "NodeNames": NAMES}


def by_nodes(**annotations: str) -> dict[str, Any]:
    items = [{"metadata": {"name": name, "labels": {"rack": "r1"}}, "spec": {"podCIDR": name}} for name in NAMES]
    return {"Pod": pod(**annotations), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}


REQUIRE = {scheduler_json.PLACEMENT: "Require"}


def test_the_data_set_is_the_annotations_or_the_environments() -> None:
    assert question(by_names()).dataset == "team.train"
    assert question(by_names(**{scheduler_json.DATASET: "other.set"})).dataset == "other.set"
    assert question({"Pod": {}, "NodeNames": NAMES}).dataset == ""
    assert question(by_nodes()).machines["b"] == {"rack": "r1"}


def test_more_of_it_is_a_higher_score() -> None:
    assert prioritized(question(by_names()), SCORES) == [
        {"Host": "a", "Score": 10},
        {"Host": "b", "Score": 3},
        {"Host": "c", "Score": 0},
    ]
    assert {one["Score"] for one in prioritized(question(by_names()), {})} == {0}, "nobody knows: all are alike"


def test_nobody_is_kept_away_unless_that_is_asked_for() -> None:
    assert filtered(question(by_names()), SCORES) == {"FailedNodes": {}, "Error": "", "NodeNames": NAMES}
    required = filtered(question(by_names(**REQUIRE)), SCORES)
    assert required["NodeNames"] == ["a", "b"] and list(required["FailedNodes"]) == ["c"]
    for nobody_knows in ({}, {"a": 0.0, "b": 0.0}):
        assert filtered(question(by_names(**REQUIRE)), nobody_knows)["NodeNames"] == NAMES


def test_nodes_come_back_as_they_came() -> None:
    asked = by_nodes(**REQUIRE)
    answer = filtered(question(asked), SCORES)
    assert "NodeNames" not in answer
    assert answer["Nodes"]["items"] == asked["Nodes"]["items"][:2]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "Pod"),
        ([], "ExtenderArgs"),
        ({}, "Pod"),
        ({"Pod": {"metadata": 3}}, "Pod.metadata"),
        ({"Pod": {"spec": {"containers": {}}}, "NodeNames": []}, "Pod.spec.containers"),
        ({"Pod": {}, "NodeNames": "a"}, "NodeNames"),
        ({"Pod": {}, "NodeNames": [3]}, "NodeNames"),
        ({"Pod": {}, "Nodes": []}, "Nodes"),
        ({"Pod": {}, "Nodes": {"items": [{}]}}, "Nodes.items[].metadata.name"),
    ],
)
def test_what_is_no_question_is_named(body: Any, said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as wrong:
        question(body)
    assert str(wrong.value).startswith(said)


@pytest.mark.slow
@given(JSON, JSON, JSON, st.dictionaries(st.text(max_size=3), st.floats(0, 1)))
def test_whatever_comes_is_answered_for_each_machine_or_refused(
    pod: Any, nodes: Any, names: Any, scores: dict[str, float]
) -> None:
    for body in (pod, {"Pod": pod, "Nodes": nodes, "NodeNames": names}, {"Pod": {}, "NodeNames": names}):
        try:
            asked = question(body)
        except errors.InvalidArgumentError:
            continue
        assert [one["Host"] for one in prioritized(asked, scores)] == list(asked.machines)
        assert all(0 <= one["Score"] <= 10 for one in prioritized(asked, scores))
        assert filtered(asked, scores)["FailedNodes"] == {}


def test_strings_that_no_message_can_hold_name_nothing() -> None:
    """A question of the coordinator could not be made of them, and the scheduler would be answered with an error."""
    half = "\ud800"
    listed = {"items": [{"metadata": {"name": "a", "labels": {"rack": half, half: "1", "zone": "é"}}}]}
    asked = question({"Pod": pod(**{scheduler_json.DATASET: half}), "Nodes": listed})
    assert (asked.dataset, asked.machines) == ("team.train", {"a": {"zone": "é"}})
    with pytest.raises(errors.InvalidArgumentError, match="an entry is no name"):
        question({"Pod": pod(), "NodeNames": [f"a{half}"]})
