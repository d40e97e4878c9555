"""Which data sets somebody reads, at the last look, or has read since the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.sessions.sessions import Sessions


class ReadLately:
    """Lives on one event loop."""

    def __init__(self, sessions: Sessions, membership: Membership) -> None:
        self._sessions, self._mounts = sessions, membership.mounts
        self.readers = Counter[bytes]()  # by digest id; 0: only sessions that may go on
        self.users = Counter[bytes]()  # and what mounts show
        self._since = set[bytes]()  # what somebody has read since the look before, and has perhaps left again
        self._looked_at = sessions.now()

    async def look(self, parts: InParts) -> None:
        readers, since = Counter[bytes](), set[bytes]()
        looked_at, self._looked_at = self._looked_at, self._sessions.now()
        for session in list(self._sessions):
            await parts.rest()
            readers[session.digest_id] += len(session.readers)
            if session.last_used >= looked_at and session.last_used != session.restored_at:
                since.add(session.digest_id)
        self.readers, self.users, self._since = readers, readers + Counter(self._mounts.shown()), since

    def any_of(self, digest_ids: Iterable[bytes]) -> bool:
        return any(self.readers[one] or one in self._since or self._mounts.is_read(one) for one in digest_ids)
