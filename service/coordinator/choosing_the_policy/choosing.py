"""Another policy is chosen: it is made, and makes a first plan, beside the one that decides, which goes on until then.

Another package's need not come to an end with either, and nobody can end its thread: it has one of its own, not one of
the loop's, of which there are few; and where it is chosen again it goes on in that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial

from absl import logging

from tfquiver import errors
from tfquiver.service.common_to_servers import begun_apart
from tfquiver.service.coordinator.choosing_the_policy import asking
from tfquiver.service.coordinator.choosing_the_policy.ends import Ends
from tfquiver.service.coordinator.choosing_the_policy.making import Made, begun
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Outcome
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import Policy

_MORE_S = 0.5  # one that decides and does not answer, though it was asked only just now, is given up until then
FirstPlan = Callable[[], Outcome]


class _Coming:
    """A policy that is made, or makes its first plan."""

    def __init__(self, making: Future[Policy]) -> None:
        self.making = making
        self.planning: Future[Outcome] | None = None
        self.lacks = "has not been made yet"


class Choosing:
    """Lives on the coordinator's loop."""

    def __init__(
        self,
        first_plan: Callable[[str, Policy], Awaitable[FirstPlan | None]],
        takes_over: Callable[[str, Policy], Awaitable[None]],
        decides: Callable[[], str],
        refused: Callable[[str, str], None],
        ends: Ends,
    ) -> None:
        """`first_plan`: of a policy, for what there is now, to be made in a thread; None: nobody decides now.
        `decides`: who does. `refused`: is given a policy and why."""
        self._first_plan, self._takes_over, self._decides, self._refused = first_plan, takes_over, decides, refused
        self._ends = ends
        self._coming: dict[str, _Coming] = {}
        self._policy, self._since_s = "", 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def trouble(self) -> str:
        """Who was chosen some time ago, and does not decide yet; for people. Empty: nobody."""
        if self._task is None or self._task.done() or _time_s() < self._since_s + asking.MOST_ASKED_S:
            return ""
        return self._told()

    async def choose(self, policy: str) -> None:
        """Until it decides. Who is chosen later counts. Raises InvalidArgumentError: it is not there, cannot be made or
        fails with its first plan; DeadlineError: it is waited for no longer, and decides once it has made one."""
        self._ends.forgive(policy)
        task = self.begin(policy)
        await asyncio.wait([task], timeout=asking.MOST_ASKED_S + _MORE_S)
        if task.cancelled():
            raise errors.DeadlineError(f"policy {policy}: another one was chosen meanwhile")
        if not task.done():
            raise errors.DeadlineError(self._told())
        task.result()

    def begin(self, policy: str) -> asyncio.Task[None]:
        """As `choose`; whoever wants to waits for it."""
        self.stop()
        self._policy, self._since_s = policy, _time_s()
        self._task = task = asyncio.create_task(self._comes(policy))
        task.add_done_callback(lambda _: task.cancelled() or task.exception())  # else it is logged as seen by nobody
        return task

    @property
    def comes(self) -> str:
        """Who was chosen last, whatever has become of that."""
        return self._policy

    def stop(self) -> None:
        """Who was chosen and does not decide yet is not waited for any more."""
        if self._task:
            self._task.cancel()

    def _told(self) -> str:
        coming = self._coming.get(self._policy)
        lacks, waited_s = coming.lacks if coming else "is awaited", _time_s() - self._since_s
        return (
            f"policy {self._policy} {lacks}, {waited_s:.0f} s after it was chosen: {self._decides()} decides until "
            "then; if it never does, choose another one: tfquiver policy NAME"
        )

    async def _comes(self, policy: str) -> None:
        try:
            if why := self._ends.why_not(policy):
                raise errors.InvalidArgumentError(why)
            coming = self._coming.get(policy)
            if coming is None or (coming.making.done() and coming.making.exception()):
                coming = self._coming[policy] = _Coming(begun(policy, self._ends))
            made = await _ended(coming.making)
            if not registry.is_ours(policy):
                await self._tried(policy, made, coming)
            coming.lacks = "waits for the one that decides"
            await self._takes_over(policy, made)
            self._coming.pop(policy, None)
        except errors.TfquiverError as error:
            self._coming.pop(policy, None)
            logging.warning("policy %s was chosen, and does not decide: %s", policy, error)
            self._refused(policy, str(error))
            raise

    async def _tried(self, policy: str, made: Policy, coming: _Coming) -> None:
        """Raises InvalidArgumentError."""
        coming.lacks = "has made no plan yet"
        if coming.planning and coming.planning.done():
            coming.planning = None  # that was of another time
        if coming.planning is None and (first := await self._first_plan(policy, made)):
            asks = partial(self._ends.asks, policy, first)
            coming.planning = begun_apart.begun(f"first plan of policy {policy}", asks)
        if coming.planning and (outcome := await _ended(coming.planning)).why == "failed":
            raise errors.InvalidArgumentError(f"{outcome.refused}; {self._decides()} decides on")


async def _ended(making: Future[Made]) -> Made:
    """A thread goes on, whoever waits no longer."""
    return await asyncio.shield(asyncio.wrap_future(making))


def _time_s() -> float:
    return asyncio.get_running_loop().time()
