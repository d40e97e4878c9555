from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tfquiver.server_reachability.outages import TOLD_AFTER_S, Outage


def test_an_outage_is_told_with_what_to_do_and_so_is_its_end() -> None:
    outage = Outage("the dispatcher at h:1", "start it again")
    assert outage.seen("", 0.0) == ""
    assert outage.seen("nobody listens there", 3.0) == "" and outage.is_on
    assert outage.seen("nobody listens there", 5.0) == ""
    told = outage.seen("nobody listens there", 6.5)
    assert told == "the dispatcher at h:1 has not answered for 4 s (nobody listens there): start it again"
    assert outage.seen("nobody listens there", 7.5) == ""
    assert outage.seen("no answer from there", 13.0) == (
        "the dispatcher at h:1 has not answered for 10 s (no answer from there)"
    )
    assert outage.seen("", 33.0) == "the dispatcher at h:1 answers again, after 30 s" and not outage.is_on
    assert outage.seen("", 36.0) == ""


def test_who_waits_is_told_how_long_it_may_take_until_tensorflow_asks_again() -> None:
    """Of a dispatcher that was away for 50 s nothing was read for 17 s more."""
    for away_s, within_s in ((50.0, 60), (3600.0, 154)):
        outage = Outage("the dispatcher at h:1", "start it again", "TensorFlow")
        outage.seen("gone", 0.0), outage.seen("gone", 4.0)
        told = (
            f"the dispatcher at h:1 answers again, after {away_s:.0f} s; TensorFlow asks it again within {within_s} s"
        )
        assert outage.seen("", away_s) == told


def test_a_restart_within_moments_is_nobodys_business() -> None:
    outage = Outage("it", "wait")
    assert [outage.seen(trouble, at) for at, trouble in enumerate(["gone", "gone", "", "gone", ""])] == [""] * 5


def test_a_night_of_it_fills_no_log() -> None:
    outage = Outage("it", "wait")
    assert len([at for at in range(43_200) if outage.seen("gone", at)]) < 40


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 1e6)), max_size=60))
def test_an_end_is_told_after_each_beginning_that_was(looks: list[tuple[bool, float]]) -> None:
    """Whatever happens between two looks, as on a machine that sleeps."""
    outage, now_s, begun_s, open_ = Outage("it", "wait"), 0.0, None, False
    for answers, pause_s in looks:
        now_s += pause_s
        told = outage.seen("" if answers else "gone", now_s)
        if answers:
            assert bool(told) == open_ and ("answers again" in told) == open_
            begun_s, open_ = None, False
        else:
            begun_s = now_s if begun_s is None else begun_s
            if told:
                open_ = True
                assert now_s - begun_s >= TOLD_AFTER_S
