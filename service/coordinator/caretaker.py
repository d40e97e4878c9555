"""What time brings: nodes that stay away are given up, sessions and data sets that nobody reads let go of; and whoever
has taken the working directory over meanwhile is noticed.

Who seems silent is given up once what was sent until then is read: where the coordinator gets too little of a processor
that is much later. On the coordinator's event loop. What becomes of a node that is gone is the coordinator's.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Set

from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.commit_log.work_dir import WorkDir
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.sessions.sessions import Sessions

_LATE_S, _LATE_WARNING_S = 0.1, 1.0
_HELD_S = 0.2
_UNREAD_S, _UNREAD_WARNING_S = 0.2, 5.0
_PART_S, _MOST_AT_ONCE = 0.003, 256
_UNREAD = "what was sent %.0f s ago is not read yet: nobody is given up meanwhile; does this process get its processor?"


class Caretaker:
    """`run` it as a task of the loop, once the log has been read."""

    def __init__(
        self,
        clock: Clock,
        node_timeout_s: float,
        held: WorkDir,
        membership: Membership,
        sessions: Sessions,
        caching: Caching,
        budgets: Budgets,
        opening: Callable[[], Set[bytes]],
        gone: Callable[[str], None],
        looked: Callable[[], Awaitable[None]],
    ) -> None:
        """
        Args:
          opening: data sets that somebody is about to read.
          gone: told of each node that was not heard of for `node_timeout_s`.
          looked: called when all has been looked after.
        """
        self.replaced = ""  # by whom: nobody is to be served any more
        self.on_replaced: Callable[[], None] = lambda: None
        self._clock, self._node_timeout_s, self._held = clock, node_timeout_s, held
        self._membership, self._sessions, self._caching, self._budgets = membership, sessions, caching, budgets
        self._opening, self._gone, self._looked = opening, gone, looked
        self.all_read: Callable[[], Awaitable[None]] = _at_once  # returns when what was sent before is read
        self._looking: asyncio.Future[None] | None = None
        self._reading: asyncio.Future[None] | None = None
        self._asked_s, self._judged_at = 0.0, 0.0  # when that began; of the loop, and of the clock
        self._heard_until = -math.inf  # of the clock: all that was sent before is read
        self._excused_until = asyncio.get_running_loop().time()

    async def run(self) -> None:
        pause_s = min(1.0, self._node_timeout_s / 5)
        self._excused_until = asyncio.get_running_loop().time()  # reading the log has taken nobody's time to come back
        try:
            while True:
                await asyncio.sleep(pause_s)
                try:
                    await self.care(pause_s)
                except errors.TfquiverError as error:
                    every_n_seconds(logging.ERROR, "%s", 10, error)
                except Exception:  # noqa: BLE001 - whatever it was: without this task nothing would ever expire again
                    logging.exception("looking after nodes and sessions failed; the next attempt is in %g s", pause_s)
        finally:
            if self._reading is not None:
                self._reading.cancel()

    async def care(self, paused_s: float) -> None:
        """Of all that passes between two times only the pause counts as silence of nodes and readers: whatever else has
        taken long, the loop was held up, or the process stopped, in any of its parts."""
        await self._look_who_holds()
        self._excuse(paused_s)
        await self._ask_whether_all_is_read()
        self._excuse()
        await self._give_up_lost()
        self._excuse()
        await self._look_after_all()
        self._excuse()
        await self._looked()

    # Inside.

    async def _look_who_holds(self) -> None:
        """One look at a time: on a network file system that hangs it lasts as long as that does."""
        if self._looking is None:
            self._looking = asyncio.ensure_future(asyncio.to_thread(self._held.check))
        await asyncio.wait([self._looking], timeout=_HELD_S)
        if not self._looking.done():
            return
        looked, self._looking = self._looking, None
        match looked.exception():
            case errors.AlreadyRunningError() as error:
                self.replaced = str(error)
                self.on_replaced()
            case None:
                pass
            case error:  # the log, which is there too, says it as well
                every_n_seconds(logging.WARNING, "%s", 60, error)

    async def _ask_whether_all_is_read(self) -> None:
        """Only where somebody is to be given up: it takes some calls."""
        loop = asyncio.get_running_loop()
        if self._reading is None:
            self._heard_until = -math.inf
            now = self._clock.now()
            if not (self._membership.is_any_due(now) or self._sessions.is_any_due(now)):
                return
            self._judged_at, self._asked_s = now, loop.time()
            self._reading = asyncio.ensure_future(self.all_read())
        await asyncio.wait([self._reading], timeout=_UNREAD_S)
        if self._reading.done():
            reading, self._reading = self._reading, None
            self._heard_until = self._judged_at  # also where that failed: else nobody would ever be given up
            if error := reading.exception():
                every_n_seconds(logging.ERROR, "whether all is read is not known: %r", 60, error)
        elif (late_s := loop.time() - self._asked_s) > _UNREAD_WARNING_S:
            every_n_seconds(logging.WARNING, _UNREAD, 10, late_s)

    def _excuse(self, expected_s: float = 0.0) -> None:
        """For longer than was expected since the last time: what was sent in that time may be unread yet."""
        now = asyncio.get_running_loop().time()
        late_s, self._excused_until = now - self._excused_until - expected_s, now
        if late_s > _LATE_S:
            if late_s > _LATE_WARNING_S:
                logging.warning("held up for %.1f s: nobody is given up for what was not heard in that time", late_s)
            self._membership.deaf(late_s)
            self._sessions.deaf(late_s)
            self._judged_at += late_s
            self._heard_until += late_s

    async def _give_up_lost(self) -> None:
        """In parts of some milliseconds, with as many nodes as that is: a thousand with much on their disks take a
        minute, in which nobody else would be served. Of those who are silent now: as long as it takes, the others are
        heard of late."""
        membership, loop, most = self._membership, asyncio.get_running_loop(), 1
        too_old = membership.too_old(self._heard_until)
        silent = membership.silent(too_old)
        at = 0
        while at < len(silent):
            began_s, some = loop.time(), silent[at : at + most]
            at += most
            for node_id in membership.give_up(some, too_old):
                self._lost(node_id)
            most = min(2 * most, _MOST_AT_ONCE) if loop.time() - began_s < _PART_S else max(1, most // 2)
            await asyncio.sleep(0)
        while membership.lost.expire(too_old):
            await asyncio.sleep(0)

    def _lost(self, node_id: str) -> None:
        """Whatever goes wrong: the others that are no members any more would else be counted on for ever."""
        timeout_s = self._node_timeout_s
        logging.warning("node %s is lost: not heard of for %g s", node_id, timeout_s, extra=about(node=node_id))
        try:
            self._gone(node_id)
        except Exception:  # noqa: BLE001
            logging.exception("node %s is lost, and what it held or read may be taken for its still", node_id)

    async def _look_after_all(self) -> None:
        """Part by part: of a thousand jobs all of it takes 10 to 20 ms, and others want to be served."""
        for _ in self._sessions.expiring(self._heard_until):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        if self._budgets.in_use:
            jobs_of = self._sessions.jobs_of()  # of ten thousand sessions 20 ms, and so is what comes of it
            await asyncio.sleep(0)
            for _ in self._budgets.ticking(jobs_of, self._caching.loaded_ahead):
                await asyncio.sleep(0)
        in_use = {session.digest_id for session in self._sessions.read()}
        for _ in self._caching.ticking(in_use | self._opening()):
            await asyncio.sleep(0)


async def _at_once() -> None:
    """Nothing comes but by calls of this process."""
