"""What waits for a log that cannot be written is bounded, and brings the same as all that was told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.unit.test_dispatchers_restart import UNIX_S
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo, ServiceWorker
from tfquiver.proto.tfquiver.v1.types_pb2 import NodeInfo
from tfquiver.service.coordinator.commit_log.latest_notes import LatestNotes
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers import SILENT_DISPATCHER_S, Dispatchers
from tfquiver.service.coordinator.nodes_mounts_dispatchers.lost_nodes import LostNodes
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership


class Log:
    def __init__(self) -> None:
        self.records: list[CommitRecord] = []
        self.full = False
        self.notes = LatestNotes(self.records.append, lambda: self.full)

    @property
    def size_bytes(self) -> int:
        return sum(record.ByteSize() for record in self.records)


def lost(records: Iterable[CommitRecord]) -> list[tuple[str, list[str], int]]:
    kept = Dispatchers(ManualClock(), lambda: UNIX_S, lambda record: None)
    for record in records:
        kept.apply(record.dispatcher_known)
    kept.restored()
    still = [record.dispatcher_known for record in kept.still()()]
    return sorted((one.address, sorted(one.workers), one.heard_s) for one in still)


@pytest.mark.slow
def test_a_dispatcher_that_is_silent_and_back_for_a_day_while_the_disk_is_full_leaves_one_record() -> None:
    log, told, clock = Log(), list[CommitRecord](), ManualClock()

    def both(record: CommitRecord) -> None:
        told.append(CommitRecord.FromString(record.SerializeToString()))
        log.notes.add(record)

    kept = Dispatchers(clock, lambda: UNIX_S + clock.now(), both)
    workers = [ServiceWorker(address=f"w:{number}") for number in range(1000)]
    kept.report(DispatcherInfo(address="d:1", workers=workers))
    kept.report(DispatcherInfo(address="d:2", workers=workers[:3]))
    log.full = True
    kept.leave("d:2")
    for number in range(500):
        clock.advance(SILENT_DISPATCHER_S)
        kept.lost()
        clock.advance(60)
        kept.report(DispatcherInfo(address="d:1", workers=workers[number:]))
    assert len(told) > 1000
    assert len(log.records) == 2
    log.full = False
    assert log.notes.flush()
    assert not log.notes.flush(), "once"
    assert len(log.records) == 4
    assert lost(log.records) == lost(told)


def test_the_workers_that_wait_are_not_lost_with_a_record_that_says_they_are_as_before() -> None:
    log = Log()
    log.full = True
    log.notes.add(CommitRecord(dispatcher_known=log_pb2.DispatcherKnown(address="d:1", workers=["w:1"])))
    log.notes.add(
        CommitRecord(dispatcher_known=log_pb2.DispatcherKnown(address="d:1", heard_s=5, workers_as_before=True))
    )
    log.notes.flush()
    known = log_pb2.DispatcherKnown(address="d:1", workers=["w:1"], heard_s=5)
    assert log.records == [CommitRecord(dispatcher_known=known)]
    for heard_s in (6, 0):  # of a dispatcher whose workers the log has
        log.notes.add(
            CommitRecord(
                dispatcher_known=log_pb2.DispatcherKnown(address="d:1", heard_s=heard_s, workers_as_before=True)
            )
        )
    log.notes.flush()
    known = log_pb2.DispatcherKnown(address="d:1", workers_as_before=True)
    assert log.records[1:] == [CommitRecord(dispatcher_known=known)]


def test_what_is_told_after_the_disk_has_room_comes_behind_what_waited() -> None:
    log = Log()
    first, second = (CommitRecord(dispatcher_known=log_pb2.DispatcherKnown(address="d:1", version=v)) for v in "12")
    log.full = True
    log.notes.add(first)
    log.full = False
    log.notes.add(second)
    assert log.records == [first, second]


@pytest.mark.slow
def test_a_thousand_nodes_that_come_and_go_while_the_disk_is_full_wait_once_each() -> None:
    log, clock = Log(), ManualClock()
    log.full = True
    members = Membership(clock, 10.0, lost=LostNodes(clock, clock.now, log.notes.add))
    for _ in range(5):
        for number in range(1000):
            members.heartbeat(NodeInfo(node_id=f"node-{number}", control_address=f"n{number}:1", quota_bytes=9), "1")
        clock.advance(10)
        members.expire()
    log.notes.flush()
    assert len(log.records) == 1000


def test_of_too_many_the_first_are_dropped() -> None:
    log = Log()
    notes = LatestNotes(log.records.append, lambda: True, most_bytes=10_000)
    for number in range(1000):
        notes.add(CommitRecord(dispatcher_known=log_pb2.DispatcherKnown(address=f"pod-{number}:1", gone=True)))
    notes.flush()
    assert 9_000 < log.size_bytes <= 10_000
    assert log.records[-1].dispatcher_known.address == "pod-999:1"
