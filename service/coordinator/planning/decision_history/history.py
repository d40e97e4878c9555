"""The last decisions. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tfquiver.service.coordinator.planning.decision_history.decision import Decision
from tfquiver.service.coordinator.policies.views_and_plans.names import digits_of

MOST_DECISIONS = 4096


class History:
    """The last `most` decisions, oldest first."""

    def __init__(self, most: int = MOST_DECISIONS) -> None:
        self._decisions: deque[Decision] = deque(maxlen=most)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._decisions)

    def __len__(self) -> int:
        return len(self._decisions)

    def extend(self, decisions: Iterable[Decision]) -> None:
        self._decisions.extend(decisions)

    def rename(self, names: Mapping[str, str]) -> None:
        """Of data sets and jobs that are called otherwise now; `names`: new ones by old ones."""
        renamed = (
            replace(one, name=names[one.name]) if one.kind in ("dataset", "job") and one.name in names else one
            for one in self._decisions
        )  # fmt: skip
        self._decisions = deque(renamed, self._decisions.maxlen)

    def of(self, *names: str) -> list[Decision]:
        """Those about data sets and jobs, and about the plan as a whole. A data set may have been called otherwise when
        nobody read it, or when the log was written that a coordinator was started with: its digits are the same."""
        called = {digits: name for name in names if (digits := digits_of(name))}
        found = list[Decision]()
        for one in self._decisions:
            now = called.get(digits_of(one.name)) if one.kind == "dataset" else None
            if now is not None:
                found.append(one if one.name == now else replace(one, name=now))
            elif one.name in names or one.kind in ("plan", "policy"):
                found.append(one)
        return found
