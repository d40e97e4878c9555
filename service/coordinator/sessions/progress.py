"""How far an epoch has got, as a person believes it: what readers have given on counts, confirmed or not. Pure.

Acks come late on purpose: a reader that holds back more than the data set is long confirms all of it at its end. So
what it says that it has delivered counts, too; only for people, who need not be told exactly: nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Callable

from tfquiver.service.coordinator.sessions.session import Reader, Session


def read_shards(session: Session, size_bytes: int, delivered_bytes: Callable[[str], int]) -> int:
    """At least what is acked, and at most what is acked or leased, whatever readers say.

    Args:
      size_bytes: of the data set, raw.
      delivered_bytes: by a reader, since its first draw; 0: nothing is known.
    """
    if not session.shards or not size_bytes:
        return session.acked_shards

    def held_back(reader: Reader) -> int:
        if reader.draining:  # it has emitted all that it was ever given
            return len(reader.leases)
        unconfirmed = delivered_bytes(reader.reader_id) * session.shards // size_bytes - reader.acked
        return min(max(unconfirmed, 0), len(reader.leases))

    return session.acked_shards + sum(map(held_back, session.readers.values()))
