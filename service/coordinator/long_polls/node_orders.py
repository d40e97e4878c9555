"""What nodes are to keep, load and evict: the newest of it, for those who wait for something newer."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.placed import message
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.orders_of_names import OrdersOfNames

# A thousand nodes that are told at once keep the loop busy for up to 0.2 s, and ask again together: so, for 0.6 s at
# most, some at a time.
TOLD_AT_ONCE, TOLD_EVERY_S = 16, 0.01
_MOST_REPLIES = 16  # that are kept; a megabyte each


class NodeOrders:
    """Lives on one event loop. Of many who wait a few are told at a time."""

    def __init__(
        self,
        caching: Caching,
        budgets: Budgets,
        named: OrdersOfNames | None = None,
        removals: Callable[[], int] = lambda: 0,
    ) -> None:
        """`removals`: as in OrdersReply."""
        self._removals = removals
        self._caching, self._rotations, self._budgets, self._named = caching, caching.rotations, budgets, named
        # So that orders of this process are never taken for those of the one before.
        self._first_version = random.SystemRandom().getrandbits(62) + 1
        self._released = 0
        self._reply = pb2.OrdersReply()  # the last one; without what is told of names
        self._replies = dict[int, pb2.OrdersReply]()  # with it, by the version of it that who asks has
        self._replies_of = -1, -1
        self._making = asyncio.Lock()
        self._begun = self._reply_of = 0  # replies that were begun; which one of them the last one is
        self._announced = 0
        # Who waits, and of these, who is to be told of something newer; who came first is told first.
        self._waiting, self._due = dict[asyncio.Future[None], None](), dict[asyncio.Future[None], None]()
        self._telling: asyncio.TimerHandle | None = None

    @property
    def version(self) -> int:
        decided = self._rotations.orders + self._caching.settings_set + self._budgets.orders
        named = self._named.number if self._named else 0
        return self._first_version + decided + named + self._released + self._caching.placed.look()

    async def newer(self, version: int, wait_s: float, named_version: int = 0) -> pb2.OrdersReply:
        """Those of now, as soon as they are not those of `version`. Not to be changed: many are given the same.

        `named_version`: which state of what is told of names' digests is known to who asks; 0: none.
        """
        try:
            async with asyncio.timeout(wait_s):
                while version == self.version and not self._released:
                    await self._announcement()
        except TimeoutError:
            return pb2.OrdersReply(version=version)
        begun = self._begun
        async with self._making:
            # One that was begun since may lack what has come since then: whoever is given it asks again for that.
            if self._reply.version != self.version and self._reply_of <= begun:
                self._begun = number = self._begun + 1
                self._reply = await self._made()
                self._reply_of = number
        return self._for(named_version) if self._named else self._reply

    def _for(self, named_version: int) -> pb2.OrdersReply:
        """One for all of many nodes that have the same version of what names' digests are told."""
        assert self._named
        if self._replies_of != (now := (self._reply_of, self._named.number)):
            self._replies, self._replies_of = {}, now
        since = self._named.known(named_version)
        if since not in self._replies:
            if len(self._replies) >= _MOST_REPLIES:
                self._replies.pop(next(iter(self._replies)))
            reply = self._replies[since] = pb2.OrdersReply()
            reply.CopyFrom(self._reply)
            self._named.tell(reply, since)
        return self._replies[since]

    async def _made(self) -> pb2.OrdersReply:
        """In parts. What comes meanwhile may be in it or not: it makes another version."""
        parts, reply = InParts(), pb2.OrdersReply(version=self.version, removals=self._removals())
        # After a restart nodes come back one by one: what the first were told would move what is only not heard of.
        places_version, all_places = self._caching.placed.newest
        for digest_id, setting in self._caching.placement.in_force.items():
            await parts.rest()
            decision = self._rotations.decision(digest_id)
            reply.orders.add(
                digest_id=digest_id,
                setting=setting,
                load=decision.load,
                urgent=len(decision.urgent),
                evict=decision.evict,
                load_bytes_per_s=self._budgets.told(digest_id),
            )
        reply.places_version = places_version
        first: dict[int, int] = {}  # of those that many data sets share
        for digest_id, (places, moves) in all_places.items():
            await parts.rest()
            if self._caching.placement.known(digest_id):
                told = reply.places.add(digest_id=digest_id, moves=moves)
                told.same_as = first.setdefault(id(places), len(reply.places))
                if told.same_as == len(reply.places):
                    told.same_as = 0
                    told.places.CopyFrom(message(places))
        return reply

    def release_waiters(self) -> None:
        """Whoever waits is told something, at once, and from now on nobody waits: who asks again in the moment before
        the coordinator has gone would hold it up."""
        self._released += 1
        self.announce()
        while self._due:
            self._tell_some()

    def announce(self) -> None:
        """The rotations may have decided something, or somebody has set something."""
        if self.version == self._announced:
            return
        self._announced = self.version
        self._due |= self._waiting
        self._waiting.clear()
        if self._telling is None:
            self._tell_next()

    async def _announcement(self) -> None:
        told = asyncio.get_running_loop().create_future()
        self._waiting[told] = None
        try:
            await told
        finally:
            self._waiting.pop(told, None)
            self._due.pop(told, None)

    def _tell_next(self) -> None:
        self._tell_some()
        loop = asyncio.get_running_loop()
        self._telling = loop.call_later(TOLD_EVERY_S, self._tell_next) if self._due else None

    def _tell_some(self) -> None:
        for told in list(itertools.islice(self._due, TOLD_AT_ONCE)):
            del self._due[told]
            if not told.done():
                told.set_result(None)
