"""The planner: asks the policy, keeps the last good plan where it fails, and moves data only where that pays. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tfquiver import errors
from tfquiver.service.coordinator.planning import changes, hysteresis
from tfquiver.service.coordinator.planning.history import Decision, History
from tfquiver.service.coordinator.planning.hysteresis import Patience
from tfquiver.service.coordinator.planning.moves import MoveBudget, carried, move
from tfquiver.service.coordinator.planning.worth import Valuing
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.check import check_plan, check_view
from tfquiver.service.coordinator.policies.filling import fill
from tfquiver.service.coordinator.policies.interface import Allocation, ClusterView, Plan
from tfquiver.service.coordinator.policies.pins import pin_reasons, remote_pins
from tfquiver.trust.plain_text import plain

_FIRST, _SWITCHED, _SAME = "the first plan", "another policy was chosen", "moves nothing"
_FREE, _FACTS, _PAYS = "takes nothing that is read", "jobs, data sets or room changed", "pays for its moves"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is in force now; what changed with it; why the policy's own plan is not, if so."""

    plan: Plan
    decisions: tuple[Decision, ...] = ()
    refused: str = ""


class Planner:
    def __init__(self, policy: str = registry.DEFAULT, patience: Patience | None = None) -> None:
        """Raises InvalidArgumentError for a policy that is not there."""
        self.policy_name, self.policy = policy, registry.make(policy)
        self.history = History()
        self.refused = ""  # of the last `replan`
        self._patience = patience or Patience()
        self._budget = MoveBudget(self._patience.moves_per_hour)
        self._plan: Plan | None = None
        self._facts: object = None  # that the plan in force was made for
        self._force = _FIRST

    @property
    def plan(self) -> Plan:
        return self._plan or Plan()

    def switch(self, policy: str, now: float) -> None:
        """From the next `replan` on, whatever that moves. Raises InvalidArgumentError, and nothing has changed."""
        made = registry.make(policy)
        if policy == self.policy_name:
            return
        self.history.extend([Decision(now, "policy", policy, self.policy_name, policy, rule="chosen by a person")])
        self.policy_name, self.policy = policy, made
        if self._plan is not None:
            self._force = _SWITCHED

    def restore(self, plan: Plan, decisions: list[Decision]) -> None:
        """After a restart: what was in force, and the history."""
        self._plan, self._force = plan, ""
        self.history.extend(decisions)

    def replan(self, view: ClusterView, now: float) -> Outcome:
        """What holds from now on.

        Raises:
          InvalidArgumentError, NotFoundError: the view cannot be right; the plan in force stays.
        """
        check_view(view)
        old = carried(view, self.plan.allocations)
        try:
            proposed = self.policy.plan(view, now)
            check_plan(proposed, view)
            rule, refused = self._judged(view, old, proposed, now)
        except Exception as error:  # noqa: BLE001  Whatever a third party's policy does, the last good plan stays.
            proposed, rule, refused = None, "", self._failure(error)
        if proposed is not None and not refused:
            made, self._facts, self._force = proposed, _facts(view), ""
        else:
            made = Plan(old, self.bandwidth(_all_pinned(view, old), now), self._reasons(view))
        decisions = list(changes.between(view, self.plan, made, rule or "the plan in force stays", now))
        if refused and refused != self.refused:
            decisions.append(Decision(now, "plan", self.policy_name, None, None, refused=refused))
        self._plan, self.refused = made, refused
        self.history.extend(decisions)
        return Outcome(made, tuple(decisions), refused)

    def _judged(self, view: ClusterView, old: Mapping[str, Allocation], proposed: Plan, now: float) -> tuple[str, str]:
        """The rule by which the proposed plan is taken, or why it is not."""
        new = proposed.allocations
        if self._force:
            return self._force, ""
        moved = move(view, old, new)
        if changes.kept(old) == changes.kept(new):
            return _SAME, ""
        news = _facts(view) != self._facts
        if news and not moved.evicted_bytes:
            return _FREE, ""
        rule = _FACTS if news and not isinstance(self.policy, Valuing) else _PAYS
        why = hysteresis.refusal(self.policy, view, old, new, moved, self._patience) if rule == _PAYS else None
        if why:
            return "", why
        if not self._budget.take(moved.evicted_bytes, view.cache_bytes, now):
            return "", f"{moved.evicted_bytes} bytes would move, more than may within an hour"
        return rule, ""

    def bandwidth(self, view: ClusterView, now: float) -> Mapping[str, float]:
        """Bytes/s of the store by job, for a view whose data sets are all pinned. Of a policy that fails, as it was."""
        try:
            plan = self.policy.plan(view, now)
            check_plan(plan, view)
        except Exception:  # noqa: BLE001  The plan that was asked for before is refused for it.
            return _remote_as_it_was(view, self.plan.remote_bytes_per_s)
        return plan.remote_bytes_per_s

    def _reasons(self, view: ClusterView) -> dict[str, str]:
        there = {dataset.name for dataset in view.datasets} | {job.name for job in view.jobs}
        return {name: reason for name, reason in self.plan.reasons.items() if name in there} | pin_reasons(view)

    def _failure(self, error: Exception) -> str:
        kind = "" if isinstance(error, errors.TfquiverError) else f"{type(error).__name__}: "
        return f"policy {self.policy_name} failed: {kind}{plain(error, 200)}"


def _remote_as_it_was(view: ClusterView, had: Mapping[str, float]) -> dict[str, float]:
    pins, jobs = remote_pins(view), {job.name for job in view.jobs}
    kept = {name: rate for name, rate in had.items() if name in jobs and name not in pins}
    if view.remote_bytes_per_s is not None:
        kept = fill(max(0.0, view.remote_bytes_per_s - sum(pins.values())), kept)
    return pins | kept


def _all_pinned(view: ClusterView, allocations: Mapping[str, Allocation]) -> ClusterView:
    fixed = (replace(dataset, pin=allocations.get(dataset.name, Allocation())) for dataset in view.datasets)
    return replace(view, datasets=tuple(fixed))


def _facts(view: ClusterView) -> object:
    """What is not measured, so that it has no noise."""
    datasets = [(d.name, d.size_bytes, d.cooperative_bytes, d.pin) for d in view.datasets]
    jobs = [(j.name, j.dataset, j.accelerators, j.irregular, j.remote_pin_bytes_per_s) for j in view.jobs]
    room = view.cache_bytes, view.remote_bytes_per_s, view.accelerators
    return room, sorted(datasets, key=lambda dataset: dataset[0]), sorted(jobs, key=lambda job: job[0])
