"""Tells coordinators of this process's steps, now and then, on a thread of its own. Nothing here stops a training.

The thread begins with the first step and ends when no step has been made for ten minutes, when the data sets are gone,
or with the process; it begins again with the next step. A forked child begins anew.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import grpc
from absl import logging

from tfquiver import errors
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.data_sources_found_and_registered import made_datasets
from tfquiver.grpc_plumbing import rpc
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.tensorflow_client.step_times.step_counts import StepCounts, StepTotals

_FIRST_S, _INTERVAL_S = 1.0, 5.0
_LEAST_S, _MOST_S = 1.0, 60.0  # of what a coordinator asks for
_OLD_S = 600.0  # until a coordinator that does not know the call is asked again: it may be another one by then
_IDLE_S = 600.0
_LOOK_S = 0.5
_ASK_AGAIN_S = 0.25
_AGAIN_S = 5.0  # until it is looked again whether there is somebody to tell
_CALL_S = 3.0
_END_S = 1.0
_MOST_TOLD = 16  # data sets without a job's name, the newest

Reply = coordinator_pb2.ReportStepsReply


@dataclass(frozen=True, slots=True)
class Told:
    """One round: `totals` were told; `reply` is that of the job that has read most, None: nobody answered."""

    totals: StepTotals
    reply: Reply | None


@dataclass(frozen=True, slots=True)
class _Target:
    coordinator: str
    token: str
    session_key: str
    job: str


@dataclass(slots=True, eq=False)
class Subject:
    """What is told: `job` None: of all data sets that this process has made, but for jobs that are told of themselves.
    `where`: the cluster (an address or a cache directory) that is told where there is no data set of that job; empty:
    nobody is."""

    job: str | None
    counts: StepCounts = field(default_factory=StepCounts)
    where: str = ""
    token: str = ""
    told: Told | None = None
    watched: bool = False
    resting: bool = False  # its training is over
    watch_at: float = 0.0
    due_at: float = 0.0
    said: bool = False  # that there is nobody to tell
    asked: threading.Event | None = None  # set when it has been told once more
    not_before: dict[str, float] = field(default_factory=dict)  # by coordinator
    failing: set[str] = field(default_factory=set)  # coordinators

    def __deepcopy__(self, memo: dict[int, Any]) -> Subject:
        """The one of this process: tuners copy callbacks for each trial."""
        return self

    def targets(self) -> list[_Target]:
        found: dict[tuple[str, str], _Target] = {}
        for data in made_datasets.made():
            if data.job == self.job or (self.job is None and not _told_of_itself(data.job)):
                target = _Target(data.coordinator, data.token, data.session_key, data.known_as)
                found.pop(key := (data.coordinator, data.known_as), None)
                found[key] = target
        if not found and self.where and self.job:
            return [_Target(coordinator_address(self.where), self.token, "", self.job)]
        return list(found.values())[-_MOST_TOLD:]


def _told_of_itself(job: str) -> bool:
    own = _subjects.get(job) if job else None
    return own is not None and own.watched and not own.resting


class Reporter:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._subjects: list[Subject] = []
        self._closing = False
        self._ended = threading.Event()  # with _closing
        self._call: Any = None
        self._channels: dict[str, grpc.Channel] = {}

    def watch(self, subject: Subject) -> None:
        """Cheap when it is watched already, and when there has just been nobody to tell."""
        now = time.monotonic()
        if subject.watched or now < subject.watch_at:
            return
        with self._lock:
            if subject.watched or self._closing:
                return
            subject.watched, subject.due_at = True, now + _FIRST_S
            subject.failing.clear()  # what was so long ago may be otherwise
            self._subjects.append(subject)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tfquiver steps", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as error:  # no more threads, or the process is ending
                    logging.warning("step times are not told: %s", error)
                    self._thread = None
                    self._leave(subject)

    def tell_once_more(self, subject: Subject, timeout_s: float) -> None:
        """Waits until it has been told and knows the job, but not for long, and not for a coordinator that was away the
        last time. Of a short run the coordinator hears from the node first what was read, with its next heartbeat."""
        until = time.monotonic() + timeout_s
        while subject.watched and not subject.failing and not self._closing:
            subject.asked = asked = threading.Event()
            self._wake.set()
            asked.wait(max(until - time.monotonic(), 0.0))
            told = subject.told
            left_s = until - time.monotonic()
            if left_s <= 0 or (told is not None and told.reply is not None and told.reply.read_bytes):
                return
            self._ended.wait(min(_ASK_AGAIN_S, left_s))

    def close(self) -> None:
        with self._lock:
            self._closing = True
            self._ended.set()
            thread, call = self._thread, self._call
        self._wake.set()
        if call is not None:
            call.cancel()
        if thread is not None:
            thread.join(_END_S)

    # The thread's.

    def _run(self) -> None:
        channels = self._channels
        try:
            while self._goes_on():
                for subject in list(self._subjects):
                    asked, subject.asked = subject.asked, None
                    if asked or time.monotonic() >= subject.due_at:
                        self._tell(subject)
                    if asked:
                        asked.set()
                self._wake.wait(_LOOK_S)
                self._wake.clear()
        except Exception:  # noqa: BLE001 - the thread's boundary: the training goes on
            logging.exception("step times are told no more")
            self._closing = True  # nobody waits for it
            self._ended.set()
        finally:
            for channel in channels.values():
                channel.close()

    def _goes_on(self) -> bool:
        over = [one for one in self._subjects if one.resting or one.counts.idle_s() > _IDLE_S or not _to_tell(one)]
        for one in over:
            if one.told is None and not one.said and not one.resting:
                what = "data set" if one.job is None else f"data set of job {one.job!r}"
                logging.warning("step times are told to nobody: this process has made no %s", what)
                one.said = True
        with self._lock:
            for one in over:
                self._leave(one)
            if self._subjects and not self._closing:
                return True
            self._thread, self._channels = None, {}  # a thread that begins now makes its own
            return False

    def _leave(self, subject: Subject) -> None:
        self._subjects.remove(subject)
        subject.watched, subject.watch_at = False, 0.0 if subject.resting else time.monotonic() + _AGAIN_S

    def _tell(self, subject: Subject) -> None:
        counts, replies, pause_s = subject.counts, list[Reply](), _INTERVAL_S
        totals = counts.totals
        for target in _to_tell(subject):
            if time.monotonic() < subject.not_before.get(target.coordinator, 0.0):
                continue
            request = coordinator_pb2.ReportStepsRequest(
                session_key=target.session_key,
                job=target.job,
                process=counts.process,
                steps=totals.steps,
                step_us=int(totals.step_s * 1e6),
                between_us=int(totals.between_s * 1e6),
                records=totals.records,
                accelerators=counts.accelerators,
                waits_inside=counts.waits_inside,
            )
            if (reply := self._ask(subject, target, request)) is not None:
                replies.append(reply)
                pause_s = min(max(reply.interval_ms / 1000, _LEAST_S), _MOST_S)
        best = max(replies, key=lambda one: one.read_bytes, default=None)
        subject.told = Told(totals, best if best is not None and best.known else None)
        subject.due_at = time.monotonic() + pause_s

    def _ask(
        self, subject: Subject, target: _Target, request: coordinator_pb2.ReportStepsRequest
    ) -> coordinator_pb2.ReportStepsReply | None:
        where = target.coordinator
        if where not in self._channels:
            self._channels[where] = rpc.channel(where)
        stub = coordinator_pb2_grpc.CoordinatorStub(self._channels[where])
        try:
            call: Any = stub.ReportSteps.future(request, timeout=_CALL_S, metadata=tuple(rpc.metadata(target.token)))
            with self._lock:
                self._call = call
                if self._closing:
                    call.cancel()
            reply: Reply = call.result()
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            self._failed(subject, where, error)
            return None
        subject.failing.discard(where)
        return reply

    def _failed(self, subject: Subject, where: str, error: Any) -> None:
        """Said once, until it answers again."""
        if isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.UNIMPLEMENTED:
            subject.not_before[where] = time.monotonic() + _OLD_S
        if where not in subject.failing and not self._closing:
            subject.failing.add(where)
            said = rpc.from_rpc_error(error, "") if isinstance(error, grpc.RpcError) else error
            logging.warning("the coordinator at %s is not told of step times; training goes on%s", where, said)


def _to_tell(subject: Subject) -> list[_Target]:
    try:
        return subject.targets()
    except errors.TfquiverError as error:  # no node runs in the directory, for one
        every_n_seconds(logging.WARNING, "step times are told to nobody: %s", 600, error)
        return []


_lock = threading.Lock()
_reporter = Reporter()
_subjects: dict[str | None, Subject] = {}
_left_behind: list[Reporter] = []


def subject_of(job: str | None) -> Subject:
    """The one of this process."""
    found = _subjects.get(job)
    if found is None:
        with _lock:
            found = _subjects.setdefault(job, Subject(job))
    return found


def subjects() -> list[Subject]:
    """Those of this process."""
    with _lock:
        return list(_subjects.values())


def reporter() -> Reporter:
    return _reporter


def _begin_anew() -> None:
    """In a forked child: its parent's thread is not there, and its locks may be held for ever."""
    global _lock, _reporter
    _left_behind.append(_reporter)  # to close its parent's channels would disturb the parent's calls
    _lock, _reporter = threading.Lock(), Reporter()
    _subjects.clear()


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(lambda: _reporter.close())
