"""Which session a split provider belongs to.

A provider that was made while its dispatcher restarted is not told whose place it takes: it adopts an open session
of its key. Provider ids are `<process>:<n>`, so that two providers of one dispatcher process never adopt the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tfquiver.service.coordinator.sessions.session import Session

TicketName = tuple[str, str, int]  # session key, provider id, repetition


@dataclass(slots=True)
class _Providers:
    names: list[TicketName] = field(default_factory=list)
    adopters: list[str] = field(default_factory=list)
    end_told: bool = False


class Tickets:
    def __init__(self) -> None:
        self._session_ids: dict[TicketName, str] = {}
        self._providers: dict[str, _Providers] = {}

    def find(self, name: TicketName) -> str | None:
        return self._session_ids.get(name)

    def given(self, name: TicketName, session_id: str, adopted: bool, end: bool) -> None:
        providers = self._providers.setdefault(session_id, _Providers())
        if name not in self._session_ids:
            self._session_ids[name] = session_id
            providers.names.append(name)
            if adopted:
                providers.adopters.append(name[1])
        providers.end_told |= end

    def end_told(self, session_id: str) -> bool:
        return session_id in self._providers and self._providers[session_id].end_told

    def of(self, session_id: str) -> list[tuple[TicketName, bool]]:
        """For a snapshot: the tickets to a session, and whether their provider had adopted it."""
        if (providers := self._providers.get(session_id)) is None:
            return []
        return [(name, name[1] in providers.adopters) for name in providers.names]

    def forget(self, session_id: str) -> None:
        providers = self._providers.pop(session_id, _Providers())
        for name in providers.names:
            del self._session_ids[name]

    def adoptable(self, provider_id: str, sessions: Iterable[Session], ended: bool = True) -> Session | None:
        """Of the iterations of one key, which a restored provider adopts; None: it needs a new one.

        The oldest that is incomplete and that no provider of the same process has adopted, those with readers first
        (one without was probably abandoned). If none is incomplete: the newest that ended without any provider having
        been told, for then the dispatcher went down before it could write down the end. (Without `ended`: none.)
        """
        process = provider_id.rpartition(":")[0]
        free = [
            (session, adopters)
            for session in sessions
            for adopters in [self._providers.get(session.session_id, _Providers()).adopters]
            if not process or all(adopter.rpartition(":")[0] != process for adopter in adopters)
        ]
        incomplete = [(session, adopters) for session, adopters in free if not session.complete]
        if incomplete:
            # Ids that name no process tell nothing of who adopted when: then the least adopted comes first.
            return min(
                incomplete, key=lambda item: (0 if process else len(item[1]), not item[0].readers, item[0].number)
            )[0]
        untold = [session for session, _ in free if ended and not self.end_told(session.session_id)]
        return max(untold, key=lambda session: session.number, default=None)
