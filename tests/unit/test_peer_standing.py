from __future__ import annotations

from tfquiver.service.node.connections_between_nodes.peer_standing import DISTRUST_S, UNREACHABLE_S, Standing


def test_one_that_could_not_be_reached_is_left_alone_for_a_moment() -> None:
    standing = Standing()
    assert not standing.avoided(0)
    standing.unreachable(10)
    assert "reached" in standing.avoided(10 + UNREACHABLE_S - 0.1)
    assert not standing.avoided(10 + UNREACHABLE_S)


def test_a_lie_is_not_forgotten_because_it_is_unreachable_later() -> None:
    standing = Standing()
    standing.wrong(0)
    standing.unreachable(1)
    assert "other bytes" in standing.avoided(DISTRUST_S - 0.1)
    assert not standing.avoided(DISTRUST_S)


def test_damage_counts_in_a_row_only() -> None:
    standing = Standing()
    for now_s in range(10):
        standing.damaged(now_s)
        standing.damaged(now_s)
        standing.good()
        assert not standing.avoided(now_s)
    for _ in range(3):
        standing.damaged(20)
    assert "damaged" in standing.avoided(20)


def test_a_peer_that_stays_unreachable_is_tried_less_and_less_often() -> None:
    standing, now_s, tries = Standing(), 0.0, 0
    while now_s < 600:
        if not standing.avoided(now_s):
            now_s, tries = now_s + 5, tries + 1  # each costs a reader that
            standing.unreachable(now_s)
            standing.unreachable(now_s)  # by another connection
        now_s += 1
    assert tries <= 20
    standing.good()
    standing.unreachable(700)
    assert standing.avoided(702) and not standing.avoided(703)
