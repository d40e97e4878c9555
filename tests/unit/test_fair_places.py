"""Where all places are taken, who has the most makes room for who has fewer."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tfquiver.service.common_to_servers.fair_places import caller, to_leave

MOST = 8


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        ("", "", True),
    ],
)
def test_who_is_one_caller(one: str, other: str, same: bool) -> None:
    assert (caller(one) == caller(other)) is same


def test_the_one_with_the_most_loses_what_it_took_last() -> None:
    taken = {1: "a", 2: "b", 3: "a", 4: "a", 5: "b"}
    assert to_leave(taken, "c") == 4
    assert to_leave(taken, "b") is None, "it would have as many, and then a would come for one of these"
    assert to_leave(taken, "a") is None


def test_where_everybody_has_one_the_one_that_has_it_for_too_long_goes() -> None:
    taken = {1: "a", 2: "b", 3: "c"}
    assert to_leave(taken, "d") is None
    assert to_leave(taken, "d", overdue=1) == 1
    assert to_leave(taken, "a", overdue=2) is None, "who has one waits"
    assert to_leave({**taken, 4: "b"}, "d", overdue=1) == 4, "first who has two"


@given(st.lists(st.sampled_from("abcde"), max_size=60))
def test_whoever_comes_has_a_place_where_others_have_two_and_nobody_takes_turns(comers: list[str]) -> None:
    taken: dict[int, str] = {}
    for number, comer in enumerate(comers):
        if len(taken) == MOST:
            leaving = to_leave(taken, comer)
            if leaving is None:
                assert comer in taken.values(), "there are fewer callers than places"
                continue
            del taken[leaving]
        taken[number] = comer
    assert set(taken.values()) == set(comers)
