from __future__ import annotations

import pytest

from tfquiver.clock import ManualClock
from tfquiver.testing.kept_objects import KeptObjects
from tfquiver.testing.throttled_store import Pace, Traffic


def test_those_who_come_together_wait_one_after_the_other() -> None:
    pace = Pace(bytes_per_s=100, clock=ManualClock())
    assert [pace.wait_s(50), pace.wait_s(50), pace.wait_s(100)] == [0.5, 1.0, 2.0]


def test_idle_time_is_not_saved_up() -> None:
    clock = ManualClock()
    pace = Pace(bytes_per_s=100, clock=clock)
    pace.wait_s(100)
    clock.advance(60)
    assert pace.wait_s(100) == pytest.approx(0.99)


def test_who_wakes_late_each_time_gets_the_rate_all_the_same() -> None:
    clock = ManualClock()
    pace = Pace(bytes_per_s=1 << 24, clock=clock)
    for _ in range(1024):  # 16 KiB each, a thousandth of a second each
        clock.advance(pace.wait_s(1 << 14) + 0.0007)
    assert clock.now() == pytest.approx(1.0, rel=0.01)


def test_no_rate_is_no_wait() -> None:
    assert Pace(bytes_per_s=0, clock=ManualClock()).wait_s(1 << 40) == 0.0


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_what_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=str(rate)):
        Pace(bytes_per_s=rate, clock=ManualClock())


def test_another_rate_holds_for_those_who_come_from_now_on() -> None:
    pace = Pace(bytes_per_s=100, clock=ManualClock())
    assert pace.wait_s(100) == 1.0
    pace.change(10)
    assert [pace.wait_s(10), pace.wait_s(10)] == [1.0, 2.0]
    pace.change(0)
    assert pace.wait_s(10) == 0.0


def test_traffic_adds_and_subtracts_field_by_field() -> None:
    one = Traffic(requests=3, reads=2, header_bytes=10, payload_bytes=100, other_body_bytes=5)
    assert one + one - one == one
    assert one.total_bytes == 115


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [("", 200, b"0123456789"), ("Range: bytes=2-4\r\n", 206, b"234"), ("range:bytes=8-99\r\n", 206, b"89"),
     ("Range: bytes=10-12\r\n", 416, b"")],
)  # fmt: skip
def test_ranges_of_kept_objects(asked: str, status: int, body: bytes) -> None:
    kept = KeptObjects()
    kept.keep("/f", b"0123456789")
    head, found = kept.reply("/f", f"GET /f HTTP/1.1\r\n{asked}\r\n".encode())
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Content-Length: %d\r\n" % len(body) in head
    assert bytes(found) == body
