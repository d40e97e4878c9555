"""A worker at whose address nobody listens is lost sooner than one that is silent; time and calls are arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.unfinished_epoch import KEYS, A, UnfinishedEpoch
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.reaper import Timeouts


@pytest.fixture
def epoch(tmp_path: Path) -> UnfinishedEpoch:
    return UnfinishedEpoch(tmp_path)


def test_where_nobody_listens_nobody_is_waited_for_so_long(epoch: UnfinishedEpoch) -> None:
    reaper = epoch.reaper()
    epoch.service.dead = {A}
    for _ in range(3):
        assert reaper.step() == {}
        epoch.clock.advance(1)
    assert reaper.step() == {A: [4000]}


def test_a_port_that_was_asked_twice_says_nothing_yet(epoch: UnfinishedEpoch) -> None:
    """However far apart."""
    reaper = epoch.reaper()
    epoch.service.dead = {A}
    assert reaper.step() == {}
    epoch.clock.advance(9)
    assert reaper.step() == {}
    epoch.clock.advance(0.1)
    assert reaper.step() == {A: [4000]}


@pytest.mark.parametrize("between", ["answers", "is silent"])
def test_a_port_that_once_did_not_refuse_is_asked_as_long_again(epoch: UnfinishedEpoch, between: str) -> None:
    """A worker that is restarted, and killed again; a network that comes and goes."""
    reaper = epoch.reaper()
    for _ in range(2):
        epoch.service.dead, epoch.service.silent = {A}, set()
        for _ in range(3):
            assert reaper.step() == {}
            epoch.clock.advance(0.9)
        epoch.service.dead, epoch.service.silent = set(), {A} if between == "is silent" else set()
        assert reaper.step() == {}
    epoch.service.dead = {A}
    finished = []
    for _ in range(5):
        finished.append(reaper.step())
        epoch.clock.advance(1)
    assert finished == [{}, {}, {}, {A: [4000]}, {A: [4000]}]


def test_what_a_dead_worker_was_lost_with_is_waited_for_as_of_a_silent_one(epoch: UnfinishedEpoch) -> None:
    epoch.service.dead, epoch.news.short = {A}, {KEYS[1]}
    reaper = epoch.reaper()
    for _ in range(60):
        assert reaper.step() == {}
        epoch.clock.advance(1)
    assert reaper.step() == {A: [4000]}


def test_where_silence_is_to_be_shorter_so_is_this(epoch: UnfinishedEpoch) -> None:
    epoch.service.dead = {A}
    reaper = epoch.reaper(Timeouts(worker_s=1))
    assert reaper.step() == {}
    epoch.clock.advance(1)
    assert reaper.step() == {A: [4000]}
