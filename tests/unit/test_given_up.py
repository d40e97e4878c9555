"""What is given up while it is got is marked until nobody gets it any more; what nobody gets is not marked."""

from __future__ import annotations

from tfquiver.service.node.shard_fetching.given_up import GivenUp


def test_a_mark_lasts_as_long_as_somebody_gets_it() -> None:
    dropped: list[bytes] = []
    given_up = GivenUp(dropped.append)
    with given_up.until_here(b"a"), given_up.until_here(b"c"):
        with given_up.until_here(b"a"):
            given_up.mark({b"a", b"b"})
        assert b"a" in given_up
        assert not dropped
    assert dropped == [b"a"]
    assert not any(hash in given_up for hash in (b"a", b"b", b"c"))
    assert not given_up.getting()
    with given_up.until_here(b"b"):
        assert b"b" not in given_up, "a later reader's is kept"
