"""Plans anew when jobs, data sets, pins, room or what was measured change, and now and then; carries out what is
different then.

On the coordinator's event loop; the policy runs in a thread.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import SAID_AT_ONCE, SAID_S, every_n_seconds
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord, PlanDecided
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.choosing_the_policy.asking import Asked, Asking, answers
from tfquiver.service.coordinator.choosing_the_policy.choosing import Choosing, FirstPlan
from tfquiver.service.coordinator.choosing_the_policy.chosen import ChosenPolicy
from tfquiver.service.coordinator.choosing_the_policy.ends import Ends
from tfquiver.service.coordinator.choosing_the_policy.making import AtStart
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_meter import StoreMeter
from tfquiver.service.coordinator.plan_rounds_and_moves.cluster_view import ClusterViews, allocation_of, setting_of
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import Explanation
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explaining import Explaining
from tfquiver.service.coordinator.plan_rounds_and_moves.differing import differing
from tfquiver.service.coordinator.plan_rounds_and_moves.plan_times import PlanTimes
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Outcome, Planner
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan, Policy
from tfquiver.service.coordinator.policies.views_and_plans.names import Names, Reads, renamed
from tfquiver.service.coordinator.probing.probes import Held, Probes
from tfquiver.service.coordinator.registering_sharing_removing_datasets.catalogue import Catalogue
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.service.coordinator.sessions.sessions import Sessions

_LOOK_S, _MEASURE_S = 0.5, 1.0  # nodes say how their jobs read every second at most
_MEASURED_PER_S = 500  # jobs: of a thousand all are heard of every four seconds, and looked at every two
_AT_A_TIME = 32  # sessions


class Replanning:
    """`run` it as a task of the coordinator's loop, once the log has been read."""

    def __init__(
        self,
        clock: Clock,
        sessions: Sessions,
        caching: Caching,
        catalogue: Catalogue,
        budgets: Budgets,
        probes: Probes,
        store: StoreMeter,
        views: ClusterViews,
        planner: Planner,
        flag: str,
        journal: Callable[[CommitRecord], None],
        interval_s: float,
        ends: Ends,
    ) -> None:
        """`flag`: what --policy says. `journal`: is given each decision; they need not be durable at once."""
        self.planner, self.chosen, self._journal, self._at_start = planner, ChosenPolicy(flag), journal, AtStart(ends)
        self._clock, self._sessions, self._caching, self._catalogue = clock, sessions, caching, catalogue
        self._budgets, self._probes, self._views, self._interval_s = budgets, probes, views, interval_s
        self._store, self.times = store, PlanTimes()
        self._ahead_s = -math.inf
        self._explaining = Explaining(clock, self._unix_s, sessions, caching, probes, views, planner)
        self._read_by: dict[Reads, list[Session]] = {}  # as of the last look at what is measured
        self._named = Names()  # as the planner knows all
        self._pinned_before: dict[bytes, types_pb2.CacheSetting] = {}  # a restart, as long as plans know nothing of it
        self._planned_for: object = None
        self._due = 0.0
        self._asking = Asking()
        self._failure = ""  # of the last plan
        self._ends = ends
        self._choosing = Choosing(
            self._first_plan, self._takes_over, lambda: self.planner.policy_name, self._refused, ends
        )

    @property
    def trouble(self) -> str:
        """Why nothing is decided, or not by whom it should be; for people. Empty: all is well."""
        if silent := self._asking.silent:
            return silent.silent()
        return self._choosing.trouble or self._at_start.trouble(self.planner.policy_name) or self._failure

    async def restored(self) -> None:
        """The log has been read: what the policy had decided is in force, and the one that was chosen goes on. Raises
        as AtStart.decides."""
        if self.chosen.outdated:
            logging.warning("--policy=%s holds: another one was chosen while it said otherwise", self.chosen.flag)
            self._journal(self.chosen.choose(self.chosen.flag))
        self._tell(await self._at_start.decides(self.planner, self.chosen, self._date()))
        settings = self._caching.placement.in_force
        names = self._views.names_of(settings).datasets
        self._named = Names(names)
        decided = {
            names[digest_id]: allocation_of(setting, setting.allocation_bytes)
            for digest_id, setting in settings.items()
            if setting.decided_by
        }
        if decided:
            self.planner.restore(Plan(decided), [], self.chosen.pending and self._decides)
        self._pinned_before = dict(self._caching.placement.pins)
        self.planner.go_on_with_history()

    def history(self, most: int) -> list[Decision]:
        """The last so many, by the names of now."""
        return self.planner.history.last(most, self._views.with_digits)

    def decided(self, record: PlanDecided) -> None:
        """From the log. What an older or newer version wrote, and this one does not know, is passed over."""
        try:
            self.planner.history.extend([Decision.from_record(json.loads(record.json))])
        except (ValueError, RecursionError, AttributeError, OverflowError, errors.DataLossError) as error:
            every_n_seconds(logging.WARNING, "a decision of the log is passed over: %s", 10, error)

    def still(self) -> Callable[[], Iterable[CommitRecord]]:
        """For a snapshot: the history as it is now, and who was chosen."""
        decisions, chosen = list(self.planner.history), self.chosen.still()
        return lambda: itertools.chain(map(_record, decisions), chosen())

    async def run(self) -> None:
        """What is measured is looked at in time, however long a policy takes."""
        await asyncio.gather(self._again(self.measure, self._measure_s), self._again(self.look, lambda: _LOOK_S))

    def _measure_s(self) -> float:
        return max(_MEASURE_S, len(self._read_by) / _MEASURED_PER_S)

    async def measure(self) -> None:
        """Who reads what, and who is to be probed, if the policy makes something of that."""
        parts = InParts()
        await self._explaining.note()
        if not self.planner.probing:
            self._probes.tick({}, ())
            return
        await parts.rest()
        # What an irregular job gains from the cache says nothing of an epoch.
        self._read_by = {key: [] for key in self._views.reading if key not in self._views.irregular}
        held, whole = {key: Held() for key in self._read_by}, dict[bytes, tuple[int, bool]]()
        for at, session in enumerate(self._sessions.read(), 1):
            key, digest_id = session.reads, session.digest_id
            if session.readers and key in held and digest_id in self._caching:
                self._read_by[key].append(session)
                if digest_id not in whole:
                    whole[digest_id] = self._views.read_whole(digest_id)
                held[key] = Held(partial(self._leased_bytes, key), *whole[digest_id])
            if at % _AT_A_TIME == 0:
                await parts.rest()
        wanting = {digest_id for _, digest_id in held} - self._caching.placement.pins.keys()
        for _ in self._probes.ticking(held, wanting, self._store.load(), self._budgets.pins.bytes_per_s):
            await parts.rest()

    async def look(self) -> None:
        """Plans if there is reason to."""
        if not self._caching.met:
            return  # of the nodes that there were before a restart some are still to be heard of
        if self._at_start.has_come():
            async with self._asking.alone():
                self._tell(self._at_start.take(self.planner, self.chosen, self._date()))
        if self._at_start.waits:
            return
        self._tell(self._at_start.overdue(self.planner, self._date()))
        if (coming := self.chosen.coming) and self._choosing.comes != coming and self._views.has_keepers:
            self._choosing.begin(coming)  # it was chosen before a restart
        now = self._clock.now()
        facts = self._views.facts(), self.planner.policy_name
        if facts == self._planned_for and now < self._due:
            return
        # Else each plan's decisions would wait in memory for a log that cannot be written, and none be carried out.
        await self._catalogue.writable()
        async with self._asking.alone():
            self._planned_for, self._due = facts, now + self._interval_s
            await self._replan(now + self._unix_s())

    async def switch(self, policy: str) -> None:
        """The caller makes it durable; who decides now goes on until that one has made a plan, in a thread of its own.
        A policy that does not answer is given up where another one is chosen. Raises as Choosing.choose."""
        if policy != self.planner.policy_name:
            registry.check(policy)
            self._journal(self.chosen.comes(policy))
            await self._choosing.choose(policy)
            return
        self._choosing.stop()
        async with self._asking.alone():
            self._chosen(policy, None)

    def stop(self) -> None:
        self._choosing.stop()
        self._ends.stop()

    async def explain(
        self,
        name: str,
        may_read: Callable[[bytes], bool] = lambda _: True,
        owns: Callable[[str], bool] = lambda _: True,
    ) -> Explanation:
        """As Explaining.explain; and raises DeadlineError."""
        await self._explaining.note()  # who has just begun is there, too
        await self._asking.begin()
        try:
            view, now = await self._seen(), self._date()
        except BaseException:
            self._asking.release()
            raise
        asked = self._asking.asks(self.planner.policy_name, apart=True)  # what it would do with more
        telling = asyncio.ensure_future(self._explaining.explain(name, view, now, may_read, owns))
        telling.add_done_callback(lambda _: self._explained(asked, telling))
        if not await answers(telling, asked) or not telling.done():
            raise errors.DeadlineError(asked.silent())
        return replace(telling.result(), trouble=self._at_start.trouble(self.planner.policy_name))

    # Inside.

    @property
    def _decides(self) -> bool:
        """Who was chosen; not one in the meantime."""
        return self.planner.policy_name == self.chosen.name

    def _tell(self, decision: Decision | None) -> None:
        """Of what the planner does not plan."""
        if decision:
            self.planner.history.extend([decision])
            self._journal(_record(decision))

    def _leased_bytes(self, key: Reads) -> int:
        """What a job has in hand now. Looked at only of who is probed, or about to be: of a thousand jobs it was half
        of what measuring takes."""
        leased_bytes = 0
        for session in self._read_by.get(key, ()):
            if session.digest_id in self._caching:
                lengths = self._caching.residency.table(session.digest_id).lengths
                leased = np.array(session.shards_of(list(session.leased), len(lengths)), np.int64)
                leased_bytes += int(np.asarray(lengths)[leased].sum())
        return leased_bytes

    def _unix_s(self) -> float:
        """What makes a date of the clock's time. The clock stands still while a machine sleeps, and people have set
        their clocks since; but no date may be before one that was told already."""
        self._ahead_s = max(self._ahead_s, time.time() - self._clock.now())
        return self._ahead_s

    def _date(self) -> float:
        return self._clock.now() + self._unix_s()

    async def _first_plan(self, policy: str, made: Policy) -> FirstPlan | None:
        """For what there is now, of a planner of its own. None: nothing is decided now."""
        if not self._caching.met:
            return None
        try:
            async with self._asking.alone():
                view, now = await self._seen(), self._date()
                planner, _ = self.planner.successor(policy, made, now)
        except errors.DeadlineError:  # who decides does not answer: whoever comes is better
            return None
        return partial(planner.replan, view, now) if self._views.room.keepers else None

    async def _takes_over(self, policy: str, made: Policy) -> None:
        """From now on it decides. Of one that does not answer the plan in force stays; what that says is said to a
        planner that decides nothing."""
        try:
            async with self._asking.alone():
                self._chosen(policy, self.planner.switch(policy, self._date(), made))
        except errors.DeadlineError:
            silent = self._asking.silent
            if silent is None:
                raise
            self._asking.give_up(silent)
            logging.warning("policy %s is given up: %s was chosen", silent.policy, policy)
            self.planner, decision = self.planner.successor(policy, made, self._date())
            self._explaining.planner = self.planner
            self._chosen(policy, decision)

    def _refused(self, policy: str, why: str) -> None:
        if policy == self.chosen.coming:
            self._journal(self.chosen.comes(""))
        decides = self.planner.policy_name
        self._tell(Decision(self._date(), "policy", decides, policy, decides, refused=why))

    def _chosen(self, policy: str, decision: Decision | None) -> None:
        self._at_start.forget()
        self._failure = ""
        if decision:
            self._journal(_record(decision))
        self._journal(self.chosen.choose(policy, self.planner.switched))

    def _explained(self, asked: Asked, telling: asyncio.Future[Explanation]) -> None:
        """The policy's thread has ended, whoever has gone meanwhile: until then no other one asks the policy, for it
        need not bear that, and each would take one of the coordinator's threads, perhaps for ever."""
        self._asking.answered(asked)
        if not telling.cancelled():
            telling.exception()  # else it is logged as one that nobody has seen, where nobody waits any more

    async def _seen(self) -> ClusterView:
        """Of now; no plan may be made meanwhile. A data set may have been registered anew under another name."""
        view = await self._views.view()
        names = self._views.names
        self.planner.rename(await asyncio.to_thread(renamed, self._named, names))
        self._named = names
        self._go_on_with_pins(view)
        return view

    def _go_on_with_pins(self, view: ClusterView) -> None:
        """What persons had set before a restart, and have not changed since, is in force already. How many bytes it is
        only a view says, that has the sizes."""
        pins, before = self._caching.placement.pins, self._pinned_before
        same = {self._named.datasets.get(key) for key, setting in before.items() if pins.get(key) == setting}
        self.planner.go_on_with_pins({one.name: one.pin for one in view.datasets if one.pin and one.name in same})
        self._pinned_before = {}

    async def _asked(self, view: ClusterView, now: float) -> Outcome | None:
        """What the planner makes of it, in a thread, however long that takes. None: it was given up."""
        asked = self._asking.asks(self.planner.policy_name)
        replan = partial(self.planner.replan, view, now)
        answer = asyncio.ensure_future(asyncio.to_thread(self._ends.asks, asked.policy, replan))
        answer.add_done_callback(lambda _: self._planned(asked, answer))
        while not await answers(answer, asked):
            every_n_seconds(logging.WARNING, "%s", 60, asked.silent())
        return None if asked.given_up.done() else await answer

    def _planned(self, asked: Asked, answer: asyncio.Future[Outcome]) -> None:
        self._asking.answered(asked)
        if not answer.cancelled():
            answer.exception()  # as _explained

    async def _again(self, step: Callable[[], Awaitable[None]], pause_s: Callable[[], float]) -> None:
        while True:
            await asyncio.sleep(pause_s())
            try:
                await step()
            except errors.TfquiverError as error:
                every_n_seconds(logging.ERROR, "planning: %s", 10, error)
            except Exception:  # noqa: BLE001 - the task's boundary: the plan in force stays
                every_n_seconds(logging.ERROR, "planning failed; the plan in force stays", 10, exc_info=True)

    async def _replan(self, now: float) -> None:
        began_s = time.perf_counter()
        view = await self._seen()
        if not self._views.room.keepers:
            return  # nodes are still to come
        seen_s = time.perf_counter()
        outcome = await self._asked(view, now)
        if outcome is None:
            return
        self._failure = f"{outcome.refused}: the last good plan stays" if outcome.why == "failed" else ""
        planned_s = time.perf_counter()
        self.times.planned(seen_s - began_s, planned_s - seen_s)
        parts = InParts()
        for decision in outcome.decisions:  # where bandwidth is shared out there is one of each of a thousand jobs
            await parts.rest()
            failed = decision.kind == "plan" and outcome.why == "failed"  # somebody has to look
            said = decision.kind, decision.name, decision.refused or decision.measurement
            if decision.kind == "job":  # of ten thousand a plan is told in `explain`
                every_n_seconds(
                    logging.INFO, "%s %s: %s", SAID_S, *said, extra=_about(decision), at_once=SAID_AT_ONCE
                )  # fmt: skip
            else:
                logging.log(logging.WARNING if failed else logging.INFO, "%s %s: %s", *said, extra=_about(decision))
            self._journal(_record(decision))
        plan = outcome.plan
        names, rates = self._views.names, dict[str, float]()
        # Of one that reads several data sets a limit is for all of them: where one is not limited it would be, too.
        free = {job for (job, _), name in names.jobs.items() if name not in plan.remote_bytes_per_s}
        for (job, _), name in names.jobs.items():
            if job not in free and job not in self._budgets.pins.bytes_per_s:
                rates[job] = rates.get(job, 0.0) + plan.remote_bytes_per_s[name]
        self._budgets.plan(rates)
        wanted = {
            digest_id: setting_of(plan.allocations.get(names.datasets[digest_id], Allocation()))
            for _, digest_id in names.jobs
        }
        await self._catalogue.carry_out(differing(wanted, self._caching.placement.settings), self.planner.policy_name)
        self.times.changed(time.perf_counter() - planned_s)
        if self.chosen.pending and self._decides and not self.planner.switched:
            self._journal(self.chosen.choose(self.chosen.name))


def _about(decision: Decision) -> dict[str, Any]:
    return about(
        job=decision.name if decision.kind == "job" else "", dataset=decision.name if decision.kind == "dataset" else ""
    )


def _record(decision: Decision) -> CommitRecord:
    return CommitRecord(plan_decided=PlanDecided(json=json.dumps(decision.to_record())))
