"""Selectors and labels: what they mean, and that nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.shard_owners_chunks_hash_prefixes import labels
from tfquiver.shard_owners_chunks_hash_prefixes.selector import Selector

words = st.from_regex(labels.KEY, fullmatch=True).filter(lambda word: word != "in")
values = st.from_regex(labels.VALUE, fullmatch=True)
label_maps = st.dictionaries(words, values, max_size=5)


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("", {"a", "b", "c"}),
        ("rack=r1", {"a", "b"}),
        ("rack==r1", {"a", "b"}),
        ("rack!=r1", {"c"}),
        ("disk!=nvme", {"b", "c"}),
        ("disk", {"a"}),
        ("rack in (r1, r2)", {"a", "b", "c"}),
        ("rack in (r2),zone=z", {"c"}),
        (" rack = r1 , disk = nvme ", {"a"}),
        ("rack=r1,rack=r2", set()),
        ("gpu", set()),
    ],
)
def test_what_a_selector_means(text: str, matching: set[str]) -> None:
    nodes = {"a": {"rack": "r1", "disk": "nvme"}, "b": {"rack": "r1"}, "c": {"rack": "r2", "zone": "z"}}
    selector = Selector.parse(text)
    assert {name for name, its in nodes.items() if selector.matches(its)} == matching


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (",", "''"),
        ("rack=r1,", "''"),
        ("rack in r1", "'rack in r1' is not key=value"),
        ("rack in (r1", "'rack in \\(r1'"),
        ("rack in (r1,r 2)", "'r 2' is no value"),
        ("=r1", "'=r1'"),
        ("ra ck=r1", "'ra ck=r1'"),
        ("rack=r1=r2", "'r1=r2' is no value"),
        ("!rack", "'!rack'"),
        ("rack>3", "'rack>3'"),
        ("a," * 40 + "a", "41 parts"),
        ("k in (" + ",".join("ab"[n % 2] for n in range(65)) + ")", "65 values"),
        ("k=" + "v" * 64, "is no value"),
        ("k" * 1025, "longer than 1024"),
    ],
)
def test_what_is_none_is_refused_by_its_part(text: str, said: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"selector: .*{said}"):
        Selector.parse(text)


@pytest.mark.slow
@given(st.text(max_size=60), label_maps)
def test_any_text_is_a_selector_or_a_typed_error(text: str, its: dict[str, str]) -> None:
    try:
        found = Selector.parse(text)
    except errors.InvalidArgumentError as error:
        assert str(error).startswith("selector: ")
    else:
        assert found.matches(its) in (True, False)


@pytest.mark.slow
@given(label_maps, label_maps)
def test_a_node_matches_its_own_labels_and_nobody_elses(its: dict[str, str], other: dict[str, str]) -> None:
    own = Selector.parse(",".join(f"{key}={value}" for key, value in its.items()))
    assert own.matches(its)
    assert own.matches(other) is all(other.get(key) == value for key, value in its.items())
    for key, value in its.items():
        assert Selector.parse(key).matches(its)
        assert Selector.parse(f"{key} in (x,{value})").matches(its)
        assert not Selector.parse(f"{key}!={value}").matches(its)
        assert Selector.parse(f"{key}!={value}").matches(other) is (other.get(key) != value)


@given(label_maps)
def test_labels_are_read_as_they_are_written(its: dict[str, str]) -> None:
    assert labels.parse(",".join(f"{key}={value}" for key, value in its.items())) == its


@pytest.mark.parametrize(
    "text", ["rack", "rack=r1,rack=r2", "=r1", "rack=a b", ",", ",".join(f"k{n}=v" for n in range(17)), "k" * 64 + "=v"]
)
def test_labels_that_are_none(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="labels: "):
        labels.parse(text)
