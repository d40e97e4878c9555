"""What allocations are worth to a policy: by that the planner judges whether a change pays. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from tfquiver import errors
from tfquiver.service.coordinator.policies.views_and_plans.columns import ByName
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Policy
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import spared


@runtime_checkable
class Valuing(Protocol):
    """A policy with a goal of its own."""

    def worth(self, view: ClusterView, allocations: Mapping[str, Allocation]) -> float:
        """At least 0, in any one unit; caches are taken as full. More is better. Pure, as `plan` is."""


def worth_of(policy: Policy, view: ClusterView, allocations: Mapping[str, Allocation]) -> float:
    """By the policy's own goal; else the bytes/s that the store is spared. Raises InvalidArgumentError where the
    policy says what can be weighed against nothing: of nan and infinity every comparison comes out in favour."""
    if isinstance(policy, Valuing):
        # Their own: whatever is done with it, those in force stay as they are.
        own = allocations if isinstance(allocations, ByName) else dict(allocations)
        worth = float(policy.worth(view, own))
        if not 0 <= worth < math.inf:
            raise errors.InvalidArgumentError(f"worth: {worth:g} is not a number of at least 0")
        return worth
    return spared(view, allocations)
