"""From a node's readers to the coordinator's meters: each report until it has arrived, and to the right job."""

from __future__ import annotations

import pytest

from tests.unit.session_bench import Bench
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import FORGET_S, SILENT_S, JobMeters
from tfquiver.service.node.coordinator_link import reader_reports
from tfquiver.service.node.coordinator_link.reader_reports import ReaderReports


def report(reader_id: str, second: int, session_id: str = "s", mb_per_s: int = 10) -> pb.ReaderReport:
    return pb.ReaderReport(
        session_id=session_id, reader_id=reader_id, records=second, bytes=second * mb_per_s * 10**6,
        waited_us=second * 250_000, elapsed_us=second * 10**6, missed_bytes=second * mb_per_s * 10**6,
    )  # fmt: skip


def test_the_newest_of_each_is_told_until_it_has_arrived() -> None:
    reports = ReaderReports(ManualClock())
    assert reports.report() == []
    reports.heard(report("a", 1))
    reports.heard(report("b", 1))
    reports.heard(report("a", 2))
    assert reports.report() == [report("b", 1), report("a", 2)]
    reports.heard(report("b", 2))  # while the heartbeat is under way, which is lost
    assert reports.report() == [report("a", 2), report("b", 2)]
    reports.heard(report("a", 3))
    reports.arrived()
    assert reports.report() == [report("a", 3)]
    reports.arrived()
    assert reports.report() == []


def test_heartbeats_and_what_waits_for_them_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_reports, "MAX_REPORTS", 3)
    monkeypatch.setattr(reader_reports, "MAX_WAITING", 5)
    reports = ReaderReports(ManualClock())
    for number in range(7):
        reports.heard(report(f"r{number}", 1))
    told = []
    for _ in range(3):
        told.append([one.reader_id for one in reports.report()])
        reports.arrived()
    assert told == [["r2", "r3", "r4"], ["r5", "r6"], []]


def test_how_long_ago_each_was_heard_is_told_again_with_each_heartbeat() -> None:
    clock = ManualClock()
    reports = ReaderReports(clock)
    for reader_id in ("a", "b"):
        reports.heard(report(reader_id, 1))
        clock.advance(0.25)
    assert [one.heard_ago_ms for one in reports.report()] == [500, 250]
    clock.advance(1.0)  # it did not arrive
    assert [one.heard_ago_ms for one in reports.report()] == [1500, 1250]
    clock.advance(1e9)  # months without a coordinator
    assert [one.heard_ago_ms for one in reports.report()] == [2**32 - 1] * 2


@pytest.mark.parametrize("told", [True, False])
def test_epochs_that_end_between_two_heartbeats_were_read_one_after_the_other(told: bool) -> None:
    """Of nodes that do not tell when they heard it, those of one heartbeat seem to have been read at the same time."""
    bench, clock = Bench(), ManualClock()
    meters, reports = JobMeters(bench.clock, bench.sessions.session), ReaderReports(clock)
    session_id, epoch = bench.begin(), 0
    for _ in range(20):
        for _ in range(20):
            clock.advance(0.05)
            reports.heard(short(session_id, f"epoch {epoch}"))
            epoch += 1
        clock.advance(0.01)
        bench.clock.advance(1.01)
        beat = reports.report()
        for one in beat if not told else ():
            one.ClearField("heard_ago_ms")
        meters.take(beat)
        reports.arrived()
    measured = meters.measured(bench.session(session_id))
    totals = meters.totals(bench.session(session_id).reads)
    assert totals and totals.reader_s == pytest.approx(400 * 0.04)
    if told:
        assert totals.elapsed_s == pytest.approx(400 * 0.04, rel=0.05)
        assert measured and measured.stall_share == pytest.approx(0.25)
        assert measured.bytes_per_s == pytest.approx(25e6, rel=0.05)
    else:
        assert measured is None


def short(session_id: str, reader_id: str) -> pb.ReaderReport:
    return pb.ReaderReport(
        session_id=session_id, reader_id=reader_id, records=10, bytes=10**6, waited_us=10_000, elapsed_us=40_000,
        hit_bytes=10**6,
    )  # fmt: skip


def test_what_is_reported_is_the_jobs_while_it_is_fresh() -> None:
    bench = Bench()
    meters = JobMeters(bench.clock, bench.sessions.session)
    session_id = bench.begin()
    session = bench.session(session_id)
    assert meters.measured(session) is None
    for second in range(1, 31):
        bench.clock.advance(1.0)
        meters.take([report("a", second, session_id), report("b", second, session_id), report("c", second, "unknown")])
    measured = meters.measured(session)
    assert measured is not None
    assert measured.bytes_per_s == pytest.approx(20e6, rel=0.01)
    assert measured.stall_share == pytest.approx(0.25)
    assert len(list(meters)) == 1
    bench.clock.advance(SILENT_S + 1)
    assert meters.measured(session) is None
    bench.clock.advance(FORGET_S)
    meters.take([])
    assert not list(meters)
