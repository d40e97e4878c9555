"""Conditions of a status, as Kubernetes' conventions have them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tfquiver.plain_text import plain

_LONGEST = 1024


@dataclass(frozen=True, slots=True)
class Condition:
    """`reason`: one word in CamelCase, for programs. `holds` None: nobody knows."""

    type: str
    holds: bool | None
    reason: str
    message: str = ""


def merged(before: Any, now: Iterable[Condition], generation: int, at: str) -> list[dict[str, Any]]:
    """For `status.conditions`. One whose status is as before keeps its time.

    Args:
      before: what stands there; others may have written it.
      at: the time, RFC 3339.
    """
    there = [one for one in before if isinstance(one, dict)] if isinstance(before, list) else []
    were = {type: one for one in there if isinstance(type := one.get("type"), str)}
    made = []
    for one in now:
        status = "Unknown" if one.holds is None else str(one.holds)
        was = were.get(one.type, {})
        since = was.get("lastTransitionTime") if was.get("status") == status else None
        made.append(
            {
                "type": one.type,
                "status": status,
                "reason": one.reason,
                "message": plain(one.message, _LONGEST),
                "observedGeneration": generation,
                "lastTransitionTime": since if since and isinstance(since, str) else at,
            }
        )
    return made
