"""Sessions over one data set, without nodes or a log on disk: what tests of them begin with."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.unit.cached import Cached
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.sessions.decisions import SessionLimits
from tfquiver.service.coordinator.sessions.lease import LeaseResult, LeaseState
from tfquiver.service.coordinator.sessions.readers import ReaderRequest
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.service.coordinator.sessions.session_book import Record
from tfquiver.service.coordinator.sessions.sessions import Sessions

LIMITS = SessionLimits(grace_s=10.0, idle_s=100.0, ended_s=50.0, max_sessions=4, stall_s=5.0)
WAIT, END = LeaseResult(LeaseState.WAIT), LeaseResult(LeaseState.END)


class Bench:
    """Sessions over one data set, and short ways to call them."""

    def __init__(self, shards: int = 4, rotation: str = "") -> None:
        """`rotation`: as of Cached."""
        self.clock, self.rng = ManualClock(), random.Random(1)
        self.shards = shards
        self.cached = Cached([16] * shards, self.clock, rotation)
        self.digest_id = self.cached.digest_id
        self.log: list[Record] = []
        self.changed: list[str] = []
        self.sessions = self.new()

    def new(self) -> Sessions:
        sessions = Sessions(self.clock, self.rng, self.log.append, self.cached.view, self.changed.append, LIMITS)
        self.cached.begin(sessions)
        return sessions

    def restart(self, records: Sequence[Record]) -> None:
        self.sessions = self.new()
        for record in list(records):
            self.sessions.apply(record)
        self.sessions.restored()

    def ticket(self, provider: str = "p:1", repetition: int = 0, restored: bool = False) -> str | None:
        return self.sessions.admission.ticket("key", provider, repetition, restored, self.digest_id, self.shards, "job")

    def begin(self, provider: str = "p:1") -> str:
        session_id = self.ticket(provider)
        assert session_id
        return session_id

    def open(
        self, session_id: str, name: str, held: Sequence[int] = (), node: str = "n", label: str = "", live: bool = True
    ) -> list[int]:
        return self.sessions.readers.open(session_id, ReaderRequest(name, node, "1", label), held, live)[1]

    def lease(
        self, session_id: str, name: str, sequence: int, n: int = 1, draining: bool = False, last: bool = True
    ) -> LeaseResult:
        reader = self.sessions.readers.find(session_id, name)
        return self.sessions.readers.lease(session_id, reader, sequence, n, 1 << 40, draining, last)

    def session(self, session_id: str) -> Session:
        return self.sessions.session(session_id)


def alone(bench: Bench, n: int = 4) -> tuple[str, list[int]]:
    """A session with one reader that holds `n` shards."""
    session_id = bench.begin()
    bench.open(session_id, "a")
    return session_id, list(bench.lease(session_id, "a", 1, n).shards)


# Leases.
