"""What nodes are to keep, load and evict: the newest of it, for those who wait for something newer."""

from __future__ import annotations

import asyncio
import random

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.residency.placement import Placement
from tfquiver.service.coordinator.rotation.rotations import Rotations


class NodeOrders:
    """Lives on one event loop."""

    def __init__(self, placement: Placement, rotations: Rotations) -> None:
        self._placement, self._rotations = placement, rotations
        # So that orders of this process are never taken for those of the one before.
        self._first_version = random.SystemRandom().getrandbits(62) + 1
        self._settings = 0
        self._reply = pb2.OrdersReply()  # the last one
        self._ordered, self._announced = asyncio.Event(), 0

    @property
    def version(self) -> int:
        return self._first_version + self._rotations.orders + self._settings

    async def newer(self, version: int, wait_s: float) -> pb2.OrdersReply:
        """Those of now, as soon as they are not those of `version`."""
        try:
            async with asyncio.timeout(wait_s):
                while version == self.version:
                    await self._ordered.wait()
        except TimeoutError:
            return pb2.OrdersReply(version=version)
        if self._reply.version == self.version:
            return self._reply  # that each of many nodes is given
        reply = pb2.OrdersReply(version=self.version)
        for digest_id, setting in self._placement.in_force.items():
            decision = self._rotations.decision(digest_id)
            reply.orders.add(
                digest_id=digest_id,
                setting=setting,
                load=decision.load,
                urgent=len(decision.urgent),
                evict=decision.evict,
            )
        self._reply = reply
        return reply

    def settings_changed(self) -> None:
        self._settings += 1
        self.announce()

    def announce(self) -> None:
        """The rotations may have decided something."""
        if self.version != self._announced:
            self._announced = self.version
            self._ordered.set()
            self._ordered = asyncio.Event()
