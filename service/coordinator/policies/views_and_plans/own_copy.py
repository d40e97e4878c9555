"""A plan that a policy of others has given, as values of our own. Pure.

What they do later with the objects that they gave changes nothing that is in force, and a number of numpy's becomes
Python's: decisions are written as JSON, settings as messages, and neither knows others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from numbers import Integral, Real
from typing import Any, TypeVar

from tfquiver import errors
from tfquiver.service.coordinator.policies.views_and_plans.columns import ByName
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan
from tfquiver.service.coordinator.policies.views_and_plans.reasons import Reasons

_MORE_NAMES = 1000  # than twice those of the view: reasons may be about what was there a moment ago
Given = TypeVar("Given")


def own_copy(plan: Given, view: ClusterView) -> Given:
    """What is no plan, or no such value, stays as it is, for `check_plan` to refuse. Columns, which are ours, are made
    anew for each plan. Raises InvalidArgumentError naming the field that has far more names than the view: a mapping
    may have no end."""
    if not isinstance(plan, Plan):
        return plan
    most = _MORE_NAMES + 2 * (len(view.datasets) + len(view.jobs))
    return replace(
        plan,
        allocations=_copied("allocations", plan.allocations, _allocation, most),
        remote_bytes_per_s=_copied("remote_bytes_per_s", plan.remote_bytes_per_s, _number, most),
        reasons=_copied("reasons", plan.reasons, lambda reason: reason, most),
    )


def _copied(field: str, given: Given, value: Callable[[Any], Any], most: int) -> Given:
    if not isinstance(given, Mapping) or isinstance(given, ByName | Reasons):
        return given
    made = {name: value(its) for name, its in islice(given.items(), most + 1)}
    if len(made) > most:
        raise errors.InvalidArgumentError(f"{field}: more than {most} names, which is far more than the view has")
    return made  # type: ignore[return-value]


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
