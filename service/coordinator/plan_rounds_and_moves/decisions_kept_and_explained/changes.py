"""What differs between two plans, as decisions for the history. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfquiver.service.coordinator.plan_rounds_and_moves import moves
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.policies.pins import GIVEN_BACK, PINNED, pinned, remote_pins
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan

# A job's bandwidth follows every measurement: less than twice, or than half of it, is not told of.
_NOTABLE = 2.0
# Pins took it, or nodes went: no plan has chosen that.
_LESS_ROOM = "less room is left for it"


def between(view: ClusterView, old: Plan, new: Plan, rule: str, now: float) -> Iterator[Decision]:
    pins, rates, left = pinned(view), remote_pins(view), moves.carried(view, old.allocations)
    goes = moves.evicted(view, old.allocations, new.allocations)
    other = dict.fromkeys(old.allocations.keys() - {dataset.name for dataset in view.datasets}, "nobody reads it")
    for name in sorted(old.allocations.keys() | new.allocations.keys()):
        was, becomes = old.allocations.get(name, Allocation()), new.allocations.get(name, Allocation())
        if was != becomes:
            if name not in pins and old.reasons.get(name) in (PINNED, GIVEN_BACK):
                other[name] = "no longer pinned"  # whoever reads it
            left_bytes = left.get(name, Allocation()).cache_bytes
            if name not in pins and becomes.cache_bytes == left_bytes != was.cache_bytes:
                other.setdefault(name, _LESS_ROOM)
            by = "pinned" if name in pins else other.get(name, rule)
            why = new.reasons.get(name) or other.get(name, "")
            yield Decision(now, "dataset", name, was, becomes, why, by, evicted_bytes=goes.get(name, 0))
    for name in sorted(old.remote_bytes_per_s.keys() | new.remote_bytes_per_s.keys()):
        had, gets = old.remote_bytes_per_s.get(name), new.remote_bytes_per_s.get(name)
        if had != gets and (had is None or gets is None or max(had, gets) > _NOTABLE * min(had, gets)):
            yield Decision(now, "job", name, had, gets, new.reasons.get(name, ""), "pinned" if name in rates else rule)


def kept(allocations: Mapping[str, Allocation]) -> dict[str, Allocation]:
    return {name: allocation for name, allocation in allocations.items() if allocation.mode != "none"}
