"""One pass of a stream: every trainer gets each batch once and the same, whoever makes it, dies, comes late or lags."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.node.shared_batches.one_pass import MOST_CHECKPOINTS, Answer, OnePass, Sum

BATCHES = 12


def sum_of(index: int) -> Sum:
    return Sum(1000 + index, 10)


@dataclass
class Maker:
    number: int
    at: int  # the batch that it makes next: perhaps one that was made before
    room: int = 0


@given(st.data())
def test_each_gets_every_batch_once_whatever_ends(data: st.DataObject) -> None:
    state = OnePass()
    numbers = itertools.count()
    followers: dict[int, int] = {next(numbers): 0 for _ in range(data.draw(st.integers(1, 4)))}
    finished: list[int] = []
    maker: Maker | None = None
    made: set[int] = set()  # by the follower itself, of the batch before
    for _ in range(2000):
        if not followers:
            break
        follower = data.draw(st.sampled_from(sorted(followers)))
        index = followers[follower]
        answer = state.ask(follower, index, sum_of(index - 1) if follower in made else None)
        made.discard(follower)
        if answer is Answer.GIVE:
            assert index < BATCHES
            if data.draw(st.booleans()):
                made.add(follower)  # it had gone
            followers[follower] = index + 1
        elif answer is Answer.OVER:
            assert index == BATCHES
            state.leave(follower)
            finished.append(followers.pop(follower))
        elif answer is Answer.UNMADE:
            assert maker is None
            number = next(numbers)
            first = state.make(number)
            assert first == state.head and state.make(number + 1000) is None
            from_checkpoint = state.checkpoint_for(first)
            maker = Maker(number, from_checkpoint or 0)
        if maker is None:
            continue
        match data.draw(st.sampled_from(["make", "make", "make", "die"])):
            case "make" if maker.at == BATCHES:
                state.finish(maker.number, BATCHES)
                state.leave(maker.number)
                maker = None
            case "make" if maker.at < max(state.room(1000), state.head):
                new = maker.at >= state.head
                assert state.made(maker.number, maker.at, sum_of(maker.at)) is new
                maker.at += 1
                if data.draw(st.booleans()):
                    state.keep_checkpoint(maker.at, maker.at)
            case "die":
                assert state.leave(maker.number)
                maker = None
    assert not followers, "all have come to the end"


def test_the_fastest_decides_how_far_the_maker_goes_and_the_slow_hold_nobody() -> None:
    state = OnePass()
    state.ask(1, 0, None)
    assert state.make(9) == 0
    for index in range(state.room(1 << 20)):
        state.made(9, index, sum_of(index))
    ahead = state.head
    assert 2 <= ahead <= 16
    state.ask(2, 5, None)
    assert state.room(1 << 20) == 5 + ahead and state.lowest == 0


def test_large_batches_are_made_two_ahead() -> None:
    state = OnePass()
    state.ask(1, 0, None)
    state.make(9)
    state.made(9, 0, Sum(1, 250))
    assert state.room(1000) == 2


def test_another_batch_than_before_is_refused_by_name() -> None:
    state = OnePass()
    state.ask(1, 0, None)
    state.make(9)
    state.made(9, 0, sum_of(0))
    with pytest.raises(errors.InvalidArgumentError, match="batch 0 came out unlike"):
        state.ask(1, 1, Sum(7, 10))
    state.leave(9)
    state.make(10)
    with pytest.raises(errors.InvalidArgumentError, match="batch 0 came out unlike"):
        state.made(10, 0, Sum(7, 10))
    with pytest.raises(errors.InvalidArgumentError, match="ends after 0 batches"):
        state.finish(10, 0)


def test_a_maker_says_nothing_out_of_turn() -> None:
    state = OnePass()
    state.make(9)
    for number, index in ((8, 0), (9, 1)):
        with pytest.raises(errors.ProtocolError):
            state.made(number, index, sum_of(index))
    with pytest.raises(errors.ProtocolError):
        state.finish(9, 1)
    state.finish(9, 0)
    with pytest.raises(errors.ProtocolError):
        state.made(9, 0, sum_of(0))


def test_trainers_that_go_on_in_the_middle_share_what_comes_from_there() -> None:
    state = OnePass()
    assert state.ask(1, 500, None) is Answer.UNMADE, "a node that was restarted: nobody here wants those before"
    assert state.make(9) == 500
    assert state.ask(2, 501, None) is Answer.GIVE, "it does not wait for one that is behind it, but makes it"
    assert state.ask(3, 20, None) is Answer.GIVE
    assert state.sum_of(20) is None and state.head == 500


def test_a_trainer_that_comes_to_the_end_before_the_maker_is_believed_if_it_can_be() -> None:
    state = OnePass()
    state.ask(1, 20, None)
    assert state.make(9) == 20
    assert state.ask(2, 30, None) is Answer.GIVE, "for all that is known there is such a batch"
    state.ends(2, 30)
    with pytest.raises(errors.ProtocolError, match="elsewhere"):
        state.ends(2, 29)
    state.made(9, 20, sum_of(20))
    state.finish(9, 21)
    with pytest.raises(errors.InvalidArgumentError, match="ends after 30 batches, and had 21"):
        state.ends(2, 30)
    state.ask(2, 20, None)
    with pytest.raises(errors.InvalidArgumentError, match="ends after 20 batches, and had 21"):
        state.ends(2, 20)


def test_checkpoints_are_bounded_and_the_newest_and_oldest_stay() -> None:
    state = OnePass()
    dropped = {state.keep_checkpoint(before, before) for before in range(1, 500)} - {None}
    assert len(state.checkpoints) == MOST_CHECKPOINTS and len(dropped) == 499 - MOST_CHECKPOINTS
    assert state.checkpoint_for(0) is None and state.checkpoint_for(1) == 1 and state.checkpoint_for(10_000) == 499
    assert state.keep_checkpoint(499, 7) == 7, "known"
