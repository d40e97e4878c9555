"""What the coordinator keeps of dispatchers, and what a dispatcher says of its workers' silence."""

from __future__ import annotations

import pytest

from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo, ServiceWorker
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers import (
    FORGOTTEN_S,
    MAX_DISPATCHERS,
    MAX_WORKERS,
    SILENT_DISPATCHER_S,
    Dispatchers,
)
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.worker_watch import WorkerWatch
from tfquiver.service.dispatcher.worker_reports import own_address

A, B = "a:1", "b:1"


def told_of(clock: ManualClock) -> Dispatchers:
    return Dispatchers(clock, clock.now, lambda record: None)


def info(address: str, workers: int = 1) -> DispatcherInfo:
    return DispatcherInfo(address=address, workers=[ServiceWorker(address=f"w:{n + 1}") for n in range(workers)])


def test_the_last_report_counts_and_is_forgotten_after_a_while() -> None:
    clock = ManualClock()
    kept = told_of(clock)
    kept.report(info("d:2"))
    clock.advance(FORGOTTEN_S / 2)
    for _ in range(2):
        kept.report(info("d:1", workers=3))
    assert [(one.address, len(one.workers)) for one in kept.live()] == [("d:1", 3), ("d:2", 1)]
    clock.advance(FORGOTTEN_S / 2)
    assert [one.address for one in kept.live()] == ["d:1"]
    clock.advance(FORGOTTEN_S / 2)
    assert kept.live() == []


def lost(kept: Dispatchers) -> list[tuple[str, int]]:
    return [(one.address, one.silent_ms) for one in kept.lost()]


def test_who_is_silent_is_missed_for_a_day_and_who_left_or_is_back_is_not() -> None:
    clock = ManualClock()
    kept = told_of(clock)
    for number in range(3):
        kept.report(info(f"d:{number}", workers=0))
    clock.advance(SILENT_DISPATCHER_S - 1)
    before = kept.told()
    assert lost(kept) == []
    clock.advance(1)
    silent_ms = int(1000 * SILENT_DISPATCHER_S)
    assert lost(kept) == [("d:0", silent_ms), ("d:1", silent_ms), ("d:2", silent_ms)]
    assert kept.told() != before, "who waits for a change is told of it"
    kept.leave("d:0")
    clock.advance(60)
    kept.report(info("d:1", workers=0))
    assert lost(kept) == [("d:2", silent_ms + 60_000)]
    assert [one.address for one in kept.live()] == ["d:1"]
    clock.advance(86_399)
    assert lost(kept) == [("d:1", 86_399_000)]
    kept.leave("d:1")
    assert lost(kept) == []
    kept.report(info("d:3"))
    clock.advance(86_400)
    assert lost(kept) == []


def test_who_has_started_again_at_another_address_with_the_same_workers_is_not_missed() -> None:
    clock = ManualClock()
    kept = told_of(clock)
    kept.report(DispatcherInfo(address="d:1", workers=[ServiceWorker(address="w:1"), ServiceWorker(address="w:2")]))
    clock.advance(FORGOTTEN_S)
    kept.report(DispatcherInfo(address="d:2", workers=[ServiceWorker(address="w:3")]))
    assert [address for address, _ in lost(kept)] == ["d:1"], "others' workers say nothing of it"
    kept.report(DispatcherInfo(address="d:3", workers=[ServiceWorker(address="w:2")]))
    assert lost(kept) == []


def test_a_worker_that_went_to_another_dispatcher_long_ago_is_no_sign_of_the_first() -> None:
    """A dispatcher never forgets a worker: one that is started again under another one is told of by both."""
    clock = ManualClock()
    kept = told_of(clock)
    for _ in range(40):
        if clock.now() < 10:
            kept.report(info("d:1", workers=3))
        kept.report(info("d:2", workers=1))
        clock.advance(2)
    assert [address for address, _ in lost(kept)] == ["d:1"]
    kept.report(info("d:2", workers=3))
    assert lost(kept) == [], "all of them are its now"


def test_what_workers_those_had_that_are_missed_has_its_bound_too() -> None:
    clock = ManualClock()
    kept = told_of(clock)
    for number in range(4):
        its = [ServiceWorker(address=f"w:{number}:{worker}") for worker in range(MAX_WORKERS // 2)]
        kept.report(DispatcherInfo(address=f"d:{number}", workers=its))
        clock.advance(FORGOTTEN_S)
    assert [address for address, _ in lost(kept)] == ["d:0", "d:1", "d:2", "d:3"]
    assert sum(len(its.said.workers) for its in kept._lost.values()) == MAX_WORKERS
    kept.report(
        DispatcherInfo(address="d:new", workers=[ServiceWorker(address="w:3:0"), ServiceWorker(address="w:0:0")])
    )
    assert [address for address, _ in lost(kept)] == ["d:0", "d:1", "d:2"], "of the newest ones it is known"


def test_of_those_that_are_missed_only_so_many_are_kept_and_nobody_is_refused_for_them() -> None:
    clock = ManualClock()
    kept = told_of(clock)
    for number in range(2 * MAX_DISPATCHERS):
        kept.report(info(f"d:{number}", workers=0))
        clock.advance(1)
    clock.advance(FORGOTTEN_S)
    assert len(lost(kept)) == MAX_DISPATCHERS
    assert (f"d:{2 * MAX_DISPATCHERS - 1}", int(1000 * FORGOTTEN_S) + 1000) in lost(kept)


def test_only_so_many_are_kept_and_those_who_are_may_go_on() -> None:
    clock = ManualClock()
    kept = told_of(clock)
    for number in range(MAX_DISPATCHERS):
        kept.report(info(f"d:{number}"))
    kept.report(info("d:0", workers=2))
    with pytest.raises(errors.ResourceExhaustedError, match=f"{MAX_DISPATCHERS} other dispatchers"):
        kept.report(info("one more"))
    with pytest.raises(errors.ResourceExhaustedError, match=f"at most {MAX_WORKERS}"):
        kept.report(info("d:0", workers=MAX_WORKERS))
    assert len(kept.live()[0].workers) == 2, "what was refused has changed nothing"
    clock.advance(FORGOTTEN_S)
    kept.report(info("one more", workers=MAX_WORKERS))
    assert len(kept.live()) == 1


def test_what_version_a_worker_is_it_says_itself_and_is_forgotten_with_it() -> None:
    clock = ManualClock()
    kept = told_of(clock)
    kept.report_worker("w:1", "1.2.3")
    told = info("d:1", workers=2)
    told.workers[1].version = "a dispatcher's word"
    kept.report(told)
    assert [worker.version for worker in kept.live()[0].workers] == ["1.2.3", ""]
    clock.advance(FORGOTTEN_S / 2)
    kept.report_worker("w:2", "1.2.4")
    clock.advance(FORGOTTEN_S / 2)
    kept.report(info("d:1", workers=2))
    assert [worker.version for worker in kept.live()[0].workers] == ["", "1.2.4"]
    for number in range(MAX_WORKERS - 1):
        kept.report_worker(f"x:{number}", "1")
    with pytest.raises(errors.ResourceExhaustedError, match=f"{MAX_WORKERS} other workers"):
        kept.report_worker("one more", "1")
    kept.report_worker("w:2", "1.2.5")


def test_who_tells_its_version_is_not_compared_with_all_others() -> None:
    looks = 0

    class Told(str):
        """Counts how often it is looked at."""

        def __hash__(self) -> int:
            nonlocal looks
            looks += 1
            return super().__hash__()

    kept = told_of(ManualClock())
    for number in range(1000):
        kept.report_worker(Told(f"w:{number}"), "1")
    assert looks < 10 * 1000


def test_a_worker_that_goes_on_telling_is_kept_and_those_before_it_are_forgotten() -> None:
    clock = ManualClock()
    kept = told_of(clock)
    kept.report_worker("w:1", "1")
    kept.report_worker("w:2", "1")
    clock.advance(FORGOTTEN_S / 2)
    kept.report_worker("w:1", "1")
    clock.advance(FORGOTTEN_S / 2)
    kept.report(info("d:1", workers=2))
    assert [worker.version for worker in kept.live()[0].workers] == ["1", ""]


def test_who_has_left_is_known_by_the_last_report_of_each() -> None:
    clock = ManualClock()
    kept = told_of(clock)
    assert kept.left() == set()
    kept.report(info("d:1"), ["a", "b"])
    clock.advance(FORGOTTEN_S / 2)
    kept.report(info("d:2"), ["c"])
    assert kept.left() == {"a", "b", "c"}
    kept.report(info("d:1"), ["b"])
    assert kept.left() == {"b", "c"}
    clock.advance(FORGOTTEN_S)
    assert kept.left() == set(), "of a dispatcher that is silent nothing is known"


def test_silence_and_idleness_count_from_the_last_time_that_it_was_otherwise() -> None:
    clock = ManualClock(100.0)
    watch = WorkerWatch(clock)
    assert watch.look([A, B], {A}, ()) == {A: (0, 0), B: (0, 0)}, "nothing is known of the time before"
    clock.advance(5)
    assert list(watch.look([A, B], {A}, {B}).items()) == [(B, (5, 0)), (A, (0, 5))], "the most silent first"
    clock.advance(5)
    assert watch.look([A, B], {B}, {A}) == {A: (5, 0), B: (0, 5)}
    assert watch.look([B], {B}, ()) == {B: (0, 5)}
    assert watch.look([A, B], (), ()) == {A: (0, 0), B: (0, 5)}, "one that comes again is new"


@pytest.mark.parametrize("coordinator", ["unix:/run/x", "localhost:5040", "127.0.0.1:5040", "[::1]:5040"])
def test_beside_its_coordinator_a_dispatcher_is_of_this_machine(coordinator: str) -> None:
    assert own_address(coordinator, 5050) == "localhost:5050"
