"""The planner: asks the policy, keeps the last good plan where it fails, and moves data only where that pays. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import getattr_static
from typing import TypeVar

from tfquiver import errors
from tfquiver.plain_text import of_others_error, plain
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained import changes
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.history import History
from tfquiver.service.coordinator.plan_rounds_and_moves.hysteresis import Hysteresis, Patience, Verdict, Why
from tfquiver.service.coordinator.plan_rounds_and_moves.moves import carried
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.pins import PINNED, of_now, remote_pins
from tfquiver.service.coordinator.policies.views_and_plans.check import check_plan, check_view
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan, Policy
from tfquiver.service.coordinator.policies.views_and_plans.own_copy import own_copy
from tfquiver.service.coordinator.speed_model_and_weighted_shares.filling import fill

_FIRST, _SWITCHED = "the first plan", "another policy was chosen"
_MOST_TOLD = 32  # refusals of different kinds, until data moves: who fails in new words each time fills no history
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is in force now; what changed with it; why the policy's own plan is not, if so."""

    plan: Plan
    decisions: tuple[Decision, ...] = ()
    refused: str = ""
    why: Why = ""  # in a word


class Planner:
    def __init__(
        self,
        policy: str = registry.DEFAULT,
        patience: Patience | None = None,
        passes: tuple[type[BaseException], ...] = (KeyboardInterrupt,),
        made: Policy | None = None,
    ) -> None:
        """`passes`: what ends a call although a policy may have raised it: of a person, who simulates. Raises
        InvalidArgumentError for a policy that is not there."""
        self.passes = passes
        self.policy_name, self.policy = policy, made or registry.make(policy)
        self.history = History()
        self.refused = ""  # of the last `replan`
        self._patience = patience or Patience()
        self._hysteresis = Hysteresis(self._patience, self.history)
        self._told: set[str] = set()
        self._plan: Plan | None = None
        self._facts: _Facts | None = None  # that the plan in force was made for
        self._force = _FIRST
        self._rates_before = dict[str, float]()  # of jobs, as the history of before a restart has them at last
        self._limited = frozenset[str]()  # jobs of which somebody else has said what they may read, in the last view

    @property
    def plan(self) -> Plan:
        return self._plan or Plan()

    @property
    def probing(self) -> bool:
        """Whether the policy makes something of what is probed. None of its code is run: this is asked on a loop, and
        a property of theirs may fail, or never end."""
        return getattr_static(self.policy, "probing", True) is not False

    def switch(self, policy: str, now: float, made: Policy | None = None) -> Decision | None:
        """From the next `replan` on, whatever that moves. None: it was chosen already. `made`: it. Raises
        InvalidArgumentError, and nothing has changed."""
        was = self.policy_name
        if made is None:
            self.go_on_with(policy)
        else:
            self.take(policy, made)
        return None if policy == was else self._chosen(was, now)

    def successor(self, policy: str, made: Policy, now: float) -> tuple[Planner, Decision | None]:
        """Of a planner whose policy does not answer: another one with the same plan in force, that this one's thread
        knows nothing of; and as `switch`."""
        planner = Planner(policy, self._patience, self.passes, made)
        planner.history.extend(list(self.history))
        planner._plan, planner._limited = self._plan, self._limited
        return planner, None if policy == self.policy_name else planner._chosen(self.policy_name, now)

    def _chosen(self, was: str, now: float) -> Decision:
        policy = self.policy_name
        decision = Decision(now, "policy", policy, was, policy, rule="chosen by a person")
        self.history.extend([decision])
        if self._plan is not None:
            self._force = _SWITCHED
        return decision

    def go_on_with(self, policy: str) -> None:
        """Raises InvalidArgumentError, and nothing has changed."""
        try:
            made = registry.make(policy)
        except KeyboardInterrupt as error:
            if self.passes:
                raise
            raise registry.not_loaded(policy, error) from error
        self.take(policy, made)

    def take(self, policy: str, made: Policy, switched: bool = False) -> None:
        """After a restart: what a person had chosen. `switched`: it has made no plan yet."""
        if policy != self.policy_name:
            self.policy_name, self.policy = policy, made
        if switched and self._plan is not None:
            self._force = _SWITCHED

    def rename(self, names: Mapping[str, str]) -> None:
        """Data sets or jobs that are the same are called otherwise from now on. Else what is in force of them would
        seem to be nothing, and be moved without being weighed.

        Args:
          names: new ones, by those that plans had until now.
        """
        if not names:
            return
        self.history.rename(names)
        self._rates_before = _renamed(self._rates_before, names)
        self._limited = frozenset(names.get(name, name) for name in self._limited)
        self._facts = self._facts and self._facts.renamed(names)
        if self._plan is not None:
            was = self._plan
            self._plan = Plan(
                _renamed(was.allocations, names), _renamed(was.remote_bytes_per_s, names), _renamed(was.reasons, names)
            )

    @property
    def switched(self) -> bool:
        """Another policy was chosen, and has made no plan yet."""
        return self._force == _SWITCHED

    def restore(self, plan: Plan, decisions: list[Decision], switched: bool = False) -> None:
        """After a restart: what was in force, and the history; whether it was `switched`."""
        self._plan, self._force = plan, _SWITCHED if switched else ""
        self.history.extend(decisions)

    def go_on_with_history(self) -> None:
        """After a restart: what jobs were limited to then is no decision once they are back."""
        last = {one.name: one.becomes for one in self.history if one.kind == "job"}
        self._rates_before = {name: rate for name, rate in last.items() if isinstance(rate, int | float)}

    def go_on_with_pins(self, pins: Mapping[str, Allocation]) -> None:
        """After a restart: what people had set by data set, which is in force and no decision."""
        if not pins:
            return
        was, people = self.plan, dict.fromkeys(pins, PINNED)
        self._plan = replace(was, allocations={**was.allocations, **pins}, reasons={**was.reasons, **people})

    def replan(self, view: ClusterView, now: float) -> Outcome:
        """What holds from now on.

        Raises:
          InvalidArgumentError, NotFoundError: the view cannot be right; the plan in force stays.
        """
        check_view(view)
        if self._rates_before:
            rates = {
                name: rate for name, rate in remote_pins(view).items() if self._rates_before.pop(name, None) == rate
            }
            self._plan = replace(self.plan, remote_bytes_per_s={**self.plan.remote_bytes_per_s, **rates})
        old, facts = carried(view, self.plan.allocations), _Facts.of(view)
        try:
            proposed = own_copy(self.policy.plan(view, now), view)
            check_plan(proposed, view)
            verdict = Verdict(proposed, self._force)
            if not self._force:
                news = facts != self._facts
                verdict = self._hysteresis.judge(self.policy, view, old, proposed, facts, news, now)
        except self.passes:
            raise
        except BaseException as error:  # noqa: BLE001  Whatever a third party's policy does, the last plan stays.
            proposed, verdict = None, Verdict(None, why="failed", refused=self._failure(error))
        made = verdict.plan
        if made is None:
            made = Plan(old, {}, of_now(self.plan.reasons, view))
        else:
            self._facts, self._force = facts, ""
        if made is not proposed:
            made = replace(made, remote_bytes_per_s=self.bandwidth(_all_pinned(view, made.allocations), now))
        decisions = list(changes.between(view, self.plan, made, verdict.rule or "the plan in force stays", now))
        decisions += self._refusal(verdict, decisions, now)
        self._plan, self.refused, self._limited = made, verdict.refused, frozenset(remote_pins(view))
        self.history.extend(decisions)
        return Outcome(made, tuple(decisions), verdict.refused, verdict.why)

    def _refusal(self, verdict: Verdict, decisions: list[Decision], now: float) -> list[Decision]:
        """A refusal is told once, until data moves: with noisy measurements the same comes and goes all day, and what
        fails all the time has other numbers each time."""
        if any(decision.kind == "dataset" for decision in decisions):
            self._told.clear()
        about = _NUMBER.sub("#", verdict.refused) if verdict.why == "failed" else verdict.why
        if verdict.plan is not None or about in self._told or len(self._told) >= _MOST_TOLD:
            return []
        self._told.add(about)
        return [Decision(now, "plan", self.policy_name, None, None, refused=verdict.refused)]

    def bandwidth(self, view: ClusterView, now: float) -> Mapping[str, float]:
        """Bytes/s of the store by job, for a view whose data sets are all pinned. Of a policy that fails, as it was."""
        try:
            plan = own_copy(self.policy.plan(view, now), view)
            check_plan(plan, view)
        except self.passes:
            raise
        except BaseException:  # noqa: BLE001  The plan that was asked for before is refused for it.
            had = {name: rate for name, rate in self.plan.remote_bytes_per_s.items() if name not in self._limited}
            return _remote_as_it_was(view, had)
        return plan.remote_bytes_per_s

    def _failure(self, error: BaseException) -> str:
        said = plain(error, 200) if isinstance(error, errors.TfquiverError) else of_others_error(error)
        return f"policy {self.policy_name} failed: {said}"


def _remote_as_it_was(view: ClusterView, had: Mapping[str, float]) -> dict[str, float]:
    pins, jobs = remote_pins(view), {job.name for job in view.jobs}
    kept = {name: rate for name, rate in had.items() if name in jobs and name not in pins}
    if view.remote_bytes_per_s is not None:
        kept = fill(max(0.0, view.remote_bytes_per_s - sum(pins.values())), kept)
    return pins | kept


def _all_pinned(view: ClusterView, allocations: Mapping[str, Allocation]) -> ClusterView:
    fixed = (replace(dataset, pin=allocations.get(dataset.name, Allocation())) for dataset in view.datasets)
    return replace(view, datasets=tuple(fixed))


def _renamed(by_name: Mapping[str, Given], names: Mapping[str, str]) -> dict[str, Given]:
    return {names.get(name, name): value for name, value in by_name.items()}


@dataclass(frozen=True, slots=True)
class _Facts:
    """Of a view: what nobody measures, so that it has no noise. What the store gives may be measured. Accelerators are
    what training processes say, who come and go between two fits."""

    room: tuple[int, int | None]
    datasets: Mapping[str, tuple[int, int, Allocation | None]]
    jobs: Mapping[str, tuple[str, bool, float | None]]

    @classmethod
    def of(cls, view: ClusterView) -> _Facts:
        return cls(
            (view.cache_bytes, view.accelerators),
            {d.name: (d.size_bytes, d.cooperative_bytes, d.pin) for d in view.datasets},
            {j.name: (j.dataset, j.irregular, j.remote_pin_bytes_per_s) for j in view.jobs},
        )

    def renamed(self, names: Mapping[str, str]) -> _Facts:
        jobs = {job: (names.get(dataset, dataset), odd, pin) for job, (dataset, odd, pin) in self.jobs.items()}
        return _Facts(self.room, _renamed(self.datasets, names), _renamed(jobs, names))
