"""When acknowledgements go that no lease takes along."""

from __future__ import annotations

import math
from collections.abc import Callable

from tfquiver.service.node.reader_sessions.ack_timer import AckTimer


class Bench:
    def __init__(self) -> None:
        self.now_s, self.flushed = 0.0, list[float]()
        self.timers = list[tuple[float, Callable[[], None]]]()
        self.waiting = AckTimer(lambda: self.flushed.append(self.now_s), lambda: self.now_s, self.later)

    def later(self, wait_s: float, call: Callable[[], None]) -> Callable[[], None]:
        timer = self.now_s + wait_s, call
        self.timers.append(timer)
        return lambda: self.timers.remove(timer)

    def pass_to(self, now_s: float) -> None:
        for at, call in [timer for timer in self.timers if timer[0] <= now_s]:
            self.now_s = at
            call()
        self.now_s = now_s


def test_their_time_is_counted_from_the_first() -> None:
    bench = Bench()
    bench.waiting.begin(3.0)
    bench.pass_to(2.0)
    bench.waiting.begin(3.0)
    bench.pass_to(10.0)
    assert (bench.flushed, bench.timers) == ([3.0], [])
    bench.waiting.begin(1.0)
    bench.pass_to(20.0)
    assert bench.flushed == [3.0, 11.0]


def test_the_last_heartbeat_before_their_time_is_over_takes_them_along() -> None:
    bench = Bench()
    bench.waiting.heartbeat_goes(1.0)
    bench.waiting.begin(3.0)
    for now_s in (0.5, 1.5, 2.5, 3.5):
        bench.pass_to(now_s)
        bench.waiting.heartbeat_goes(1.0)
    bench.pass_to(10.0)
    assert (bench.flushed, bench.timers) == ([2.5], [])


def test_after_the_first_heartbeat_nothing_is_known_of_the_next() -> None:
    bench = Bench()
    bench.waiting.begin(3.0)
    bench.waiting.heartbeat_goes(-math.inf)
    assert bench.flushed == []


def test_at_the_end_all_go() -> None:
    bench = Bench()
    bench.waiting.begin(3.0)
    bench.waiting.end()
    bench.waiting.end()
    bench.pass_to(10.0)
    assert bench.flushed == [0.0, 0.0]
