"""How often the operator asks what nodes hold: of many data sets, of which a look takes long, each is asked seldom."""

from __future__ import annotations

import pytest

from tfquiver.service.operator.resident_asked import ResidentAsked

LOOK_S = 5.0


def looks(objects: int, took_s: float, within_s: float) -> tuple[float, ResidentAsked]:
    """Share of the time, once all are known."""
    asked, spent_s, now_s = ResidentAsked(), 0.0, 0.0
    while now_s < within_s:
        for number in range(objects):
            if asked.is_due(f"u{number}", now_s):
                asked.told(f"u{number}", "ready", number, now_s, took_s)
                spent_s += took_s if now_s > within_s / 2 else 0.0
        now_s += LOOK_S
    return spent_s / (within_s / 2), asked


@pytest.mark.parametrize(("objects", "took_s"), [(1000, 0.05), (1000, 0.5), (10, 5.0)])
def test_all_together_take_a_fifth_of_the_time(objects: int, took_s: float) -> None:
    share, asked = looks(objects, took_s, 40 * objects * took_s)
    assert 0.1 < share < 0.25
    assert [asked.of(f"u{number}", "ready") for number in range(objects)] == list(range(objects))
    assert asked.of("u1", "warming") is None and asked.of("u", "ready") is None


def test_a_few_are_asked_at_every_look() -> None:
    share, _ = looks(10, 0.005, 1000.0)
    assert share == pytest.approx(10 * 0.005 / LOOK_S, rel=0.1)


def test_objects_that_are_no_more_are_forgotten() -> None:
    asked = ResidentAsked()
    for number in range(100):
        asked.told(f"u{number}", "ready", 1, 0.0, 0.01)
    for at in range(1, 100):
        asked.told("stays", "ready", 1, 100.0 * at, 0.01)
    assert len(asked._known) == 1
