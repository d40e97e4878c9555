"""However much was decided, and however long the reasons were: what is told of it fits a message."""

from __future__ import annotations

import json

from tfquiver.grpc_plumbing.rpc import MAX_MESSAGE_BYTES
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import told
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.history import (
    MOST_DECISIONS,
    History,
)
from tfquiver.service.coordinator.policies.views_and_plans.check import MOST_REASON


def test_of_long_reasons_the_last_are_told() -> None:
    history = History()
    history.extend(
        Decision(float(at), "dataset", "data", None, None, "\N{SNOWMAN}" * MOST_REASON) for at in range(MOST_DECISIONS)
    )
    shown = told(history.of("data", "data"))
    assert 10 < len(shown) < MOST_DECISIONS
    assert [one["at_s"] for one in shown] == [float(at) for at in range(MOST_DECISIONS - len(shown), MOST_DECISIONS)]
    assert len(json.dumps(shown)) < MAX_MESSAGE_BYTES / 2


def test_of_short_ones_all_are() -> None:
    history = History()
    history.extend(Decision(float(at), "dataset", "data", None, None, "why") for at in range(MOST_DECISIONS))
    assert len(told(history.of("data", "data"))) == MOST_DECISIONS
