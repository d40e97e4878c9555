"""Dispatchers that are missed are missed by a coordinator that is started again, too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo, ServiceWorker
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers import (
    FORGOTTEN_S,
    MAX_DISPATCHERS,
    MAX_WORKERS,
    SILENT_DISPATCHER_S,
    Dispatchers,
)

DAY_S = 86_400.0
UNIX_S = 1_700_000_000.0


class Coordinator:
    """One after the other, over one log; each one's own clock begins anew."""

    def __init__(self, log: Sequence[log_pb2.CommitRecord] = (), unix_s: float = UNIX_S) -> None:
        self.clock, self.log, self.ahead_s = ManualClock(3.0), list(log), unix_s - 3.0
        self.kept = Dispatchers(self.clock, lambda: self.clock.now() + self.ahead_s, self.log.append)
        for record in log:
            self.kept.apply(record.dispatcher_known)
        self.kept.restored()

    def killed(self, compacted: bool, away_s: float = 5.0) -> Coordinator:
        log = [log_pb2.CommitRecord.FromString(one.SerializeToString()) for one in self._left(compacted)]
        return Coordinator(log, self.clock.now() + self.ahead_s + away_s)

    def _left(self, compacted: bool) -> list[log_pb2.CommitRecord]:
        return list(self.kept.still()()) if compacted else self.log

    @property
    def missed(self) -> dict[str, int]:
        """Silent for so many seconds."""
        return {one.address: round(one.silent_ms / 1000) for one in self.kept.lost()}


def report(coordinator: Coordinator, address: str, *workers: str, version: str = "1.2") -> None:
    its = [ServiceWorker(address=worker) for worker in workers]
    coordinator.kept.report(DispatcherInfo(address=address, version=version, workers=its))


compacted = pytest.mark.parametrize("compacted", [False, True])


@compacted
@pytest.mark.parametrize("silent_s", [SILENT_DISPATCHER_S, FORGOTTEN_S])
def test_who_is_missed_is_missed_for_a_day_however_often_the_coordinator_is_started(
    compacted: bool, silent_s: float
) -> None:
    coordinator = Coordinator()
    report(coordinator, "d:1", "w:1")
    coordinator.clock.advance(silent_s)
    assert coordinator.missed == {"d:1": silent_s}
    for _ in range(3):
        coordinator = coordinator.killed(compacted, 3600.0)
    assert coordinator.missed == {"d:1": 3 * 3600 + silent_s}
    assert [one.version for one in coordinator.kept.lost()] == ["1.2"]
    coordinator.clock.advance(DAY_S - 3 * 3600 - silent_s - 1)
    assert coordinator.missed
    coordinator.clock.advance(1)
    assert not coordinator.missed
    assert not coordinator.killed(compacted).missed


@compacted
def test_who_died_while_no_coordinator_was_there_is_missed(compacted: bool) -> None:
    coordinator = Coordinator()
    for address in ("d:1", "d:2"):
        report(coordinator, address)
    coordinator = coordinator.killed(compacted)
    assert not coordinator.missed, "nobody had the time to tell of itself"
    coordinator.clock.advance(SILENT_DISPATCHER_S / 2)
    report(coordinator, "d:2")
    coordinator.clock.advance(SILENT_DISPATCHER_S / 2)
    assert coordinator.missed.keys() == {"d:1"}
    coordinator.clock.advance(3600)
    report(coordinator, "d:2")
    assert coordinator.killed(compacted).missed == {"d:1": 3600 + SILENT_DISPATCHER_S + 5}, "since when is known, too"


@compacted
@pytest.mark.parametrize("restarts", [1, 3])
def test_who_left_is_back_or_was_replaced_is_not_missed_later(compacted: bool, restarts: int) -> None:
    coordinator = Coordinator()
    for number in range(3):
        report(coordinator, f"d:{number}", f"w:{number}")
    coordinator.clock.advance(FORGOTTEN_S)
    assert len(coordinator.missed) == 3
    coordinator.kept.leave("d:0")
    report(coordinator, "d:1", "w:1")
    report(coordinator, "new:2", "w:2")
    for _ in range(restarts):
        coordinator = coordinator.killed(compacted)
        report(coordinator, "d:1", "w:1")
        report(coordinator, "new:2", "w:2")
    coordinator.clock.advance(SILENT_DISPATCHER_S - 1)
    assert coordinator.missed == {}


@compacted
def test_one_that_began_at_another_address_while_no_coordinator_was_there_has_taken_its_place(compacted: bool) -> None:
    """Its workers came after it was first told of."""
    coordinator = Coordinator()
    report(coordinator, "d:1")
    for _ in range(30):
        coordinator.clock.advance(2)
        report(coordinator, "d:1")
    report(coordinator, "d:1", "w:1")
    coordinator = coordinator.killed(compacted)
    coordinator.clock.advance(20)
    assert coordinator.missed.keys() == {"d:1"}
    report(coordinator, "d:2", "w:1")
    assert not coordinator.missed


@compacted
@pytest.mark.parametrize("silent_s", [0.0, FORGOTTEN_S])
def test_one_that_was_there_before_a_restart_has_not_taken_the_place_of_whose_worker_it_shares(
    compacted: bool, silent_s: float
) -> None:
    """Of a worker that left d:2 for d:1 long ago both tell; of another one only d:2 did. It dies with the coordinator,
    or before it."""
    coordinator = Coordinator()
    report(coordinator, "d:2", "w:1", "w:2")
    report(coordinator, "d:1", "w:1")
    for _ in range(int(silent_s)):
        coordinator.clock.advance(1)
        report(coordinator, "d:1", "w:1")
    coordinator = coordinator.killed(compacted)
    for _ in range(int(SILENT_DISPATCHER_S)):
        report(coordinator, "d:1", "w:1")
        coordinator.clock.advance(1)
    assert coordinator.missed.keys() == {"d:2"}
    report(coordinator, "d:1", "w:1", "w:2")
    assert not coordinator.missed, "it has all of them"


@pytest.mark.parametrize("set_by_s", [-2 * UNIX_S, -7200.0, 7200.0])
def test_a_clock_that_is_set_keeps_nobody_for_longer_than_a_day(set_by_s: float) -> None:
    coordinator = Coordinator()
    report(coordinator, "d:1")
    coordinator.clock.advance(FORGOTTEN_S)
    assert coordinator.missed
    coordinator.ahead_s += set_by_s
    coordinator = coordinator.killed(compacted=False)
    coordinator.clock.advance(SILENT_DISPATCHER_S)
    assert coordinator.missed == {"d:1": SILENT_DISPATCHER_S if set_by_s < 0 else 7200 + 30 + 5 + SILENT_DISPATCHER_S}
    coordinator.clock.advance(DAY_S)
    assert not coordinator.missed


def test_what_is_said_again_is_not_written_again_nor_at_each_worker_that_comes() -> None:
    coordinator = Coordinator()
    for number in range(50):
        report(coordinator, "d:1", *(f"w:{worker}" for worker in range(number)))
        coordinator.clock.advance(2)
    assert len(coordinator.log) == 2
    for _ in range(1000):
        report(coordinator, "d:1", *(f"w:{worker}" for worker in range(49)))
        coordinator.clock.advance(2)
    assert len(coordinator.log) == 3
    coordinator.kept.leave("nobody's")
    assert len(coordinator.log) == 3


def test_what_a_log_brings_has_its_bounds() -> None:
    """One that was written by whoever had no such bounds, or was not compacted for long."""
    log = [
        log_pb2.CommitRecord(
            dispatcher_known=log_pb2.DispatcherKnown(
                address=f"d:{number}", heard_s=int(UNIX_S) - 9000 + number, workers=[f"w:{n}" for n in range(150)]
            )
        )
        for number in range(2 * MAX_DISPATCHERS)
    ]
    coordinator = Coordinator(log)
    assert coordinator.missed.keys() == {f"d:{number}" for number in range(MAX_DISPATCHERS, 2 * MAX_DISPATCHERS)}
    assert sum(len(record.dispatcher_known.workers) for record in coordinator.kept.still()()) <= MAX_WORKERS


@compacted
def test_who_is_gone_for_good_is_forgotten_also_after_a_restart(compacted: bool) -> None:
    coordinator = Coordinator()
    report(coordinator, "a:1")
    report(coordinator, "b:1")
    coordinator.clock.advance(FORGOTTEN_S)
    report(coordinator, "silent:1")
    coordinator.clock.advance(SILENT_DISPATCHER_S)
    report(coordinator, "lives:1")
    assert coordinator.kept.forget(["a:1", "nobody:1"]) == ["a:1"]
    assert coordinator.kept.forget(["a:1"]) == []
    with pytest.raises(errors.InUseError, match="dispatcher lives:1 tells of itself: stop it, or "):
        coordinator.kept.check_lost(["b:1", "lives:1"])
    assert coordinator.missed.keys() == {"b:1", "silent:1"}
    assert sorted(coordinator.kept.forget([], all_lost=True)) == ["b:1", "silent:1"]
    assert not coordinator.missed
    assert [one.address for one in coordinator.kept.live()] == ["lives:1"]
    coordinator = coordinator.killed(compacted)
    coordinator.clock.advance(FORGOTTEN_S)
    assert coordinator.missed.keys() == {"lives:1"}


def test_those_that_are_too_many_to_be_missed_are_not_either_when_the_others_are_forgotten() -> None:
    """After a restart they took the places of these."""
    coordinator = Coordinator()
    for number in range(MAX_DISPATCHERS + 5):
        report(coordinator, f"{number}:1")
        coordinator.clock.advance(FORGOTTEN_S)
    assert len(coordinator.kept.forget([], all_lost=True)) == MAX_DISPATCHERS
    assert not coordinator.killed(False).missed
