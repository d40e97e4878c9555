"""Who is planned for: whose sessions have readers, but for those that their trainers have left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.measuring.meters import GONE_S
from tfquiver.service.coordinator.planning.cluster_view import ClusterViews

DIGEST = b"d" * 32


def session(key: str, job: str, readers: int = 1, own_reader_id: str = "") -> Any:
    return SimpleNamespace(
        session_key=key,
        reads=(job, DIGEST),
        readers=dict.fromkeys(range(readers)),
        own_reader_id=own_reader_id,
        sampled=False,
    )


def views(clock: ManualClock, sessions: list[Any], left: set[str]) -> ClusterViews:
    nobody: Any = None
    registry: Any = {DIGEST}
    its: Any = SimpleNamespace(read=lambda: [one for one in sessions if one.readers])
    return ClusterViews(clock, registry, nobody, its, nobody, nobody, nobody, left=lambda: left)


def test_a_job_has_gone_a_while_after_its_last_reader() -> None:
    clock, one = ManualClock(), session("key", "job")
    made = views(clock, [one], set())
    assert made.note() == {}
    clock.advance(10 * GONE_S)
    assert made.note() == {}
    one.readers = {}
    clock.advance(GONE_S - 1)
    assert made.note() == {}
    assert made.reading.keys() == {("job", DIGEST)}, "it may be between two epochs"
    clock.advance(1)
    assert made.note() == {("job", DIGEST): 10 * GONE_S}
    assert made.reading == {}


def test_readers_that_a_trainer_has_left_are_none() -> None:
    """tf.data service keeps them for a minute and more, in case another trainer comes."""
    clock, left = ManualClock(), set[str]()
    made = views(clock, [session("key", "job"), session("other", "other job")], left)
    made.note()
    left.add("key")
    clock.advance(GONE_S - 1)
    assert made.note() == {}
    left.clear()  # the next epoch has begun
    assert made.note() == {}
    left.add("key")
    clock.advance(GONE_S)
    assert made.note() == {("job", DIGEST): GONE_S - 1}
    assert made.reading.keys() == {("other job", DIGEST)}
    left.clear()
    assert made.note() == {}
    assert made.reading.keys() == {("job", DIGEST), ("other job", DIGEST)}, "one that comes back is planned for at once"


def test_who_reads_by_itself_does_so_whatever_a_dispatcher_says() -> None:
    clock = ManualClock()
    made = views(clock, [session("key", "job", own_reader_id="reader")], {"key"})
    made.note()
    clock.advance(GONE_S)
    assert made.note() == {}
    assert made.reading.keys() == {("job", DIGEST)}


def test_one_trainer_that_has_left_is_not_all_of_a_job() -> None:
    clock = ManualClock()
    made = views(clock, [session("left", "job"), session("key", "job")], {"left"})
    made.note()
    clock.advance(GONE_S)
    assert made.note() == {}
