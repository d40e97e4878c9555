"""Who tells of steps: one that is not understood, or not there, is a line in the log; the thread ends with its work."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.cluster import wait_until
from tfquiver.data_sources_found_and_registered import made_datasets
from tfquiver.data_sources_found_and_registered.made_datasets import MadeDataset
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.tensorflow_client.step_times import step_reports
from tfquiver.tensorflow_client.step_times.step_reports import Reporter, Subject
from tfquiver.tensorflow_client.step_times.steps import step


class Newer(coordinator_pb2_grpc.CoordinatorServicer):
    def __init__(self) -> None:
        self.asked: list[pb.ReportStepsRequest] = []

    def ReportSteps(self, request: pb.ReportStepsRequest, context: Any) -> pb.ReportStepsReply:  # type: ignore[override]
        self.asked.append(request)
        return pb.ReportStepsReply(interval_ms=0, known=request.job != "other", read_bytes=len(self.asked))


class Serving:
    def __init__(self, address: str, servicer: Any) -> None:
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        if servicer:
            coordinator_pb2_grpc.add_CoordinatorServicer_to_server(servicer, self._server)
        self._server.add_insecure_port(address)
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/socket"


@pytest.fixture(autouse=True)
def reporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reporter]:
    """One of this test, as a process has it."""
    made = Reporter()
    monkeypatch.setattr(step_reports, "_reporter", made)
    monkeypatch.setattr(step_reports, "_subjects", {})
    monkeypatch.setattr(step_reports, "_FIRST_S", 0.0)
    yield made
    for data in made_datasets.made():
        made_datasets.forget(data)
    made.close()


def made(address: str, job: str = "job", key: str = "key") -> None:
    made_datasets.remember(MadeDataset(job, key, address, "", ""))


def makes_steps(job: str | None = None, steps: int = 3) -> Subject:
    for _ in range(steps):
        with step(job, records=4, accelerators=2):
            pass
    return step_reports.subject_of(job)


def told(subject: Subject) -> step_reports.Told:
    wait_until(lambda: subject.told is not None, "it is told")
    assert subject.told
    return subject.told


def test_each_job_of_the_process_is_told_by_its_newest_key(address: str, reporter: Reporter) -> None:
    servicer = Newer()
    server = Serving(address, servicer)
    made(address), made(address, key="newer"), made(address, "other", "key of the other"), made(address, "", "f" * 40)
    subject = makes_steps()
    assert told(subject).reply
    asked = {one.job: one for one in servicer.asked}
    assert {job: one.session_key for job, one in asked.items()} == {
        "job": "newer", "other": "key of the other", "job-" + "f" * 12: "f" * 40,
    }  # fmt: skip
    reporter.tell_once_more(subject, 30.0)
    last = servicer.asked[-1]
    assert (last.steps, last.records, last.accelerators, last.waits_inside) == (2, 8, 2, False)
    server.stop()


def test_a_coordinator_of_before_is_asked_once_and_said_so_once(
    address: str, reporter: Reporter, caplog: pytest.LogCaptureFixture
) -> None:
    server = Serving(address, None)
    made(address)
    subject = makes_steps()
    with caplog.at_level(logging.WARNING):
        assert told(subject).reply is None
    assert "older version" in caplog.text
    assert subject.not_before[address] > subject.due_at
    reporter.tell_once_more(subject, 30.0)
    assert len(caplog.records) == 1
    server.stop()


def test_one_that_is_away_stops_nothing_and_is_told_when_it_is_back(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_reports, "_INTERVAL_S", 0.1)
    made(address)
    with caplog.at_level(logging.WARNING):
        subject = makes_steps()
        first = told(subject)
        wait_until(lambda: subject.told is not first, "it is tried again")
    assert subject.told
    assert subject.told.reply is None
    assert len(caplog.records) == 1, "said once"
    server = Serving(address, servicer := Newer())
    wait_until(lambda: bool(servicer.asked), "it is told")
    server.stop()


def test_the_thread_ends_with_the_data_sets_and_begins_again(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_reports, "_AGAIN_S", 0.0)
    server = Serving(address, servicer := Newer())
    made(address)
    subject = makes_steps("job")
    told(subject)
    [made_datasets.forget(data) for data in made_datasets.made()]
    wait_until(lambda: not subject.watched and not _threads(), "the thread ends")
    made(address)
    before = len(servicer.asked)
    makes_steps("job")
    wait_until(lambda: len(servicer.asked) > before, "it is told again")
    server.stop()


def test_a_process_without_data_sets_names_the_cluster(address: str) -> None:
    server = Serving(address, servicer := Newer())
    subject = step_reports.subject_of("far")
    subject.where = address
    makes_steps("far")
    assert told(subject).reply
    assert (servicer.asked[0].job, servicer.asked[0].session_key) == ("far", "")
    subject.where = ""
    server.stop()


def test_who_has_nobody_to_tell_only_trains(reporter: Reporter, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        subject = makes_steps("alone", steps=100)
        wait_until(lambda: subject.said, "it is said")
    assert "no data set of job 'alone'" in caplog.text
    assert subject.counts.totals.steps == 99
    subject.where = "/nowhere"
    makes_steps("alone")
    reporter.close()
    makes_steps("alone")
    assert subject.counts.totals.steps == 105


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tfquiver steps"]


def test_the_next_thread_has_channels_of_its_own(
    address: str, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before may still be closing its own."""
    monkeypatch.setattr(step_reports, "_AGAIN_S", 0.0)
    server = Serving(address, Newer())
    made(address)
    told(makes_steps("job"))
    before = reporter._channels
    [made_datasets.forget(data) for data in made_datasets.made()]
    wait_until(lambda: not _threads(), "the thread ends")
    assert before and reporter._channels is not before
    server.stop()


def test_nobody_waits_for_a_thread_that_has_failed(
    address: str, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(subject: Subject) -> None:
        raise ValueError("nobody thought of that")

    monkeypatch.setattr(reporter, "_tell", fails)
    made(address)
    subject = makes_steps("job")
    wait_until(lambda: not _threads(), "the thread ends")
    began = time.monotonic()
    reporter.tell_once_more(subject, 30.0)
    assert time.monotonic() - began < 10.0
