"""A worker that is killed after its trainer was given the end of a task, and before the dispatcher was told.

TensorFlow's worker tells both at once. Here the dispatcher is away meanwhile, so that the worker surely dies between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.late_service import RECORDS_A_FILE, LateService, ended, launch
from tests.support.relay import Relay, relay
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.service.dispatcher.journal import journal_reader

FILES = 2
TOTAL = FILES * RECORDS_A_FILE
READAHEAD_BYTES = 50_000
UNREAD_S = 1.5
GIVES_THE_END = "Reached end_of_sequence for task"


SAYS = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "worker_impl=3"}  # in workers' logs: what they answer


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LateService]:
    """Not started."""
    with LateService(tmp_path, [f"--unread_task_timeout_ms={int(1000 * UNREAD_S)}"], SAYS) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_the_epoch_ends_all_the_same(service: LateService, workers: int) -> None:
    service.start(workers)
    journal = journal_reader.JournalFollower(service.work_dir / journal_reader.JOURNAL_DIR)
    shared = service.distributed(service.source(FILES, READAHEAD_BYTES))
    reader = numbered.EpochReader(shared, step_s=0.15)

    def dispatcher_knows() -> bool:
        return any(isinstance(update, journal_reader.SplitProduced) and update.end for update in journal.poll())

    wait_until(dispatcher_knows, "the end of the source")
    service.dispatcher.kill()
    assert reader.reached(1) < TOTAL, "the trainer is behind its workers"
    at_end: list[int] = []

    def one_gave_the_end() -> bool:
        logs = [service.worker_log(number).read_text() for number in range(workers)]
        at_end[:] = [number for number, log in enumerate(logs) if GIVES_THE_END in log]
        return bool(at_end)

    wait_until(one_gave_the_end, "the end of a task")
    worker = service.workers[at_end[0]]
    worker.kill()
    launch([service.dispatcher, worker] if workers > 1 else [worker, service.dispatcher])
    lost, _ = numbered.lost_and_duplicates(reader.result(), TOTAL)
    assert lost == 0


def killed_after_its_end(
    tmp_path: Path, service: LateService, way: Relay, distributed: Callable[[Any], Any], with_dispatcher: bool = False
) -> numbered.EpochReader:
    """Its only worker, which did not reach the dispatcher when it gave its trainer the end, and is back."""
    service.start_workers(1, way.address)
    journal = journal_reader.JournalFollower(service.work_dir / journal_reader.JOURNAL_DIR)
    reader = numbered.EpochReader(distributed(service.source(FILES, READAHEAD_BYTES)), step_s=0.15)

    def dispatcher_knows() -> bool:
        return any(isinstance(update, journal_reader.SplitProduced) and update.end for update in journal.poll())

    wait_until(dispatcher_knows, "the end of the source")
    way.cut()
    assert reader.reached(1) < TOTAL, "the trainer is behind its worker"
    wait_until(lambda: GIVES_THE_END in service.worker_log(0).read_text(), "the end of its task", 60)
    service.workers[0].kill()
    if with_dispatcher:
        service.dispatcher.kill()
    way.mend()
    if not with_dispatcher:
        lost = f"worker {service.workers[0].address} is lost"
        wait_until(lambda: lost in (tmp_path / "dispatcher.log").read_text(), "it is called lost")
    launch([service.dispatcher, *service.workers] if with_dispatcher else service.workers)
    return reader


@pytest.mark.long
@pytest.mark.parametrize("with_dispatcher", [False, True])
def test_a_trainer_that_waits_says_so_and_is_not_kept_for_minutes(tmp_path: Path, with_dispatcher: bool) -> None:
    """With the usual limits. With the dispatcher it took 150 s: that did not know for how long the worker was away."""
    with LateService(tmp_path, env=SAYS) as service:
        service.start_dispatcher()
        with relay(service.dispatcher.address) as way:
            reader = killed_after_its_end(tmp_path, service, way, service.distributed, with_dispatcher)
            began_s = time.monotonic()
            records_lost, _ = numbered.lost_and_duplicates(reader.result(90), TOTAL)
            assert records_lost == 0
            assert time.monotonic() - began_s < 60
            said = (tmp_path / "dispatcher.log").read_text()
            assert "nobody has asked for its tasks" in said
            assert "who waits for it has had all that it has" in said


@pytest.mark.long
def test_tensorflows_own_client_waits_longer_and_it_is_said_for_what(tmp_path: Path) -> None:
    """Minutes passed without a word in any log, or in the status."""
    with LateService(tmp_path, ["--unread_task_timeout_ms=30000"], SAYS) as service:
        service.start_dispatcher()
        with relay(service.dispatcher.address) as way:
            stock = tf.data.experimental.service.distribute(
                "distributed_epoch", f"grpc://{service.dispatcher.address}", compression=None
            )
            reader = killed_after_its_end(tmp_path, service, way, lambda source: source.apply(stock))
            coordinator = service.cluster.coordinator.address
            waits = f"worker {service.workers[0].address} of dispatcher "

            def is_said() -> bool:
                problems = status.collect(coordinator)["problems"]
                return any(one.startswith(waits) and "asked for the rest of its part" in one for one in problems)

            wait_until(is_said, "the status says what is waited for", 60)
            assert "does not say (as with TensorFlow's own distribute)" in (tmp_path / "dispatcher.log").read_text()
            records_lost, _ = numbered.lost_and_duplicates(reader.result(90), TOTAL)
            assert records_lost == 0
            wait_until(lambda: not is_said(), "it is over", 20)


def test_a_trainer_that_pauses_loses_nothing(service: LateService) -> None:
    """For longer than a task may be left unread, with its last elements in the workers."""
    service.start()
    elements = iter(service.distributed(service.source(FILES, READAHEAD_BYTES)))
    seen = [numbered.numbers(next(elements))]
    while not ended(service.cluster, 0):
        seen.append(numbered.numbers(next(elements)))
    time.sleep(3 * UNREAD_S)
    rest = [numbered.numbers(element) for element in elements]
    assert rest, "the trainer was behind its workers"
    numbered.assert_each_once(np.concatenate(seen + rest), TOTAL)


def test_a_trainer_that_pauses_loses_nothing_of_what_stands_behind_the_source(service: LateService) -> None:
    """`batch` destroys the source at its end: nobody reads from the session any more, but the workers have elements."""
    read = service.start().source(FILES, READAHEAD_BYTES).unbatch().batch(20).prefetch(100)
    elements = iter(service.distributed(read))
    seen = [numbered.numbers(next(elements))]

    def nobody_reads() -> bool:
        sessions = node_calls.sessions(service.cluster.coordinator.address)
        return all(session.ended and not session.readers for session in sessions)

    wait_until(nobody_reads, "the end of the session, and of all of its readers")
    time.sleep(3 * UNREAD_S)
    rest = [numbered.numbers(element) for element in elements]
    assert rest, "the trainer was behind its workers"
    numbered.assert_each_once(np.concatenate(seen + rest), TOTAL)
