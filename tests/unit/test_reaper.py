"""Which tasks are finished in a lost worker's name, and when; the journal is a file, time and calls are arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.unfinished_epoch import KEYS, A, B, C, Service, UnfinishedEpoch, graph
from tfquiver.service.dispatcher.journal import journal_reader
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.reaper import Reaper, Timeouts


@pytest.fixture
def epoch(tmp_path: Path) -> UnfinishedEpoch:
    return UnfinishedEpoch(tmp_path)


def test_waits_for_the_timeout_then_finishes(epoch: UnfinishedEpoch) -> None:
    reaper = epoch.reaper()
    assert reaper.step() == {}
    epoch.service.silent = {A}
    assert reaper.step() == {}
    epoch.clock.advance(9.9)
    assert reaper.step() == {}
    epoch.clock.advance(0.2)
    assert reaper.step() == {A: [4000]}
    assert epoch.service.finished == [(A, [4000])]


def test_a_worker_that_is_back_starts_anew(epoch: UnfinishedEpoch) -> None:
    reaper = epoch.reaper()
    epoch.service.silent = {A}
    reaper.step()
    epoch.clock.advance(9)
    epoch.service.silent = set()
    reaper.step()
    epoch.service.silent = {A}
    epoch.clock.advance(9)
    assert reaper.step() == {}
    epoch.clock.advance(10)
    assert reaper.step() == {A: [4000]}


def without_a(epoch: UnfinishedEpoch) -> Reaper:
    """A is lost, its task has been finished for it, and with that the epoch is over."""
    epoch.service.silent = {A}
    reaper = epoch.reaper()
    assert reaper.step() == {}
    epoch.clock.advance(10)
    assert reaper.step() == {A: [4000]}
    epoch.ends(4000)
    return reaper


def test_a_worker_that_stays_away_has_its_time_once_not_in_each_epoch(
    epoch: UnfinishedEpoch, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two epochs it has no task."""
    reaper = without_a(epoch)
    for _ in range(2):
        assert reaper.step() == {}
        assert reaper.awaited == set()
        epoch.clock.advance(300)
    epoch.next_one(4100)
    assert reaper.step() == {A: [4100]}
    assert len([message for message in caplog.messages if "is lost" in message]) == 1
    epoch.ends(4100)
    epoch.next_one(4200)
    assert reaper.step() == {A: [4200]}, "without a look between"


def test_a_worker_that_was_back_between_two_epochs_has_its_time_anew(epoch: UnfinishedEpoch) -> None:
    reaper = without_a(epoch)
    epoch.service.silent = set()
    assert reaper.step() == {}
    epoch.service.silent = {A}
    epoch.next_one(4100)
    epoch.clock.advance(10)
    assert reaper.step() == {}
    epoch.clock.advance(10)
    assert reaper.step() == {A: [4100]}


def test_what_an_epoch_lacks_is_waited_for_from_that_epoch_on(epoch: UnfinishedEpoch) -> None:
    """A worker that was away before may as well be the one that comes back and reads it."""
    reaper = without_a(epoch)
    assert reaper.step() == {}
    epoch.clock.advance(100)
    assert reaper.step() == {}
    epoch.next_one(4100)
    epoch.news.short = {KEYS[1]}
    assert reaper.step() == {}
    epoch.clock.advance(59)
    assert reaper.step() == {}
    epoch.clock.advance(1)
    assert reaper.step() == {A: [4100]}


def test_who_is_gone_for_good_is_not_asked_for_ever(epoch: UnfinishedEpoch) -> None:
    epoch.service.silent = {A}
    reaper = epoch.reaper()
    reaper.step()
    epoch.ends(4000)
    for asked in ([A], [A], []):
        reaper.step()
        assert epoch.service.asked == asked
        epoch.clock.advance(300)


def test_a_session_that_a_reader_left_before_its_end_is_waited_for(epoch: UnfinishedEpoch) -> None:
    epoch.service.silent, epoch.news.left_early = {A}, {KEYS[0], KEYS[1]}
    reaper = epoch.reaper(Timeouts(worker_s=0))
    assert reaper.step() == {}
    epoch.news.left_early.discard(KEYS[1])
    assert reaper.step() == {A: [4000]}


def test_what_nobody_else_will_read_is_waited_for_longer(epoch: UnfinishedEpoch) -> None:
    """A worker that was lost after the end, with what it had not delivered: it may come back, but need not."""
    epoch.service.silent, epoch.news.short = {A}, {KEYS[0], KEYS[1]}
    reaper = epoch.reaper()
    assert reaper.step() == {}
    epoch.clock.advance(59)
    assert reaper.step() == {}
    epoch.news.short.discard(KEYS[1])
    assert reaper.step() == {A: [4000]}, "another worker has read it"
    epoch.news.short.add(KEYS[1])
    assert reaper.step() == {}
    epoch.clock.advance(1)
    assert reaper.step() == {A: [4000]}, "nobody came"


def test_a_graph_without_our_op_is_left_alone(epoch: UnfinishedEpoch) -> None:
    epoch.graph.write_bytes(b"...TFRecordDataset..." + graph(KEYS[1])[16:])
    reaper = epoch.reaper(Timeouts(worker_s=0, unread_s=0))
    epoch.quiet()
    assert reaper.step() == {}
    epoch.service.silent = {A}
    assert reaper.step() == {}


def test_a_lost_worker_is_told_of_once_until_it_is_back(
    epoch: UnfinishedEpoch, caplog: pytest.LogCaptureFixture
) -> None:
    epoch.news.left_early = {KEYS[1]}
    reaper = epoch.reaper(Timeouts(worker_s=0))
    for silent in ({A}, {A}, set[str](), {A}):
        epoch.service.silent = silent
        reaper.step()
    assert [message for message in caplog.messages if "lost" in message] == [
        "worker a:1 is lost: epochs that others have read will end without it, others wait"
    ] * 2


def lost_and_back(reaper: Reaper, service: Service) -> None:
    service.silent = {A}
    assert reaper.step() == {}
    service.silent = set()
    assert reaper.step() == {}


def test_a_task_that_nobody_reads_any_more_is_finished_for_its_worker(epoch: UnfinishedEpoch) -> None:
    """Its client had the end of it, but the worker was killed before it could say so; now it is back."""
    reaper = epoch.reaper()
    epoch.quiet()
    lost_and_back(reaper, epoch.service)
    epoch.clock.advance(299)
    assert reaper.step() == {}
    epoch.clock.advance(1)
    assert reaper.step() == {A: [4000]}
    assert epoch.service.finished == [(A, [4000])]


def test_a_task_of_a_worker_that_was_not_lost_is_never_finished_for_it(epoch: UnfinishedEpoch) -> None:
    """What stands behind the source may have destroyed it at its end, and holds what the trainer has yet to take."""
    reaper = epoch.reaper()
    epoch.quiet()
    epoch.service.silent = {B, C}
    for _ in range(3):
        assert reaper.step() == {}
        epoch.clock.advance(100_000)
    assert (reaper.step(), epoch.news.looks) == ({}, 0)


def test_a_worker_that_was_lost_while_the_dispatcher_was_away_is_known_by_its_lack_of_tasks(
    epoch: UnfinishedEpoch,
) -> None:
    """It waits for the dispatcher, and is told its task again before anybody looks for the second time."""
    reaper = epoch.reaper()
    epoch.quiet()
    epoch.service.anew = {A}
    reaper.look()
    epoch.service.anew = set()
    assert reaper.step() == {}
    epoch.clock.advance(300)
    assert reaper.step() == {A: [4000]}


def test_a_worker_that_was_lost_before_the_end_is_none_that_was_lost_at_it(epoch: UnfinishedEpoch) -> None:
    whole = epoch.journal.read_bytes()
    end_of_b = [end for end, _ in journal_reader.whole_records(whole)][-2]
    epoch.journal.write_bytes(whole[:end_of_b])
    reaper = epoch.reaper()
    epoch.quiet()
    lost_and_back(reaper, epoch.service)
    epoch.journal.write_bytes(whole)
    reaper.step()
    epoch.clock.advance(1000)
    assert reaper.step() == {}
    lost_and_back(reaper, epoch.service)
    epoch.clock.advance(300)
    assert reaper.step() == {A: [4000]}


def test_a_task_is_left_alone_while_its_session_is_read(epoch: UnfinishedEpoch) -> None:
    """A trainer that takes its time: the worker's reader is there. And one that came back asks for what is missing."""
    reaper = epoch.reaper()
    lost_and_back(reaper, epoch.service)
    epoch.clock.advance(1000)
    assert reaper.step() == {}, "its session is none of the quiet ones"
    epoch.quiet()
    epoch.clock.advance(299)
    assert reaper.step() == {}
    epoch.clock.advance(31)
    assert reaper.step() == {A: [4000]}
    assert epoch.news.looks == 3, "not at each step"


def test_all_sources_of_a_pipeline_must_be_quiet(epoch: UnfinishedEpoch) -> None:
    """One after the other, say: the first is over, and the second one has not begun."""
    epoch.graph.write_bytes(graph(KEYS[0], KEYS[1]))
    reaper = epoch.reaper()
    epoch.quiet()
    lost_and_back(reaper, epoch.service)
    epoch.clock.advance(1000)
    assert reaper.step() == {}
    epoch.news.asked_at[KEYS[0]] = 0.0
    epoch.clock.advance(30)
    assert reaper.step() == {A: [4000]}


def test_a_worker_that_is_away_now_and_then_has_its_time_anew(epoch: UnfinishedEpoch) -> None:
    reaper = epoch.reaper(Timeouts(worker_s=1000))
    epoch.quiet()
    lost_and_back(reaper, epoch.service)
    epoch.clock.advance(299)
    lost_and_back(reaper, epoch.service)
    epoch.clock.advance(299)
    assert reaper.step() == {}
    epoch.clock.advance(300)
    assert reaper.step() == {A: [4000]}


def starving(epoch: UnfinishedEpoch, away_s: float = 3.0) -> Reaper:
    """A was lost at the end for so long, and is back; its only client waits for an element, and has not asked for A's.
    The machine of A said that nobody listened there."""
    epoch.comes(7)
    reaper = epoch.reaper(Timeouts(refused_s=1000, worker_s=1000))
    reaper.step()
    epoch.clock.advance(1)
    reaper.step()
    epoch.quiet()
    epoch.service.dead = {A}
    for _ in range(int(away_s)):
        epoch.clock.advance(1)
        reaper.step()
    epoch.service.dead = set()
    epoch.news.waiting = {KEYS[1]: 1}
    return reaper


@pytest.mark.parametrize(("away_s", "within_s"), [(3, 20), (30, 40), (300, 150)])
def test_who_waits_as_long_as_it_takes_to_ask_and_does_not_has_had_the_end(
    epoch: UnfinishedEpoch, away_s: float, within_s: int
) -> None:
    """gRPC connects again after about as long a time as the worker was away, two minutes at most."""
    assert within_s <= epoch.finished_after(starving(epoch, away_s)) <= within_s + 2
    assert epoch.service.finished == [(A, [4000])]


def test_for_how_long_it_was_away_before_the_dispatcher_started_nobody_knows(epoch: UnfinishedEpoch) -> None:
    epoch.comes(7)
    epoch.quiet()
    reaper = epoch.reaper()
    epoch.service.anew = {A}
    reaper.look()
    epoch.service.anew = set()
    epoch.news.waiting = {KEYS[1]: 1}
    assert 150 <= epoch.finished_after(reaper) <= 152


def test_a_machine_that_said_nothing_may_be_thought_to_have_the_connection_still(epoch: UnfinishedEpoch) -> None:
    epoch.comes(7)
    reaper = epoch.reaper()
    for silent in (set[str](), set[str](), {A}):
        epoch.quiet()
        epoch.service.silent = silent
        reaper.step()
        epoch.clock.advance(1)
    epoch.service.silent, epoch.news.waiting = set(), {KEYS[1]: 1}
    assert 40 <= epoch.finished_after(reaper) <= 42


def test_a_trainer_that_pauses_is_waited_for(epoch: UnfinishedEpoch) -> None:
    """It does not wait for an element; of two of a job one may."""
    reaper = starving(epoch)
    epoch.news.waiting = {}
    assert epoch.finished_after(reaper, 100) == 100
    epoch.comes(8)
    epoch.news.waiting = {KEYS[1]: 1}
    assert epoch.finished_after(reaper, 100) == 100
    epoch.news.waiting = {KEYS[1]: 2}
    assert 20 <= epoch.finished_after(reaper, 100) <= 22


def test_who_waits_anew_has_the_time_anew(epoch: UnfinishedEpoch) -> None:
    reaper = starving(epoch)
    for waiting in ({KEYS[1]: 1}, {}, {KEYS[1]: 1}):
        epoch.news.waiting = waiting
        assert epoch.finished_after(reaper, 15) == 15


def test_a_client_that_has_asked_for_the_task_waits_for_that(epoch: UnfinishedEpoch) -> None:
    """It reads what is missing, and what stands behind the source may take its time with it, and have destroyed it."""
    reaper = starving(epoch)
    reaper.step()
    epoch.clock.advance(1)
    epoch.quiet()
    assert epoch.finished_after(reaper, 250) == 250


def test_a_client_that_may_wait_for_another_worker_is_left_alone(epoch: UnfinishedEpoch) -> None:
    """With one request at a time it asks nobody else meanwhile."""
    reaper = starving(epoch)
    epoch.opens(4002, C)
    assert epoch.finished_after(reaper, 100) == 100
    epoch.ends(4002)
    assert epoch.finished_after(reaper, 100) < 30
