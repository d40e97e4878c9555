"""The plan of ranges against its definition: each want goes out once, in a request without gaps, within the bounds."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tfquiver.service.node.reading_the_object_store.range_plan import RangePlan

MOST_BYTES, MOST_PARTS, GATHER_S = 100, 6, 0.5
# A few files, cut alike into pieces; the same piece may be wanted several times.
CUTS = (0, 10, 25, 26, 60, 90, 130, 250, 251, 300)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.plan: RangePlan[int] = RangePlan(MOST_BYTES, MOST_PARTS, GATHER_S)
        self.now = 0.0
        self.waiting: dict[int, tuple[str, int, int, float]] = {}

    @rule(file=st.sampled_from("ab"), piece=st.integers(0, len(CUTS) - 2), later_s=st.sampled_from([0.0, 0.1, 0.6]))
    def want(self, file: str, piece: int, later_s: float) -> None:
        self.now += later_s
        begin, end = CUTS[piece], CUTS[piece + 1]
        number = self.plan.want(file, begin, end - begin, self.now, piece)
        self.waiting[number] = (file, begin, end, self.now)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if self.waiting:
            number = data.draw(st.sampled_from(sorted(self.waiting)))
            del self.waiting[number]
            assert self.plan.withdraw(number)
            assert not self.plan.withdraw(number)

    @rule(later_s=st.sampled_from([0.0, 0.3, 1.0]))
    def go_out(self, later_s: float) -> None:
        self.now += later_s
        oldest = min(self.waiting, default=None)
        run = self.plan.next(self.now)
        if not run:
            assert oldest is None or self.now < self.waiting[oldest][3] + GATHER_S
            return
        assert oldest in [want.number for want in run], "the oldest goes first"
        for want in run:
            assert self.waiting.pop(want.number) == (want.file, want.offset, want.end, want.since_s)
        assert len({want.file for want in run}) == 1
        assert all(one.end == other.offset for one, other in itertools.pairwise(run)), "no gap, no overlap"
        size_bytes = run[-1].end - run[0].offset
        assert len(run) == 1 or size_bytes <= MOST_BYTES
        assert len(run) <= MOST_PARTS
        touching = [
            end - begin
            for file, begin, end, _ in self.waiting.values()
            if file == run[0].file and (begin == run[-1].end or end == run[0].offset)
        ]
        assert len(run) == MOST_PARTS or all(size_bytes + more > MOST_BYTES for more in touching), "as many as fit"

    @invariant()
    def counts(self) -> None:
        assert len(self.plan) == len(self.waiting)
        due_s = self.plan.due_s()
        assert due_s == (self.waiting[min(self.waiting)][3] + GATHER_S if self.waiting else None)


TestRangePlan = Machine.TestCase
TestRangePlan.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(st.permutations(range(16)))
def test_neighbours_that_come_in_any_order_go_out_as_one(order: list[int]) -> None:
    plan: RangePlan[int] = RangePlan(16 * 10, 64, 1.0)
    for place, piece in enumerate(order):
        assert plan.next(0.0) == [], "not before they have waited, nor before all that fits is there"
        plan.want("f", piece * 10, 10, 0.0, place)
    assert [want.offset for want in plan.next(0.0)] == list(range(0, 160, 10))
    assert plan.next(9.0) == []
