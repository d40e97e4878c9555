"""The last decisions. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter

from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.policies.views_and_plans.names import digits_of, job_before, of_several

MOST_DECISIONS = 4096
# Of their texts: with all as long as a policy may write them a snapshot of the log would be a quarter of a GB.
MOST_TEXT_BYTES = 16 << 20
_CUT = 100  # characters


class History:
    """The last `most` decisions, oldest first. Where their reasons are longer than there is room for, the older half of
    that room has the beginnings of theirs.

    Those that evict what jobs read make way for others last: of what has moved within the hour others are judged, and
    where jobs come and go by the thousand their rates alone would be the last decisions within minutes.
    """

    def __init__(self, most: int = MOST_DECISIONS, most_text_bytes: int = MOST_TEXT_BYTES) -> None:
        self._most, self._count = most, 0  # ever
        self._most_text_bytes, self._text_bytes = most_text_bytes, 0
        self._moves, self._others = deque[tuple[int, Decision]](), deque[tuple[int, Decision]]()  # by that count

    def __iter__(self) -> Iterator[Decision]:
        # Lists at once: a plan that is made in a thread has decisions meanwhile.
        numbered = heapq.merge(list(self._moves), list(self._others), key=itemgetter(0))
        return (decision for _, decision in numbered)

    def __len__(self) -> int:
        return len(self._moves) + len(self._others)

    def extend(self, decisions: Iterable[Decision]) -> None:
        for one in decisions:
            self._count += 1
            (self._moves if one.evicted_bytes else self._others).append((self._count, one))
            self._text_bytes += one.text_bytes
            if len(self) > self._most:
                self._drop()
            if self._text_bytes > self._most_text_bytes:
                self._cut_old()

    def _drop(self) -> None:
        moves, others = self._moves, self._others
        if not others or (moves and 2 * len(moves) > self._most and moves[0][0] < others[0][0]):
            _, dropped = moves.popleft()
        else:
            _, dropped = others.popleft()
        self._text_bytes -= dropped.text_bytes

    def _cut_old(self) -> None:
        """Of all but the newest that fill half of the room."""
        left_bytes, cut = self._most_text_bytes // 2, dict[int, Decision]()
        for number, one in sorted([*self._moves, *self._others], key=itemgetter(0), reverse=True):
            left_bytes -= one.text_bytes
            if left_bytes < 0:
                cut[number] = one.cut(_CUT)
        for kept in (self._moves, self._others):
            for at, (number, one) in enumerate(kept):
                kept[at] = number, cut.get(number, one)
        self._text_bytes = sum(one.text_bytes for one in self)
        while len(self) > 1 and self._text_bytes > self._most_text_bytes * 3 // 4:  # by names as long as they may be
            self._drop()

    def rename(self, names: Mapping[str, str]) -> None:
        """Of data sets and jobs that are called otherwise now; `names`: new ones by old ones."""
        for kept in (self._moves, self._others):
            for at, (number, one) in enumerate(kept):
                if one.kind in ("dataset", "job") and one.name in names:
                    kept[at] = number, replace(one, name=names[one.name])
        self._text_bytes = sum(one.text_bytes for one in self)

    def of(self, dataset: str, name: str) -> list[Decision]:
        """Those about a data set, about `name`, itself or a job that reads it, and about the plan as a whole. A data
        set may have been called otherwise when nobody read it, or when the log was written that a coordinator was
        started with: its digits are the same."""
        digits, job = digits_of(dataset), job_before(name, dataset)
        found = list[Decision]()
        for one in self:
            if one.kind in ("plan", "policy") or one.name in (dataset, name):
                found.append(one)
            elif digits and digits_of(one.name) == digits:
                if one.kind == "dataset":
                    found.append(replace(one, name=dataset))
                elif job and one.name.startswith(f"{job}, "):
                    found.append(replace(one, name=name))
        return found

    def last(self, most: int, datasets: Callable[[Collection[str]], Mapping[str, str]]) -> list[Decision]:
        """The last so many. `datasets`: what those with these digits are called now, by them."""
        decisions = [*self][-most:]
        called = datasets({digits for one in decisions if (digits := digits_of(one.name))})
        return [replace(one, name=_now(one, called)) for one in decisions]


def _now(one: Decision, called: Mapping[str, str]) -> str:
    now = called.get(digits_of(one.name)) if one.kind in ("dataset", "job") else None
    if now is None or one.kind == "dataset":
        return one.name if now is None else now
    job, separator, dataset = one.name.partition(", ")
    # Where one of both names has such a comma itself, it is not known which of them is the job's.
    return of_several(job, now) if separator and ", " not in dataset else one.name
