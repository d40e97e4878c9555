"""Whether a change of plan is worth the data that it moves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfquiver.service.coordinator.planning.moves import HOUR_S, Move
from tfquiver.service.coordinator.planning.worth import worth_of
from tfquiver.service.coordinator.policies.amounts import of_bytes
from tfquiver.service.coordinator.policies.demand import reading_rates
from tfquiver.service.coordinator.policies.interface import Allocation, ClusterView, Policy


@dataclass(frozen=True, slots=True)
class Patience:
    """`least_gain`: of what is given up; measurements are not more exact. `horizon_s`: how long a plan is expected to
    be good for. `moves_per_hour`: of the cache, evicted of what jobs read."""

    least_gain: float = 0.2
    horizon_s: float = HOUR_S
    moves_per_hour: float = 0.5


def refusal(
    policy: Policy,
    view: ClusterView,
    old: Mapping[str, Allocation],
    new: Mapping[str, Allocation],
    moved: Move,
    patience: Patience,
) -> str | None:
    """Why the new allocations do not pay; None when they do.

    Until what they move has been read from the store, what both have in common is all there is; after that the new are
    worth more. Over the horizon the one must not exceed the other.
    """
    before, after = worth_of(policy, view, old), worth_of(policy, view, new)
    gain, lost = after - before, max(0.0, before - worth_of(policy, view, moved.stays))
    if gain <= patience.least_gain * lost:
        return (
            f"it would gain {_percent(gain, before)} by giving up {_percent(lost, before)}: less than the "
            f"{patience.least_gain:.0%} of that by which measurements may be wrong"
        )
    all_read = sum(reading_rates(view).values())
    loaded_per_s = min(all_read, view.remote_bytes_per_s or all_read)
    loading_s = moved.loaded_bytes / max(1.0, loaded_per_s)
    if lost and lost * loading_s >= gain * max(0.0, patience.horizon_s - loading_s):
        return (
            f"it would gain {_percent(gain, before)} after {loading_s:.0f} s, in which {of_bytes(moved.loaded_bytes)} "
            f"are loaded and {_percent(lost, before)} is lost: not worth it within {patience.horizon_s:.0f} s"
        )
    return None


def _percent(part: float, of: float) -> str:
    return f"{part / of:.1%}" if of else f"{part:.3g}"
