"""What is given up while it is got is marked for those who get it then, until none of them does any more."""

from __future__ import annotations

import contextlib

from tfquiver.service.node.evicting_emptying_removing_leftovers.given_up import GivenUp


def test_a_mark_lasts_as_long_as_one_of_those_gets_it() -> None:
    dropped: list[bytes] = []
    given_up = GivenUp(dropped.append)
    with given_up.until_here(b"a") as first, given_up.until_here(b"c") as other:
        with given_up.until_here(b"a") as second:
            given_up.mark({b"a", b"b"})
            assert first.is_given_up and second.is_given_up
            assert not other.is_given_up
        assert b"a" in given_up
        assert not dropped
    assert dropped == [b"a"]
    assert not any(hash in given_up for hash in (b"a", b"b", b"c"))
    assert not given_up.getting()


def test_who_begins_later_keeps_it() -> None:
    dropped: list[bytes] = []
    given_up = GivenUp(dropped.append)
    with contextlib.ExitStack() as later:
        with given_up.until_here(b"a") as first:
            given_up.mark({b"a"})
            getting = later.enter_context(given_up.until_here(b"a"))
            assert first.is_given_up
            assert not getting.is_given_up
        assert dropped == [b"a"], "what the first has left in memory"
        assert b"a" not in given_up
        assert given_up.getting() == {b"a"}
    assert dropped == [b"a"]
