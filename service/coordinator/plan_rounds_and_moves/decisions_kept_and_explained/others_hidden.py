"""An explanation for somebody who may not see all there is: without what others call their data sets and jobs. Pure.

Whose room went to whom, and whose probe waits for whom, is told by name to people who run the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import Explanation
from tfquiver.service.coordinator.policies.views_and_plans.names import digits_of

_DIGITS = re.compile(r"\(([0-9a-f]{12,64})\)")
_ANOTHER, _UNTOLD = "another data set", "it speaks of what belongs to others"
_SOMEBODY = "somebody reads below a floor"
_FLOOR = re.compile(r"^job .* reads below its floor$", re.DOTALL)


def without_others(told: Explanation, theirs: Collection[str], others: Iterable[str]) -> Explanation:
    """
    Args:
      theirs: data sets that they may read, as plans call them; `others`: all others.
    """
    own = {digits_of(name) for name in theirs}
    called = {digits_of(name): name for name in others}

    def hidden(said: str) -> str:
        for digits in set(_DIGITS.findall(said)) - own:
            if (other := called.get(digits, "")) not in said or not other:
                return _UNTOLD  # it was called otherwise then
            said = said.replace(other, _ANOTHER)
        return said

    def decision(record: dict[str, Any]) -> dict[str, Any]:
        return record | {"measurement": hidden(record["measurement"]), "refused": _refusal(record["refused"])}

    return replace(
        told,
        reasons={name: hidden(why) for name, why in told.reasons.items()},
        refused=_refusal(told.refused),
        history=tuple(map(decision, told.history)),
        probes={job: one | {"waits_for": _FLOOR.sub(_SOMEBODY, one["waits_for"])} for job, one in told.probes.items()},
    )


def _refusal(said: str) -> str:
    """Where a policy of others failed, its error may say anything."""
    policy, failed, _ = said.partition(" failed: ")
    return f"{policy} failed" if failed else said
