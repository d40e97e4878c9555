from __future__ import annotations

from tfquiver.service.node.bodies_sent_between_nodes.body_pace import BodyPace

KIB = 1 << 10


def pace(size_bytes: int) -> BodyPace:
    return BodyPace(size_bytes, allowance_s=5.0, least_bytes_per_s=256 * KIB)


def seconds_until_late(rate: float, size_bytes: int, piece_bytes: int) -> float | None:
    """None: it is never late."""
    body, passed_s = pace(size_bytes), 0.0
    for _ in range(size_bytes // piece_bytes):
        body.waited(piece_bytes / rate, piece_bytes)
        passed_s += piece_bytes / rate
        if body.late:
            return passed_s
    return None


def test_the_allowance_is_given_once_and_not_for_each_piece() -> None:
    """At 100 KiB a second each piece of 512 KiB comes within 5 s and its own 2 s."""
    late_s = seconds_until_late(100 * KIB, 8192 * KIB, 512 * KIB)
    assert late_s is not None
    assert 37 <= late_s <= 43
    assert seconds_until_late(260 * KIB, 8192 * KIB, 512 * KIB) is None


def test_one_that_starts_late_and_then_comes_as_it_should_is_in_time() -> None:
    body = pace(8192 * KIB)
    body.waited(4.9, 0)
    for _ in range(16):
        body.waited(2.0, 512 * KIB)
        assert not body.late


def test_what_came_fast_is_no_excuse_for_the_rest() -> None:
    """Else of a body of 64 MiB the last bytes might take four minutes."""
    body = pace(65536 * KIB)
    body.waited(0.1, 65535 * KIB)
    body.waited(4.9, 16)
    assert not body.late
    body.waited(0.2, 16)
    assert body.late


def test_what_has_come_is_never_late() -> None:
    body = pace(512 * KIB)
    body.waited(60.0, 512 * KIB)
    assert not body.late
