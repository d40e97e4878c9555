"""A policy as a coordinator runs it: with the planner around it, which checks, weighs moves and keeps the last plan."""

from __future__ import annotations

from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan


class Shipping:
    def __init__(self, policy: str) -> None:
        """Raises InvalidArgumentError: there is no such policy."""
        self._planner = Planner(policy)
        self.failures, self.failure = 0, ""  # how often it had no plan that can be; the last time, why
        self.settled = False  # the same view would give the same plan again: nothing is to be confirmed, or waits

    @property
    def decisions(self) -> list[Decision]:
        """The last of them, oldest first."""
        return list(self._planner.history)

    def plan(self, view: ClusterView, now: float) -> Plan:
        made = self._planner.replan(view, now)
        self.settled = made.why not in ("again", "budget", "failed")
        if made.why == "failed":
            self.failures, self.failure = self.failures + 1, made.refused
        return made.plan
