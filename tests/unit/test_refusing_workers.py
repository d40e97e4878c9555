"""A worker at whose address nobody listens is lost sooner than one that is silent; time and calls are arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_reaper import KEYS, A, News, Service, epoch_of_two
from tfquiver.clock import ManualClock
from tfquiver.service.dispatcher.ending_leftover_tasks.reaper import Reaper, Timeouts


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    return epoch_of_two(tmp_path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def news(clock: ManualClock) -> News:
    return News(clock)


def test_where_nobody_listens_nobody_is_waited_for_so_long(work_dir: Path, clock: ManualClock, news: News) -> None:
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    service.dead = {A}
    for _ in range(3):
        assert reaper.step() == {}
        clock.advance(1)
    assert reaper.step() == {A: [4000]}


def test_a_port_that_was_asked_twice_says_nothing_yet(work_dir: Path, clock: ManualClock, news: News) -> None:
    """However far apart."""
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    service.dead = {A}
    assert reaper.step() == {}
    clock.advance(9)
    assert reaper.step() == {}
    clock.advance(0.1)
    assert reaper.step() == {A: [4000]}


@pytest.mark.parametrize("between", ["answers", "is silent"])
def test_a_port_that_once_did_not_refuse_is_asked_as_long_again(
    work_dir: Path, clock: ManualClock, news: News, between: str
) -> None:
    """A worker that is restarted, and killed again; a network that comes and goes."""
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    for _ in range(2):
        service.dead, service.silent = {A}, set()
        for _ in range(3):
            assert reaper.step() == {}
            clock.advance(0.9)
        service.dead, service.silent = set(), {A} if between == "is silent" else set()
        assert reaper.step() == {}
    service.dead = {A}
    finished = []
    for _ in range(5):
        finished.append(reaper.step())
        clock.advance(1)
    assert finished == [{}, {}, {}, {A: [4000]}, {A: [4000]}]


def test_what_a_dead_worker_was_lost_with_is_waited_for_as_of_a_silent_one(
    work_dir: Path, clock: ManualClock, news: News
) -> None:
    service = Service()
    service.dead, news.short = {A}, {KEYS[1]}
    reaper = Reaper(work_dir, service, news, clock=clock)
    for _ in range(60):
        assert reaper.step() == {}
        clock.advance(1)
    assert reaper.step() == {A: [4000]}


def test_where_silence_is_to_be_shorter_so_is_this(work_dir: Path, clock: ManualClock, news: News) -> None:
    service = Service()
    service.dead = {A}
    reaper = Reaper(work_dir, service, news, Timeouts(worker_s=1), clock=clock)
    assert reaper.step() == {}
    clock.advance(1)
    assert reaper.step() == {A: [4000]}
