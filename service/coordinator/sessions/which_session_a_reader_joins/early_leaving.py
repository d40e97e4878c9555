"""Who may leave a session before its end, so that sessions which wait for one another go on. Pure.

Where a tf.data worker reads several data sets in one pipeline (zip, sample_from_datasets), its pipeline may wait in one
session for shards that are in the pool of another worker, which in turn waits for shards of another data set that are
in the pool of the first: for ever. Who is told END first lets its pipeline go on, or end and give back.
"""

from __future__ import annotations

import math

from tfquiver.service.coordinator.sessions.decisions import Decisions
from tfquiver.service.coordinator.sessions.session import Reader, Session


class EarlyLeaving:
    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._held_by: dict[str, list[Session]] = {}  # by label of readers; as of then:
        self._looked_at = -math.inf

    def may(self, session: Session, reader: Reader) -> bool:
        """Whether a reader that has emitted all it was given should go before the session has ended."""
        if not reader.label or not session.all_given or not self._stalled(session):
            return False
        held_up = [
            other
            for other in self._held(reader.label)
            if other is not session and (other.reopened or not other.ended) and self._stalled(other)
            if any(beside.label == reader.label and beside.leases for beside in other.readers.values())
        ]
        for stalled in (session, *held_up) if held_up else ():
            stalled.last_progress = self._decisions.now()  # one at a time: the others may now go on
        session.counters.left_early += bool(held_up)
        return bool(held_up)

    def _held(self, label: str) -> list[Session]:
        """The sessions that stall while readers of this label hold some of their shards; perhaps some others.

        All sessions are looked at now and then only: a session that stalls has not leased anything since. Near the end
        of an epoch a thousand readers may ask, again and again.
        """
        now, book = self._decisions.now(), self._decisions.book
        if self._looked_at + self._decisions.limits.stall_s <= now:
            self._held_by, self._looked_at = {}, now
            for session in book:
                for its in dict.fromkeys(reader.label for reader in session.readers.values() if reader.leases):
                    self._held_by.setdefault(its, []).append(session)
        return [session for session in self._held_by.get(label, ()) if book.get(session.session_id) is session]

    def _stalled(self, session: Session) -> bool:
        return session.last_progress + self._decisions.limits.stall_s <= self._decisions.now()
