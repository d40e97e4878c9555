"""Claims on rows of a build: nobody computes what another does, and nothing stays with who is gone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tfquiver.service.coordinator.derived_datasets.claims import CLAIM_S, MOST_CLAIM_S, MOST_HELD, Claims

STEPS = st.lists(
    st.tuples(st.sampled_from(["give", "renew", "back", "done", "wait"]), st.sampled_from("abc"), st.integers(0, 40)),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 12), STEPS)
def test_a_row_is_one_claimers_at_a_time_and_all_are_done_in_the_end(
    rows: int, steps: list[tuple[str, str, int]]
) -> None:
    claims, done, now_s = Claims(rows), bytearray(rows), 0.0
    held: dict[int, tuple[str, float]] = {}  # row -> who may think that it is theirs, and until when

    def give(who: str, most: int) -> list[int]:
        given = claims.give(who, most, done, now_s)
        for row in given:
            assert not done[row]
            assert row not in held or held[row][1] <= now_s, "another computes it"
            held[row] = (who, now_s + CLAIM_S)
        return given

    for what, who, number in steps:
        if what == "give":
            give(who, number)
        elif what == "wait":
            now_s += number
        elif what == "done" and number < rows:
            done[number] = 1
            claims.over(number)
            held.pop(number, None)
        elif what == "renew":
            claims.renew(who, [number], now_s)
            if number in held and held[number][0] == who:
                held[number] = (who, now_s + CLAIM_S)
        elif what == "back":
            claims.give_back(who, [number])
            if number in held and held[number][0] == who:
                del held[number]
    now_s += MOST_CLAIM_S + CLAIM_S
    while given := claims.give("last", 5, done, now_s):
        for row in given:
            done[row] = 1
            claims.over(row)
    assert all(done)


def test_who_says_nothing_loses_its_rows_and_who_renews_keeps_them() -> None:
    claims, done = Claims(2), bytearray(2)
    assert claims.give("a", 1, done, 0) == [0]
    assert claims.give("b", 1, done, 0) == [1]
    claims.renew("a", [0, 1], CLAIM_S - 1)
    assert claims.give("c", 2, done, CLAIM_S + 1) == [1]


def test_a_function_that_hangs_keeps_its_row_from_nobody_for_ever() -> None:
    claims, done, now_s = Claims(1), bytearray(1), 0.0
    claims.give("a", 1, done, now_s)
    while now_s < MOST_CLAIM_S:
        assert claims.give("b", 1, done, now_s) == []
        now_s += CLAIM_S / 2
        claims.renew("a", [0], now_s)
    assert claims.give("b", 1, done, MOST_CLAIM_S + 1) == [0]


def test_nobody_claims_everything() -> None:
    claims, done = Claims(10 * MOST_HELD), bytearray(10 * MOST_HELD)
    assert len(claims.give("a", 1 << 20, done, 0)) == MOST_HELD
    assert claims.give("a", 1, done, 0) == []
