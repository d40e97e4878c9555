"""Whether a change of plan is worth the data that it moves, and whether it still is when measured again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal

from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained import changes
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.moves import HOUR_S, Move, MoveBudget, move
from tfquiver.service.coordinator.plan_rounds_and_moves.worth import Valuing, worth_of
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan, Policy
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import reading_rates
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

# Of the cache: two plans that differ by less are one, for what is between them are newcomers' small data sets.
_ALIKE_PARTS = 64
_NEWS, _PAYS = "jobs, data sets or room changed", "pays for its moves"  # rules of decisions that the budget has paid
Why = Literal["", "failed", "gain", "loading", "again", "budget"]


@dataclass(frozen=True, slots=True)
class Patience:
    """`least_gain`: of what is given up; less is within what measurements are off by. `horizon_s`: how long a plan is
    expected to be good for. `moves_per_hour`: of the cache, evicted of what jobs read. `confirmations`: how often more
    a change must have been worth it, in plannings one after the other, before it is made."""

    least_gain: float = 0.2
    horizon_s: float = HOUR_S
    moves_per_hour: float = 0.5
    confirmations: int = 3


@dataclass(frozen=True, slots=True)
class _Rival:
    """What was worth it when it was proposed."""

    plan: Plan
    facts: object  # for which it was
    datasets: Set[str]  # that there were

    def is_as(self, proposed: Plan, view: ClusterView) -> bool:
        """Of what there was then and is now: whoever has come or gone has a data set of its own."""
        differ_bytes = 0
        for dataset in view.datasets:
            if dataset.name in self.datasets:
                one, other = (of.allocations.get(dataset.name, Allocation()) for of in (self.plan, proposed))
                common_bytes = min(one.cache_bytes, other.cache_bytes) if one.mode == other.mode else 0
                differ_bytes += max(one.cache_bytes, other.cache_bytes) - common_bytes
        return differ_bytes * _ALIKE_PARTS <= view.cache_bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """The plan to take and the rule for it; or None, in a word and a sentence why not."""

    plan: Plan | None
    rule: str = ""
    why: Why = ""
    refused: str = ""


class Hysteresis:
    def __init__(self, patience: Patience, made: Iterable[Decision] = ()) -> None:
        """`made`: what was decided, also before this process or by another policy, as it is when data is to move for
        the first time: what moved then counts, or every restart would let a whole cache move."""
        self._patience, self._made = patience, made
        self._budget: MoveBudget | None = None
        self._rival: _Rival | None = None
        self._confirmed = 0  # so often it was worth it again

    def judge(
        self,
        policy: Policy,
        view: ClusterView,
        old: Mapping[str, Allocation],
        proposed: Plan,
        facts: object,
        news: bool,
        now: float,
    ) -> Verdict:
        """Data that jobs read is evicted for two reasons only: `news`, for a policy that has no goal to weigh it by; or
        that it pays (`_not_worth`), so many times in a row, each time with the measurements of that time.

        Args:
          facts: all of the view that is not measured, and so has no noise.
          news: they are not those that `old` was planned for.
        """
        moved = move(view, old, proposed.allocations)
        if changes.kept(old) == changes.kept(proposed.allocations):
            self._rival = None
            return Verdict(proposed, "moves nothing")
        if news and not moved.evicted_bytes:
            return Verdict(proposed, "evicts nothing that is read")
        rule = _NEWS
        if not news or isinstance(policy, Valuing):
            rule, proposed = _PAYS, self._challenge(view, proposed, facts)
            moved = move(view, old, proposed.allocations)
            verdict = self._not_worth(policy, view, old, proposed, moved)
            if verdict is not None:
                self._rival = None
                return verdict
            if self._confirmed < self._patience.confirmations:
                left = self._patience.confirmations - self._confirmed
                return Verdict(
                    None,
                    why="again",
                    refused=f"moving data would pay; {many(left, 'more plan', 'more plans in a row')} must find so "
                    "first",
                )
        if self._budget is None:
            self._budget = MoveBudget(self._patience.moves_per_hour)
            self._budget.restore(_moved(self._made), view.cache_bytes, now)
        if not self._budget.take(moved.evicted_bytes, view.cache_bytes, now):
            said = f"{of_bytes(moved.evicted_bytes)} that jobs read would go, more than may within an hour"
            return Verdict(None, why="budget", refused=said)
        self._rival = None
        return Verdict(proposed, rule)

    def _challenge(self, view: ClusterView, proposed: Plan, facts: object) -> Plan:
        """The rival again; else the proposed plan becomes it. Of many noisy ones the best is another each time. One
        that is proposed again as it was goes on, whoever has come or gone: where jobs do so all the time there would
        never be a plan else."""
        rival = self._rival
        if rival is not None and rival.facts == facts:
            self._confirmed += 1
            return rival.plan
        again = rival is not None and rival.is_as(proposed, view)
        self._rival = _Rival(proposed, facts, {dataset.name for dataset in view.datasets})
        self._confirmed = self._confirmed + 1 if again else 0
        return proposed

    def _not_worth(
        self, policy: Policy, view: ClusterView, old: Mapping[str, Allocation], new: Plan, moved: Move
    ) -> Verdict | None:
        """Until what is moved has been read from the store, what both plans have in common is all there is; after that
        the new one is worth more. Over the horizon the one must not exceed the other.
        """
        patience = self._patience
        before, after = worth_of(policy, view, old), worth_of(policy, view, new.allocations)
        gain, lost = after - before, max(0.0, before - worth_of(policy, view, moved.stays))
        would = f"it would gain {_percent(gain, before)}"
        if gain <= patience.least_gain * lost:
            given_up = f"by giving up {_percent(lost, before)}"
            said = f"{would} {given_up}: less than the {patience.least_gain:.0%} of that which measurements are off by"
            return Verdict(None, why="gain", refused=said)
        all_read = sum(reading_rates(view).values())
        loading_s = moved.loaded_bytes / max(1.0, min(all_read, view.remote_bytes_per_s or all_read))
        if lost and lost * loading_s >= gain * max(0.0, patience.horizon_s - loading_s):
            loss = f"{of_bytes(moved.loaded_bytes)} are loaded and {_percent(lost, before)} is lost"
            said = f"{would} after {loading_s:.0f} s in which {loss}: not worth it within {patience.horizon_s:.0f} s"
            return Verdict(None, why="loading", refused=said)
        return None


def _moved(decisions: Iterable[Decision]) -> Iterator[tuple[float, int]]:
    """When, and how many bytes; of decisions of earlier versions at most so many: not all of what a data set might have
    was there."""
    for one in decisions:
        if one.rule in (_NEWS, _PAYS) and isinstance(one.was, Allocation) and isinstance(one.becomes, Allocation):
            given_up_bytes = max(0, one.was.cache_bytes - one.becomes.cache_bytes)
            yield one.at_s, given_up_bytes if one.evicted_bytes is None else one.evicted_bytes


def _percent(part: float, of: float) -> str:
    return f"{part / of:.1%}" if of else f"{part:.3g}"
