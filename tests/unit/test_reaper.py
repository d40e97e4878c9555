"""Which tasks are finished in a lost worker's name, and when; the journal is a file, time and calls are arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tfquiver.clock import ManualClock
from tfquiver.grpc_plumbing import proto_wire
from tfquiver.scanning import tfrecord
from tfquiver.service.dispatcher.ending_leftover_tasks.reaper import Reaper, Timeouts
from tfquiver.service.dispatcher.ending_leftover_tasks.session_news import UnreadKeys
from tfquiver.service.dispatcher.journal import journal_reader as journal

A, B, C = "a:1", "b:1", "c:1"
KEYS = tuple(f"{digit}" * 32 + end for digit, end in enumerate(("-" + "x" * 120, "-train.2", ":" + "3" * 32)))


class Service:
    """`anew`: workers that were started again, and have not yet been told their tasks. `dead`: nobody listens there."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.dead: set[str] = set()
        self.refusing: set[str] = set()
        self.anew: set[str] = set()
        self.asked: list[str] = []
        self.finished: list[tuple[str, list[int]]] = []

    def tasks(self, workers: Sequence[str]) -> dict[str, range]:
        self.asked = list(workers)
        self.refusing = self.dead & set(workers)
        away = self.silent | self.dead
        return {worker: range(0 if worker in self.anew else 10_000) for worker in workers if worker not in away}

    def finish_tasks(self, worker: str, task_ids: Sequence[int]) -> None:
        self.finished.append((worker, list(task_ids)))


class News:
    """`asked_at`: of the sessions that have no readers; nobody has asked for them since."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.left_early = set[str]()
        self.short = set[str]()
        self.asked_at = dict[str, float]()
        self.looks = 0

    def unread(self) -> UnreadKeys:
        return UnreadKeys(frozenset(self.left_early), frozenset(self.short))

    def quiet(self, keys: Collection[str], seconds: float) -> bool:
        self.looks += 1
        now = self.clock.now()
        return all(key in self.asked_at and now - self.asked_at[key] >= seconds for key in keys)


def _task(task_id: int, worker: str, iteration: int = 2000) -> bytes:
    ids = proto_wire.integer(1, task_id) + proto_wire.integer(2, iteration)
    return tfrecord.frame(proto_wire.text(3, ids + proto_wire.text(4, worker)))


def _over(task_id: int) -> bytes:
    return tfrecord.frame(proto_wire.text(4, proto_wire.integer(1, task_id)))


def graph(*keys: str) -> bytes:
    return b"...QuiverDataset" + b"".join(proto_wire.text(8, key) + b"2" for key in keys) + b"..."


def epoch_of_two(tmp_path: Path) -> Path:
    """An epoch of data set 1000 on A and B, B's task finished: a work directory."""
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "1000").write_bytes(graph(KEYS[1]))
    journal_dir = tmp_path / journal.JOURNAL_DIR
    journal_dir.mkdir()
    job = tfrecord.frame(proto_wire.text(14, proto_wire.integer(1, 5000) + proto_wire.text(3, "1000")))
    iteration = tfrecord.frame(proto_wire.text(2, proto_wire.integer(1, 2000) + proto_wire.integer(2, 5000)))
    (journal_dir / "journal_0").write_bytes(job + iteration + _task(4000, A) + _task(4001, B) + _over(4001))
    return tmp_path


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    return epoch_of_two(tmp_path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def news(clock: ManualClock) -> News:
    return News(clock)


def test_waits_for_the_timeout_then_finishes(work_dir: Path, clock: ManualClock, news: News) -> None:
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    assert reaper.step() == {}
    service.silent = {A}
    assert reaper.step() == {}
    clock.advance(9.9)
    assert reaper.step() == {}
    clock.advance(0.2)
    assert reaper.step() == {A: [4000]}
    assert service.finished == [(A, [4000])]


def test_a_worker_that_is_back_starts_anew(work_dir: Path, clock: ManualClock, news: News) -> None:
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    service.silent = {A}
    reaper.step()
    clock.advance(9)
    service.silent = set()
    reaper.step()
    service.silent = {A}
    clock.advance(9)
    assert reaper.step() == {}
    clock.advance(10)
    assert reaper.step() == {A: [4000]}


def written(work_dir: Path, records: bytes) -> None:
    with (work_dir / journal.JOURNAL_DIR / "journal_0").open("ab") as file:
        file.write(records)


def next_epoch(work_dir: Path, task: int) -> None:
    """With `task` on A, and the next one on B, which is finished."""
    iteration = tfrecord.frame(proto_wire.text(2, proto_wire.integer(1, 2000 + task) + proto_wire.integer(2, 5000)))
    written(work_dir, iteration + _task(task, A, 2000 + task) + _task(task + 1, B, 2000 + task) + _over(task + 1))


def test_a_worker_that_stays_away_has_its_time_once_not_in_each_epoch(
    work_dir: Path, clock: ManualClock, news: News, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two epochs it has no task."""
    service = Service()
    service.silent = {A}
    reaper = Reaper(work_dir, service, news, clock=clock)
    assert reaper.step() == {}
    clock.advance(10)
    assert reaper.step() == {A: [4000]}
    written(work_dir, _over(4000))
    for _ in range(2):
        assert reaper.step() == {}
        assert reaper.awaited == set()
        clock.advance(300)
    next_epoch(work_dir, 4100)
    assert reaper.step() == {A: [4100]}
    assert len([message for message in caplog.messages if "is lost" in message]) == 1
    written(work_dir, _over(4100))
    next_epoch(work_dir, 4200)
    assert reaper.step() == {A: [4200]}, "without a look between"


def test_a_worker_that_was_back_between_two_epochs_has_its_time_anew(
    work_dir: Path, clock: ManualClock, news: News
) -> None:
    service = Service()
    service.silent = {A}
    reaper = Reaper(work_dir, service, news, clock=clock)
    reaper.step()
    clock.advance(10)
    assert reaper.step() == {A: [4000]}
    written(work_dir, _over(4000))
    service.silent = set()
    assert reaper.step() == {}
    service.silent = {A}
    next_epoch(work_dir, 4100)
    clock.advance(10)
    assert reaper.step() == {}
    clock.advance(10)
    assert reaper.step() == {A: [4100]}


def test_what_an_epoch_lacks_is_waited_for_from_that_epoch_on(work_dir: Path, clock: ManualClock, news: News) -> None:
    """A worker that was away before may as well be the one that comes back and reads it."""
    service = Service()
    service.silent = {A}
    reaper = Reaper(work_dir, service, news, clock=clock)
    reaper.step()
    clock.advance(10)
    assert reaper.step() == {A: [4000]}
    written(work_dir, _over(4000))
    assert reaper.step() == {}
    clock.advance(100)
    assert reaper.step() == {}
    next_epoch(work_dir, 4100)
    news.short = {KEYS[1]}
    assert reaper.step() == {}
    clock.advance(59)
    assert reaper.step() == {}
    clock.advance(1)
    assert reaper.step() == {A: [4100]}


def test_who_is_gone_for_good_is_not_asked_for_ever(work_dir: Path, clock: ManualClock, news: News) -> None:
    service = Service()
    service.silent = {A}
    reaper = Reaper(work_dir, service, news, clock=clock)
    reaper.step()
    written(work_dir, _over(4000))
    for asked in ([A], [A], []):
        reaper.step()
        assert service.asked == asked
        clock.advance(300)


def test_a_session_that_a_reader_left_before_its_end_is_waited_for(work_dir: Path, news: News) -> None:
    service = Service()
    service.silent, news.left_early = {A}, {KEYS[0], KEYS[1]}
    reaper = Reaper(work_dir, service, news, Timeouts(worker_s=0), clock=news.clock)
    assert reaper.step() == {}
    news.left_early.discard(KEYS[1])
    assert reaper.step() == {A: [4000]}


def test_what_nobody_else_will_read_is_waited_for_longer(work_dir: Path, clock: ManualClock, news: News) -> None:
    """A worker that was lost after the end, with what it had not delivered: it may come back, but need not."""
    service = Service()
    service.silent, news.short = {A}, {KEYS[0], KEYS[1]}
    reaper = Reaper(work_dir, service, news, clock=clock)
    assert reaper.step() == {}
    clock.advance(59)
    assert reaper.step() == {}
    news.short.discard(KEYS[1])
    assert reaper.step() == {A: [4000]}, "another worker has read it"
    news.short.add(KEYS[1])
    assert reaper.step() == {}
    clock.advance(1)
    assert reaper.step() == {A: [4000]}, "nobody came"


def test_a_graph_without_our_op_is_left_alone(work_dir: Path, clock: ManualClock, news: News) -> None:
    (work_dir / "datasets" / "1000").write_bytes(b"...TFRecordDataset..." + graph(KEYS[1])[16:])
    service = Service()
    reaper = Reaper(work_dir, service, news, Timeouts(worker_s=0, unread_s=0), clock=clock)
    news.asked_at = {KEYS[1]: clock.now()}
    assert reaper.step() == {}
    service.silent = {A}
    assert reaper.step() == {}


def test_a_lost_worker_is_told_of_once_until_it_is_back(
    work_dir: Path, news: News, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service()
    news.left_early = {KEYS[1]}
    reaper = Reaper(work_dir, service, news, Timeouts(worker_s=0), news.clock)
    for silent in ({A}, {A}, set[str](), {A}):
        service.silent = silent
        reaper.step()
    assert [message for message in caplog.messages if "lost" in message] == [
        "worker a:1 is lost: epochs that others have read will end without it, others wait"
    ] * 2


def lost_and_back(reaper: Reaper, service: Service) -> None:
    service.silent = {A}
    assert reaper.step() == {}
    service.silent = set()
    assert reaper.step() == {}


def test_a_task_that_nobody_reads_any_more_is_finished_for_its_worker(
    work_dir: Path, clock: ManualClock, news: News
) -> None:
    """Its client had the end of it, but the worker was killed before it could say so; now it is back."""
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    news.asked_at = {KEYS[1]: clock.now()}
    lost_and_back(reaper, service)
    clock.advance(299)
    assert reaper.step() == {}
    clock.advance(1)
    assert reaper.step() == {A: [4000]}
    assert service.finished == [(A, [4000])]


def test_a_task_of_a_worker_that_was_not_lost_is_never_finished_for_it(
    work_dir: Path, clock: ManualClock, news: News
) -> None:
    """What stands behind the source may have destroyed it at its end, and holds what the trainer has yet to take."""
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    news.asked_at = {KEYS[1]: clock.now()}
    service.silent = {B, C}
    for _ in range(3):
        assert reaper.step() == {}
        clock.advance(100_000)
    assert (reaper.step(), news.looks) == ({}, 0)


def test_a_worker_that_was_lost_while_the_dispatcher_was_away_is_known_by_its_lack_of_tasks(
    work_dir: Path, clock: ManualClock, news: News
) -> None:
    """It waits for the dispatcher, and is told its task again before anybody looks for the second time."""
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    news.asked_at = {KEYS[1]: clock.now()}
    service.anew = {A}
    reaper.look()
    service.anew = set()
    assert reaper.step() == {}
    clock.advance(300)
    assert reaper.step() == {A: [4000]}


def test_a_worker_that_was_lost_before_the_end_is_none_that_was_lost_at_it(
    work_dir: Path, clock: ManualClock, news: News
) -> None:
    file = work_dir / journal.JOURNAL_DIR / "journal_0"
    whole = file.read_bytes()
    end_of_b = [end for end, _ in journal.whole_records(whole)][-2]
    file.write_bytes(whole[:end_of_b])
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    news.asked_at = {KEYS[1]: clock.now()}
    lost_and_back(reaper, service)
    file.write_bytes(whole)
    reaper.step()
    clock.advance(1000)
    assert reaper.step() == {}
    lost_and_back(reaper, service)
    clock.advance(300)
    assert reaper.step() == {A: [4000]}


def test_a_task_is_left_alone_while_its_session_is_read(work_dir: Path, clock: ManualClock, news: News) -> None:
    """A trainer that takes its time: the worker's reader is there. And one that came back asks for what is missing."""
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    lost_and_back(reaper, service)
    clock.advance(1000)
    assert reaper.step() == {}, "its session is none of the quiet ones"
    news.asked_at = {KEYS[1]: clock.now()}
    clock.advance(299)
    assert reaper.step() == {}
    clock.advance(31)
    assert reaper.step() == {A: [4000]}
    assert news.looks == 3, "not at each step"


def test_all_sources_of_a_pipeline_must_be_quiet(work_dir: Path, clock: ManualClock, news: News) -> None:
    """One after the other, say: the first is over, and the second one has not begun."""
    (work_dir / "datasets" / "1000").write_bytes(graph(KEYS[0], KEYS[1]))
    service = Service()
    reaper = Reaper(work_dir, service, news, clock=clock)
    news.asked_at = {KEYS[1]: clock.now()}
    lost_and_back(reaper, service)
    clock.advance(1000)
    assert reaper.step() == {}
    news.asked_at[KEYS[0]] = 0.0
    clock.advance(30)
    assert reaper.step() == {A: [4000]}


def test_a_worker_that_is_away_now_and_then_has_its_time_anew(work_dir: Path, clock: ManualClock, news: News) -> None:
    service = Service()
    reaper = Reaper(work_dir, service, news, Timeouts(worker_s=1000), clock=clock)
    news.asked_at = {KEYS[1]: clock.now()}
    lost_and_back(reaper, service)
    clock.advance(299)
    lost_and_back(reaper, service)
    clock.advance(299)
    assert reaper.step() == {}
    clock.advance(300)
    assert reaper.step() == {A: [4000]}
