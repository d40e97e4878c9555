"""The last decisions. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

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

    def of(self, *names: str) -> list[Decision]:
        """Those about data sets and jobs, and about the plan as a whole."""
        return [
            decision for decision in self._decisions if decision.name in names or decision.kind in ("plan", "policy")
        ]
