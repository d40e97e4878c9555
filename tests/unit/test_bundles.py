"""What goes together in one message."""

from __future__ import annotations

from collections import deque

from tfquiver.grpc_plumbing import bundles


def test_as_many_as_fit_go_together_and_at_least_one() -> None:
    large, half = 2 * bundles.MOST_BYTES, bundles.MOST_BYTES // 2
    waiting = deque([("large", large), ("a", half), ("b", half), ("c", 1)])
    assert [bundles.some(waiting) for _ in range(3)] == [["large"], ["a", "b"], ["c"]]
    assert not waiting


def test_so_many_go_together_however_small_they_are() -> None:
    waiting = deque((number, 0) for number in range(2 * bundles.MOST_TOGETHER + 1))
    together = [bundles.some(waiting) for _ in range(3)]
    assert [len(some) for some in together] == [bundles.MOST_TOGETHER, bundles.MOST_TOGETHER, 1]
    assert [number for some in together for number in some] == list(range(2 * bundles.MOST_TOGETHER + 1))
    assert not waiting
