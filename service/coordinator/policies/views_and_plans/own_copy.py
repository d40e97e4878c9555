"""A plan that a policy of others has given, as values of our own. Pure.

What they do later with the objects that they gave changes nothing that is in force, and a number of numpy's becomes
Python's: decisions are written as JSON, settings as messages, and neither knows others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, TypeVar

from tfquiver.service.coordinator.policies.views_and_plans.columns import ByName
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, Plan
from tfquiver.service.coordinator.policies.views_and_plans.reasons import Reasons

Given = TypeVar("Given")


def own_copy(plan: Given) -> Given:
    """What is no plan, or no such value, stays as it is, for `check_plan` to refuse. Columns, which are ours, are made
    anew for each plan."""
    if not isinstance(plan, Plan):
        return plan
    return replace(
        plan,
        allocations=_copied(plan.allocations, _allocation),
        remote_bytes_per_s=_copied(plan.remote_bytes_per_s, _number),
        reasons=_copied(plan.reasons, lambda reason: reason),
    )


def _copied(given: Given, value: Callable[[Any], Any]) -> Given:
    if not isinstance(given, Mapping) or isinstance(given, ByName | Reasons):
        return given
    return {name: value(its) for name, its in given.items()}  # type: ignore[return-value]


def _allocation(given: Any) -> Any:
    if not isinstance(given, Allocation) or type(given.cache_bytes) is int:
        return given
    return Allocation(given.mode, _number(given.cache_bytes))


def _number(given: Any) -> Any:
    """A bool is none: whoever gives one has not meant 1 byte."""
    if isinstance(given, bool | int | float):
        return given
    if isinstance(given, Integral):
        return int(given)
    return float(given) if isinstance(given, Real) else given
