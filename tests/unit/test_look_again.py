"""When a node looks again at what it has to move: soon after something new, ever later while nothing is."""

from __future__ import annotations

from tfquiver.service.node.moving_shards.look_again import LONGEST_LOOK_AGAIN_S, SOON_LOOK_AGAIN_S, LookAgain, lookups

LEFT, MORE = (("id", 1, 1, 0, 7),), (("id", 1, 1, 0, 8),)


def pauses(again: LookAgain, count: int, left: object = (), several: bool = False, looked_up: int = 10) -> list[float]:
    return [again.after(False, left, several, looked_up, nodes=3) for _ in range(count)]


def test_of_what_never_settles_it_asks_ever_later() -> None:
    assert pauses(LookAgain(), 7, LEFT) == [2, 4, 8, 16, 30, 30, 30]


def test_what_has_moved_anywhere_is_looked_at_again_soon() -> None:
    again = LookAgain()
    assert pauses(again, 6, LEFT)[-1] == LONGEST_LOOK_AGAIN_S
    assert pauses(again, 4, MORE) == [SOON_LOOK_AGAIN_S, 6, 12, 24]
    assert pauses(again, 1) == [30], "nothing is left: nobody waits for it"


def test_what_was_done_or_told_is_looked_at_again_at_once() -> None:
    again = LookAgain()
    pauses(again, 6, LEFT)
    assert again.after(True, LEFT, False, 10, 3) == 1
    assert pauses(again, 2, LEFT) == [2, 4]
    assert again.told() == 1
    assert pauses(again, 2, LEFT) == [2, 4]


def test_what_is_kept_several_times_is_looked_at_every_few_seconds() -> None:
    assert pauses(LookAgain(), 4, several=True) == [2, 3, 3, 3]


def test_a_thousand_nodes_do_not_ask_for_much_every_few_seconds() -> None:
    """What three nodes may ask of a thousand shards is too much of a thousand nodes and three shards."""
    for left in ((), LEFT):
        few, many = LookAgain(), LookAgain()
        for _ in range(6):
            often = few.after(False, left, True, lookups(1000, 3), nodes=3)
            seldom = many.after(False, left, True, lookups(3, 1000), nodes=1000)
        assert (often, seldom) == (SOON_LOOK_AGAIN_S, LONGEST_LOOK_AGAIN_S)
