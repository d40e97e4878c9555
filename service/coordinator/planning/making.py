"""Which policy decides when a coordinator is started: what was chosen, else what --policy says; the default until that
is made.

Another package's need not come to an end while it is imported or made, and nobody can end its thread: so it is made
beside all else, waited for in bounded time, and decides whenever it is there.
"""

from __future__ import annotations

import asyncio
from concurrent import futures
from concurrent.futures import Future
from threading import Thread

from absl import logging

from tfquiver import errors
from tfquiver.service.coordinator.planning.chosen import ChosenPolicy
from tfquiver.service.coordinator.planning.decision_history.decision import Decision
from tfquiver.service.coordinator.planning.planner import Planner
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import Policy

MOST_MADE_S = 10.0
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

    def __init__(self) -> None:
        self.trouble = ""  # why somebody else decides than was said; for people
        self._late: list[tuple[str, Future[Policy]]] = []  # whose word counts more first

    async def decides(self, planner: Planner, chosen: ChosenPolicy, now: float) -> Decision | None:
        """The planner has who is to decide, as far as that is made. What is to be told in the history, if anything.

        Raises InvalidArgumentError where --policy names one that cannot be made.
        """
        untold = ""
        for policy in dict.fromkeys((chosen.name, chosen.flag)):
            if policy == planner.policy_name:
                break
            making = begun(policy)
            await asyncio.to_thread(futures.wait, [making], MOST_MADE_S)
            if not making.done():
                self._late.append((policy, making))
                untold = untold or f"policy {policy} is not made within {MOST_MADE_S:g} s"
                continue
            try:
                planner.take(policy, making.result())
                break
            except errors.InvalidArgumentError as error:  # the package that had it is gone
                if policy == chosen.flag:
                    raise
                untold = untold or f"the policy that was chosen is not there: {error}"
        if not untold:
            return None
        until = " until it is" if self._late else "; choose another one"
        self.trouble = f"{untold}: {planner.policy_name} decides{until}"
        logging.error("%s", self.trouble)
        return Decision(now, "policy", planner.policy_name, chosen.name, planner.policy_name, refused=self.trouble)

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
                self.trouble = f"{error}; {planner.policy_name} decides: choose another one"
                logging.error("%s", self.trouble)
                del self._late[at]
                return Decision(now, "policy", planner.policy_name, policy, planner.policy_name, refused=self.trouble)
            was, self._late = planner.policy_name, self._late[:at]
            planner.take(policy, made, chosen.pending and policy == chosen.name)
            if not self._late:
                self.trouble = ""
            logging.info("policy %s is made, and decides", policy)
            return Decision(now, "policy", policy, was, policy, rule="it took its time to be made")
        return None

    def forget(self) -> None:
        """A person has chosen another one since."""
        self.trouble, self._late = "", []


def begun(policy: str) -> Future[Policy]:
    """Not in one of the loop's threads, of which there are few, and none of which a process ends without."""
    made = Future[Policy]()

    def make() -> None:
        try:
            made.set_result(registry.make(policy))
        except errors.TfquiverError as error:
            made.set_exception(error)
        except BaseException as error:  # noqa: BLE001  No person interrupts this thread.
            made.set_exception(registry.not_loaded(policy, error))

    Thread(target=make, name=f"makes policy {policy}", daemon=True).start()
    return made
