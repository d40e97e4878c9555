"""What nodes report of their reads becomes the store's rate and times; what cannot be does not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.measuring_jobs_and_stores import store_meter
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_meter import StoreMeter
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_outflow import SPAN_S, StoreOutflow
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_reads import MOST_AT_ONCE, MOST_BYTES_PER_S
from tfquiver.service.coordinator.probing.limits import ProbeLimits
from tfquiver.service.coordinator.probing.store_change import StoreBefore

MB = 10**6
UINT64 = st.integers(0, 2**64 - 1)


@dataclass
class Node:
    """Reads `bytes_per_s` for `busy` of its time, `at_once` at a time."""

    name: str
    bytes_per_s: float
    busy: float = 1.0
    at_once: float = 4.0
    elapsed_s: float = 0.0
    reads: float = 0.0
    size_bytes: float = 0.0
    busy_s: float = 0.0
    request_s: float = 0.0
    scanned_bytes: float = 0.0  # in no read that is timed

    def told(self, seconds: float) -> pb2.StoreReads:
        self.elapsed_s += seconds
        self.size_bytes += seconds * self.bytes_per_s
        self.reads += seconds * self.bytes_per_s / 1e5
        self.busy_s += seconds * self.busy
        self.request_s += seconds * self.busy * self.at_once
        return pb2.StoreReads(
            reads=int(self.reads), bytes=int(self.size_bytes), busy_us=int(self.busy_s * 1e6),
            request_us=int(self.request_s * 1e6), elapsed_us=int(self.elapsed_s * 1e6),
            all_bytes=int(self.size_bytes + self.scanned_bytes),
        )  # fmt: skip


def run(meter: StoreMeter, clock: ManualClock, nodes: Sequence[Node], seconds: float, step_s: float = 2.0) -> None:
    for _ in range(round(seconds / step_s)):
        clock.advance(step_s)
        for node in nodes:
            meter.take(node.name, "1", node.told(step_s))


def made() -> tuple[StoreMeter, ManualClock]:
    clock = ManualClock(1000.0)
    return StoreMeter(clock), clock


def test_rate_and_times_of_one_node() -> None:
    meter, clock = made()
    run(meter, clock, [Node("a", 10 * MB, busy=0.5)], 40)
    load = meter.load()
    assert meter.bytes_per_s == pytest.approx(10 * MB, rel=0.01)
    assert load.s_per_byte == pytest.approx(0.5 / (10 * MB), rel=0.01), "of the time in which it read"
    assert load.request_s_per_byte == pytest.approx(2.0 / (10 * MB), rel=0.01)
    assert load.spare_bytes_per_s is None


def test_another_node_that_reads_does_not_make_the_store_slower() -> None:
    """It gives 10 MB/s in all."""
    before = StoreBefore()
    for count in (1, 2, 8):
        meter, clock = made()
        run(meter, clock, [Node(str(at), 10 * MB / count) for at in range(count)], 40)
        assert meter.load().s_per_byte == pytest.approx(1 / (10 * MB), rel=0.01)
        assert not before.changed(meter.load(), ProbeLimits().load_factor)


def test_nobody_reads_and_nothing_is_known_of_the_times() -> None:
    meter, clock = made()
    run(meter, clock, [Node("a", 10 * MB)], 40)
    run(meter, clock, [Node("b", 0.0, busy=0.0)], 130)
    load = meter.load()
    assert (load.s_per_byte, load.request_s_per_byte, meter.bytes_per_s) == (None, None, 0.0)
    assert meter.told().most_bytes_per_s == pytest.approx(10 * MB, rel=0.01), "that it has given"


def test_a_slow_store_is_measured_over_a_longer_time() -> None:
    """Two reads a second are not enough within ten."""
    meter, clock = made()
    run(meter, clock, [Node("a", 1e5)], 100)
    assert meter.load().s_per_byte == pytest.approx(1e-5, rel=0.01)


def test_a_change_is_seen_within_half_a_minute_and_one_odd_window_is_none() -> None:
    meter, clock = made()
    node = Node("a", 10 * MB)
    run(meter, clock, [node], 60)
    node.bytes_per_s = 1 * MB
    run(meter, clock, [node], 10)
    node.bytes_per_s = 10 * MB
    for _ in range(20):
        run(meter, clock, [node], 2)
        assert meter.load().s_per_byte == pytest.approx(1e-7, rel=0.01)
    node.bytes_per_s = 1 * MB
    run(meter, clock, [node], 30)
    assert meter.load().s_per_byte == pytest.approx(1e-6, rel=0.01)


def test_noise_is_no_change() -> None:
    """Over two hours, each report's rate being a third more, or less."""
    meter, clock = made()
    node, rng, before = Node("a", 10 * MB), random.Random(3), StoreBefore()
    for _ in range(3600):
        node.bytes_per_s = 10 * MB * rng.lognormvariate(0.0, 0.3)
        run(meter, clock, [node], 2)
        assert not before.changed(meter.load(), ProbeLimits().load_factor)


def test_a_process_that_is_new_begins_at_nothing() -> None:
    meter, clock = made()
    node = Node("a", 10 * MB)
    run(meter, clock, [node], 40)
    clock.advance(2.0)
    meter.take("a", "2", Node("a", 10 * MB).told(0.5))
    again = Node("a", 10 * MB)
    for _ in range(20):
        clock.advance(2.0)
        meter.take("a", "2", again.told(2.0))
    assert meter.load().s_per_byte == pytest.approx(1e-7, rel=0.02)
    assert meter.bytes_per_s == pytest.approx(10 * MB, rel=0.02)


def test_late_and_repeated_reports_count_once() -> None:
    meter, clock = made()
    node, told = Node("a", 10 * MB), []
    for _ in range(30):
        clock.advance(2.0)
        told.append(node.told(2.0))
        for one in (told[-1], told[-1]):
            meter.take("a", "1", one)
    assert meter.bytes_per_s == pytest.approx(10 * MB, rel=0.02)


def test_the_longest_read_of_all_nodes_is_told_for_half_a_minute() -> None:
    """One that is given up is tried again, and is young: the store is no faster for that."""
    meter, clock = made()
    assert meter.told().oldest_ms == 0

    def take(node: str, oldest_ms: int) -> None:
        elapsed_us = int(1e6 * (clock.now() - 999))
        meter.take(node, "1", pb2.StoreReads(elapsed_us=elapsed_us, oldest_ms=oldest_ms))

    take("a", 18_000)
    take("b", 2_000)
    assert meter.told().oldest_ms == 18_000
    for second in range(29):
        clock.advance(1.0)
        take("a", min(1000 * second, 5_000))
        assert meter.told().oldest_ms == 18_000
    clock.advance(2.0)
    take("a", 3_000)
    assert meter.told().oldest_ms == 3_000
    clock.advance(31.0)
    assert meter.told().oldest_ms == 0, "nobody has told anything lately"


@pytest.mark.parametrize(
    "lie",
    [
        {"elapsed_us": 2**64 - 1, "bytes": 2**64 - 1, "reads": 2**64 - 1, "busy_us": 2**64 - 1},
        {"busy_us": 10**12}, {"request_us": 2**64 - 1}, {"bytes": 2**63}, {"elapsed_us": 0}, {"reads": 2**64 - 1},
        {"request_us": 0}, {"all_bytes": 2**63}, {"all_bytes": 0},
    ],
)  # fmt: skip
def test_what_cannot_be_is_not_counted_nor_what_is_true_lost_for_it(lie: dict[str, int]) -> None:
    meter, clock = made()
    node = Node("a", 10 * MB)
    run(meter, clock, [node], 40)
    for _ in range(10):
        clock.advance(2.0)
        false = node.told(2.0)
        for field, value in lie.items():
            setattr(false, field, value)
        meter.take("a", "1", false)
    assert meter.told().most_bytes_per_s <= 10.1 * MB
    run(meter, clock, [node], 60)
    assert meter.load().s_per_byte == pytest.approx(1e-7, rel=0.02)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("12"), st.floats(0, 100), st.tuples(*[UINT64] * 6)),
        max_size=60,
    )
)
def test_whatever_is_told_what_comes_of_it_can_be(told: list[tuple[str, str, float, tuple[int, ...]]]) -> None:
    clock = ManualClock()
    meter = StoreMeter(clock, limit_bytes_per_s=1e6)
    for node_id, incarnation, seconds, numbers in told:
        clock.advance(seconds)
        fields = dict(zip(("reads", "bytes", "busy_us", "request_us", "elapsed_us", "all_bytes"), numbers, strict=True))
        meter.take(node_id, incarnation, pb2.StoreReads(**fields))
        load = meter.load()
        assert 0.0 <= meter.bytes_per_s <= 4 * MOST_BYTES_PER_S
        assert load.spare_bytes_per_s is not None
        assert 0.0 <= load.spare_bytes_per_s <= 1e6
        if load.s_per_byte and load.request_s_per_byte:
            assert load.request_s_per_byte / load.s_per_byte <= 4 * MOST_AT_ONCE + 1e6
        StoreBefore().changed(load, 1.5)


def test_nodes_that_are_gone_are_forgotten_and_there_are_not_more_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_meter, "MOST_NODES", 100)
    meter, clock = made()
    for number in range(200):
        meter.take(f"node {number}", "1", pb2.StoreReads())
    assert len(meter._nodes) == 100
    run(meter, clock, [Node("node 1", MB)], 200)
    assert len(meter._nodes) == 1


def test_people_are_told_soon_that_nothing_is_read_any_more() -> None:
    meter, clock = made()
    reading, idle = Node("a", 10 * MB), Node("b", 0.0, busy=0.0)
    run(meter, clock, [reading, idle], 40)
    assert meter.told().bytes_per_s == pytest.approx(10 * MB, rel=0.01)
    reading.bytes_per_s = reading.busy = 0.0
    run(meter, clock, [reading, idle], 2)
    assert meter.told().bytes_per_s > 0, "a pause"
    run(meter, clock, [reading, idle], SPAN_S)
    assert meter.told().bytes_per_s == 0
    assert meter.told().most_bytes_per_s == pytest.approx(10 * MB, rel=0.01)


def test_a_node_that_is_heard_seldom_reads_on() -> None:
    meter, clock = made()
    run(meter, clock, [Node("a", 10 * MB)], 40)
    run(meter, clock, [Node("b", 10 * MB)], 40, step_s=10.0)
    clock.advance(9.0)
    assert meter.told().bytes_per_s == pytest.approx(10 * MB, rel=0.01)
    clock.advance(60.0)
    assert meter.told().bytes_per_s == 0, "nobody is left to say anything"


def test_people_are_told_of_a_scan_at_once_and_the_policy_is_not() -> None:
    """It reads 87 MB in a second, in few reads that nobody times."""
    meter, clock = made()
    scanning = Node("a", 0.0, busy=0.0)
    run(meter, clock, [scanning], 40)
    scanning.scanned_bytes = 87 * MB
    run(meter, clock, [scanning], 2)
    told = meter.told()
    assert told.bytes_per_s == told.most_bytes_per_s == 8.7 * MB
    run(meter, clock, [scanning], 40)
    assert (meter.told().bytes_per_s, meter.told().most_bytes_per_s) == (0, 8.7 * MB)
    assert (meter.bytes_per_s, meter.load().s_per_byte) == (0, None)


def test_of_an_earlier_node_what_its_readers_took_is_told() -> None:
    meter, clock = made()
    node = Node("a", 10 * MB)
    for _ in range(20):
        clock.advance(2.0)
        told = node.told(2.0)
        told.ClearField("all_bytes")
        meter.take("a", "1", told)
    assert meter.told().bytes_per_s == pytest.approx(10 * MB, rel=0.01)


def test_what_left_the_store_more_than_an_hour_ago_is_the_most_no_more() -> None:
    outflow = StoreOutflow()
    outflow.take(100 * MB, 1000.5)
    outflow.take(20 * MB, 2000.5)
    assert outflow.most_bytes_per_s(2000.5) == 10 * MB
    assert outflow.most_bytes_per_s(1000.5 + 3600) == 2 * MB
    outflow.take(20 * MB, 8000.5)
    assert len(outflow._seconds) == 1
