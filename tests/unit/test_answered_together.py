"""What of a stream's replies waits for what else."""

from __future__ import annotations

from collections.abc import Callable

from tfquiver.service.coordinator.grpc_calls.answered_together import WITHIN_S, AnsweredTogether


class Timers:
    def __init__(self) -> None:
        self.set = list[Callable[[], None]]()

    def later(self, wait_s: float, call: Callable[[], None]) -> Callable[[], None]:
        assert wait_s == WITHIN_S
        self.set.append(call)
        return lambda: self.set.remove(call)


def test_replies_wait_for_the_acknowledgements_that_came_with_them_and_for_no_others() -> None:
    timers, gone = Timers(), list[str]()
    together = AnsweredTogether(lambda: gone.append("gone"), timers.later)
    together.asked([])
    assert (together.waits, timers.set) == (False, [])
    together.asked([2, 3])
    together.over(1)
    together.over(2)
    together.asked([5])
    assert (together.waits, len(timers.set)) == (True, 1)
    together.over(3)
    assert together.waits
    together.over(5)
    assert (together.waits, timers.set, gone) == (False, [], [])


def test_they_wait_for_so_long_and_no_longer() -> None:
    timers, gone = Timers(), list[str]()
    together = AnsweredTogether(lambda: gone.append("gone"), timers.later)
    for number in (1, 2):
        together.asked([number])
        timers.set.pop()()
        assert not together.waits
    assert gone == ["gone"] * 2
    together.over(1)
    together.asked([3])
    together.close()
    assert timers.set == []
