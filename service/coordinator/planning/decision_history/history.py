"""The last decisions. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tfquiver.service.coordinator.planning.decision_history.decision import Decision

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
        """Those about data sets and jobs, and about the plan as a whole."""
        return [
            decision for decision in self._decisions if decision.name in names or decision.kind in ("plan", "policy")
        ]
