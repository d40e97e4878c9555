"""A dispatcher that is started again at another address is known by its work_dir's id, and not missed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.test_dispatchers_restart import Coordinator, compacted
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo, ServiceWorker
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers import (
    FORGOTTEN_S,
    MAX_DISPATCHERS,
    MAX_WORKERS,
    SILENT_DISPATCHER_S,
)
from tfquiver.service.dispatcher import work_dir_id

ID = "dispatcher-1"
REPORT_S = 2.0


def report(
    coordinator: Coordinator, address: str, workers: Sequence[str] = (), id: str = ID, process: str = ""
) -> None:
    its = [ServiceWorker(address=worker) for worker in workers]
    coordinator.kept.report(DispatcherInfo(address=address, version="1.2", workers=its, id=id, process=process))


def live(coordinator: Coordinator) -> list[str]:
    return [one.address for one in coordinator.kept.live()]


def go_on(coordinator: Coordinator, *addresses: str, for_s: float = 2 * FORGOTTEN_S) -> None:
    """Each reports by turns; nobody is missed meanwhile, and all are there."""
    for _ in range(int(for_s / REPORT_S)):
        for address in addresses:
            coordinator.clock.advance(REPORT_S / len(addresses))
            report(coordinator, address, ["w2"])
            assert coordinator.missed == {}
        assert set(live(coordinator)) >= set(addresses)


@compacted
@pytest.mark.parametrize("away_s", [0.0, 5.0, SILENT_DISPATCHER_S, FORGOTTEN_S, 3600.0])
def test_one_that_is_back_elsewhere_with_other_workers_is_not_missed(compacted: bool, away_s: float) -> None:
    coordinator = Coordinator()
    report(coordinator, "a", ["w"])
    coordinator.clock.advance(away_s)
    report(coordinator, "b", ["w2"])
    for _ in range(2):
        go_on(coordinator, "b")
        assert live(coordinator) == ["b"]
        assert sum(record.dispatcher_known.gone for record in coordinator.log) <= 1
        coordinator = coordinator.killed(compacted)


@compacted
@pytest.mark.parametrize("there_s", [0.0, SILENT_DISPATCHER_S, FORGOTTEN_S])
def test_one_that_went_while_no_coordinator_was_there_is_not_missed_when_it_is_back_elsewhere(
    compacted: bool, there_s: float
) -> None:
    coordinator = Coordinator()
    report(coordinator, "a", ["w"])
    coordinator = coordinator.killed(compacted)
    coordinator.clock.advance(there_s)
    report(coordinator, "b", ["w2"])
    assert coordinator.missed == {}
    coordinator = coordinator.killed(compacted)
    go_on(coordinator, "b")


@compacted
def test_the_old_one_is_not_missed_by_a_coordinator_that_is_killed_when_the_new_one_came(
    compacted: bool,
) -> None:
    coordinator = Coordinator()
    report(coordinator, "a", ["w"])
    coordinator.clock.advance(1)
    report(coordinator, "b", ["w2"])
    go_on(coordinator.killed(compacted), "b")


@compacted
@pytest.mark.parametrize("away_s", [0.0, 1.0, SILENT_DISPATCHER_S - 1])
def test_one_that_goes_to_another_address_and_back_at_once_is_not_missed_at_that_one(
    compacted: bool, away_s: float
) -> None:
    coordinator = Coordinator()
    report(coordinator, "a", ["w"], process="1")
    coordinator.clock.advance(1)
    report(coordinator, "b", ["w2"], process="2")
    coordinator.clock.advance(away_s)
    report(coordinator, "a", ["w3"], process="3")
    for _ in range(2):
        for _ in range(int(FORGOTTEN_S)):
            coordinator.clock.advance(1)
            report(coordinator, "a", ["w3"], process="3")
            assert coordinator.missed == {}
        assert live(coordinator) == ["a"]
        coordinator = coordinator.killed(compacted)


def test_of_two_that_live_with_one_id_one_that_is_started_again_where_it_was_takes_nobodys_place_for_long() -> None:
    coordinator = Coordinator()
    for number in range(60):
        for address, process in (("a", "1" if number < 30 else "3"), ("b", "2")):
            coordinator.clock.advance(1)
            report(coordinator, address, [address], process=process)
        assert set(live(coordinator)) == {"a", "b"}
    assert len(coordinator.log) <= 6
    for _ in range(int(FORGOTTEN_S)):
        coordinator.clock.advance(1)
        report(coordinator, "a", ["a"], process="3")
    assert coordinator.missed.keys() == {"b"}


def test_one_that_leaves_before_it_could_tell_of_itself_is_not_missed_where_it_was_before() -> None:
    coordinator = Coordinator()
    report(coordinator, "a", ["w"])
    coordinator = coordinator.killed(compacted=False)
    coordinator.kept.leave("b", "another")
    coordinator.kept.leave("c")
    coordinator.clock.advance(SILENT_DISPATCHER_S)
    assert coordinator.missed.keys() == {"a"}
    coordinator.kept.leave("b", ID)
    assert coordinator.missed == {}
    assert coordinator.killed(compacted=False).missed == {}


def test_one_without_workers_that_is_killed_again_and_again_is_missed_once_at_most() -> None:
    coordinator = Coordinator()
    for number in range(2 * MAX_DISPATCHERS):
        report(coordinator, f"d:{number}")
        coordinator.clock.advance(FORGOTTEN_S)
        assert len(coordinator.missed) == 1
    assert len(list(coordinator.kept.still()())) == 1


@compacted
@pytest.mark.parametrize("dies", ["a", "b"])
def test_of_two_that_live_with_one_id_both_stay_known_and_each_is_missed_when_it_dies(
    compacted: bool, dies: str
) -> None:
    """Of a directory that was copied."""
    coordinator = Coordinator()
    go_on(coordinator, "a", for_s=10)
    report(coordinator, "b", ["w2"])
    go_on(coordinator, "a", "b")
    written = len(coordinator.log)
    go_on(coordinator, "a", "b")
    assert len(coordinator.log) == written
    coordinator = coordinator.killed(compacted)
    go_on(coordinator, "b", "a")
    (lives,) = {"a", "b"} - {dies}
    for restarted in (False, True):
        if restarted:
            coordinator = coordinator.killed(compacted)
        for _ in range(int(FORGOTTEN_S)):
            coordinator.clock.advance(1)
            report(coordinator, lives, [f"of {lives}"])
        assert coordinator.missed.keys() == {dies}


@compacted
def test_who_tells_no_id_is_known_by_its_address_alone(compacted: bool) -> None:
    """Older dispatchers."""
    coordinator = Coordinator()
    report(coordinator, "a", ["w"], id="")
    coordinator = coordinator.killed(compacted)
    report(coordinator, "b", ["w2"], id="")
    report(coordinator, "c", ["w3"])
    coordinator.clock.advance(SILENT_DISPATCHER_S - 1)
    report(coordinator, "b", ["w2"], id="")
    report(coordinator, "c", ["w3"])
    coordinator.clock.advance(1)
    assert coordinator.missed.keys() == {"a"}
    assert coordinator.killed(compacted).missed.keys() == {"a"}


def test_an_earlier_coordinators_log_says_no_ids_and_one_that_is_upgraded_is_known_from_then_on() -> None:
    log = [log_pb2.CommitRecord(dispatcher_known=log_pb2.DispatcherKnown(address="a", version="1", workers=["w"]))]
    coordinator = Coordinator(log)
    report(coordinator, "a", ["w"])
    coordinator = coordinator.killed(compacted=False)
    report(coordinator, "b", ["w2"])
    go_on(coordinator, "b")


def whole_records(log: Sequence[log_pb2.CommitRecord]) -> int:
    return sum(len(record.dispatcher_known.workers) > 0 for record in log)


@pytest.mark.slow
def test_one_of_many_workers_that_is_silent_every_few_seconds_is_written_whole_once() -> None:
    coordinator = Coordinator()
    workers = [f"worker-{number}.example:5060" for number in range(1000)]
    for _ in range(100):
        report(coordinator, "a", workers)
        coordinator.clock.advance(SILENT_DISPATCHER_S)
        assert coordinator.missed
        coordinator.clock.advance(1)
    assert whole_records(coordinator.log) == 1
    assert sum(record.ByteSize() for record in coordinator.log) < 50_000
    for minute in range(10):
        for second in range(0, 60, 9):
            report(coordinator, "a", workers[minute * 60 + second :])
            coordinator.clock.advance(9)
            assert coordinator.missed
    assert 8 <= whole_records(coordinator.log) <= 12


@compacted
def test_which_workers_one_has_that_was_silent_is_known_to_the_next_coordinator(compacted: bool) -> None:
    coordinator = Coordinator()
    for _ in range(3):
        report(coordinator, "a", ["w"])
        coordinator.clock.advance(SILENT_DISPATCHER_S)
        assert coordinator.missed
        coordinator = coordinator.killed(compacted)
    assert coordinator.missed.keys() == {"a"}
    coordinator.clock.advance(1)
    report(coordinator, "b", ["w"], id="")
    assert coordinator.missed == {}, "it has its worker"


@pytest.mark.slow
def test_workers_that_are_forgotten_of_one_that_is_lost_are_known_again_when_it_is_back() -> None:
    """In a log that was compacted meanwhile they are no more."""
    coordinator = Coordinator()
    for address in ("a", "b"):
        report(coordinator, address, [f"{address}:{number}" for number in range(MAX_WORKERS - 1)], id="")
        coordinator.clock.advance(FORGOTTEN_S)
    assert coordinator.missed.keys() == {"a", "b"}
    log = list(coordinator.kept.still()())
    assert sum(len(record.dispatcher_known.workers) for record in log) < MAX_WORKERS
    coordinator.log[:] = log
    report(coordinator, "a", [f"a:{number}" for number in range(MAX_WORKERS - 1)], id="")
    coordinator = coordinator.killed(compacted=False)
    coordinator.clock.advance(SILENT_DISPATCHER_S)
    report(coordinator, "c", ["a:0"], id="")
    assert coordinator.missed.keys() == {"b"}


@pytest.mark.parametrize("later_s", [86_400.0, 2 * 86_400.0])
def test_one_that_is_back_after_it_was_forgotten_is_written_whole(later_s: float) -> None:
    coordinator = Coordinator()
    report(coordinator, "a", ["w"])
    coordinator.clock.advance(later_s)
    assert coordinator.missed == {}
    coordinator.log[:] = coordinator.kept.still()()
    report(coordinator, "a", ["w"])
    assert [list(record.dispatcher_known.workers) for record in coordinator.log] == [["w"]]


def test_a_directory_has_one_id_for_good_and_a_copy_the_same(tmp_path: Path) -> None:
    made = work_dir_id.read_or_make(tmp_path)
    assert made.startswith("dispatcher-") and len(made) == 43
    assert work_dir_id.read_or_make(tmp_path) == made
    (tmp_path / "other").mkdir()
    assert work_dir_id.read_or_make(tmp_path / "other") != made


@pytest.mark.parametrize("there", [b"", b"dispatcher-12", b"\xff" * 1000, b"dispatcher-" + b"a" * 33])
def test_what_is_no_id_is_replaced(tmp_path: Path, there: bytes) -> None:
    (tmp_path / work_dir_id.FILE).write_bytes(there)
    made = work_dir_id.read_or_make(tmp_path)
    assert made.encode() != there
    assert work_dir_id.read_or_make(tmp_path) == made


def test_a_disk_that_keeps_none_and_a_link_in_its_place_keep_no_dispatcher_from_starting(tmp_path: Path) -> None:
    assert work_dir_id.read_or_make(tmp_path / "gone") == ""
    (tmp_path / work_dir_id.FILE).symlink_to(tmp_path / "elsewhere")
    assert work_dir_id.read_or_make(tmp_path) == ""
    assert not (tmp_path / "elsewhere").exists()
