"""Which policy decides when a coordinator is started: what was chosen, else what --policy says; the default until that
is made.

Another package's need not come to an end while it is imported or made, and nobody can end its thread: so it is made
beside all else, while the coordinator serves already, and decides whenever it is there.
"""

from __future__ import annotations

import asyncio
from concurrent import futures
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from absl import logging

from tfquiver import errors
from tfquiver.service.common_to_servers import begun_apart
from tfquiver.service.coordinator.choosing_the_policy.chosen import ChosenPolicy
from tfquiver.service.coordinator.choosing_the_policy.ends import Ends
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import Policy

MOST_WAITED_S = 1.0  # before the coordinator starts: one that fails at once is refused as one that is not there
MOST_MADE_S = 10.0  # after that somebody else decides in its place; until then the plan in force stays
Made = TypeVar("Made")
OFF = "off"  # of the flag: nobody decides but persons


def in_the_meantime(policy: str) -> str:
    """Who decides until that one is made: itself, where nobody else's code is run for it. Raises InvalidArgumentError
    for one that is not there."""
    if policy == OFF:
        return registry.DEFAULT
    registry.check(policy)
    return policy if registry.is_ours(policy) else registry.DEFAULT


class AtStart:
    """Lives on the coordinator's loop."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._late: list[tuple[str, Future[Policy]]] = []  # whose word counts more first
        self._until_s = 0.0  # of the loop: nobody decides in their place before
        self._failed = ""  # why the one that was chosen cannot decide
        self._is_told = False  # that somebody decides in their place

    async def decides(self, planner: Planner, chosen: ChosenPolicy, now: float) -> Decision | None:
        """The planner has who is to decide, as far as that is made. What is to be told in the history, if anything.

        Raises InvalidArgumentError where --policy names one that cannot be made, as far as that is known by then.
        """
        began_s = _time_s()
        for policy in dict.fromkeys((chosen.name, chosen.flag)):
            if policy == planner.policy_name:
                break
            if why := self._ends.why_not(policy):
                self._failed = self._failed or why
                continue
            making = begun(policy, self._ends)
            await asyncio.to_thread(futures.wait, [making], max(0.0, began_s + MOST_WAITED_S - _time_s()))
            if not making.done():
                self._late.append((policy, making))
                continue
            try:
                planner.take(policy, making.result())
                break
            except errors.InvalidArgumentError as error:  # the package that had it is gone
                if policy == chosen.flag:
                    raise
                self._failed = f"the policy that was chosen is not there: {error}"
        self._until_s = began_s + MOST_MADE_S
        if self._late:
            logging.warning("%s", self.trouble(planner.policy_name))
        return self._refused(planner, chosen.name, now) if self._failed and not self._late else None

    @property
    def waits(self) -> bool:
        """Nobody decides just now."""
        return bool(self._late) and _time_s() < self._until_s

    def trouble(self, decides: str) -> str:
        """Why somebody else decides than was said, or nobody yet; for people. `decides`: who does."""
        if self._late:
            said = f"policy {self._late[0][0]} is not made"
            if self.waits:
                return f"{said} yet: until it is the plan in force stays, for {MOST_MADE_S:g} s at most"
            return f"{said} within {MOST_MADE_S:g} s: {decides} decides until it is"
        return f"{self._failed}: {decides} decides; choose another one" if self._failed else ""

    def overdue(self, planner: Planner, now: float) -> Decision | None:
        """From now on somebody else decides, if that has not been told yet."""
        if not self._late or self._is_told:
            return None
        self._is_told = True
        return self._refused(planner, self._late[0][0], now)

    def has_come(self) -> bool:
        return any(making.done() for _, making in self._late)

    def take(self, planner: Planner, chosen: ChosenPolicy, now: float) -> Decision | None:
        """Who has come decides from now on; no plan may be made meanwhile."""
        for at, (policy, making) in enumerate(self._late):
            if not making.done():
                continue
            try:
                made = making.result()
            except errors.InvalidArgumentError as error:
                del self._late[at]
                self._failed = self._failed or str(error)
                return self._refused(planner, policy, now)
            was, self._late = planner.policy_name, self._late[:at]
            planner.take(policy, made, chosen.pending and policy == chosen.name)
            if policy == chosen.name:
                self._failed = ""
            logging.info("policy %s is made, and decides", policy)
            return Decision(now, "policy", policy, was, policy, rule="it took its time to be made")
        return None

    def forget(self) -> None:
        """A person has chosen another one since."""
        self._failed, self._late = "", []

    def _refused(self, planner: Planner, policy: str, now: float) -> Decision:
        said = self.trouble(planner.policy_name)
        logging.error("%s", said)
        return Decision(now, "policy", planner.policy_name, policy, planner.policy_name, refused=said)


def _time_s() -> float:
    return asyncio.get_running_loop().time()


def begun(policy: str, ends: Ends) -> Future[Policy]:
    def make() -> Policy:
        try:
            return ends.asks(policy, partial(registry.make, policy), is_plan=False)
        except errors.TfquiverError:
            raise
        except BaseException as error:
            raise registry.not_loaded(policy, error) from error

    return begun_apart.begun(f"makes policy {policy}", make)
