"""All sessions: decides, journals, then performs. Pure: clock, randomness, the log and the data sets are arguments.

Every method may be repeated. What must survive the process goes to `journal` as a CommitRecord before it takes
effect; `apply` performs one record, and is all that reading the log again does. Leases are not journaled: after a
restart each reader known from the log says what it holds, and until it has, or its grace is over, its session hands
out nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence, Set

import numpy as np
import numpy.typing as npt

from tfquiver.clock import Clock
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.sessions.decisions import Decisions, SessionLimits
from tfquiver.service.coordinator.sessions.readers import Readers
from tfquiver.service.coordinator.sessions.session import DatasetView, Session
from tfquiver.service.coordinator.sessions.session_book import Record
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.admission import Admission

_EXPIRED_AT_ONCE = 1000
# So much of its time a coordinator that is killed has not noted at most: sessions are remembered for so much longer.
_TIME_NOTED_MS = 30_000


class Sessions:
    """`admission`: which session somebody has part in; `readers`: what they do there. Here: what befalls all of them.

    Args:
      view: called when a session leases, with a digest id.
      changed: told the id of a session whose readers, told WAIT, may ask again.
      budgets: what jobs may read from the store; None: whatever they ask for.
      probed: what `Session.reads` gives of those that read past the cache, as long as they are in it.
      called: gives a data set's name, for people.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        journal: Callable[[Record], None],
        view: Callable[[bytes], DatasetView],
        changed: Callable[[str], None] = lambda _: None,
        limits: SessionLimits | None = None,
        budgets: Budgets | None = None,
        probed: Set[tuple[str, bytes]] = frozenset(),
        called: Callable[[bytes], str] = bytes.hex,
    ) -> None:
        self._decisions = Decisions(clock, journal, changed, limits or SessionLimits(), called)
        self._book = self._decisions.book
        self.resumptions = self._book.resumptions
        self.admission = Admission(self._decisions, rng)
        self.open_readers = 0  # when `expire` last looked
        self.has_dates: Callable[[], bool] = lambda: False  # whether other records go by `up_ms`, too
        self.readers = Readers(self._decisions, view, budgets if budgets is not None else Budgets(clock), probed)

    # What happens to nodes and data sets.

    def node_seen(self, node_id: str, incarnation: str) -> None:
        """A node process is heard of for the first time: readers of an earlier one may return within their grace."""
        give_up_at = self._decisions.now() + self._decisions.limits.grace_s
        for _, reader in self._book.readers_of(node_id):
            if reader.leases_unknown:
                continue
            if reader.incarnation == incarnation:
                reader.deadline = None
            elif reader.deadline is None:
                reader.deadline = give_up_at
                reader.draining = False

    def node_lost(self, node_id: str) -> None:
        for session, reader in list(self._book.readers_of(node_id)):
            self._decisions.reader_gone(session, reader, f"node {node_id} is lost")

    def residency_changed(self, digest_id: bytes, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """The residency table of a data set has changed for these shards; they are not changed afterwards."""
        for session in self._book.of_digest(digest_id):
            if session.sampler:
                session.sampler.residency_changed(shards)

    def jobs_of(self) -> dict[bytes, frozenset[str]]:
        """Who reads each data set now."""
        jobs: dict[bytes, set[str]] = {}
        for session in self._book.read():
            if session.gives_out:
                jobs.setdefault(session.digest_id, set()).add(session.pays)
        return {digest_id: frozenset(its) for digest_id, its in jobs.items()}

    def samplers_anew(self, digest_id: bytes) -> None:
        """The data set is cached in another way from now on."""
        for session in self._book.of_digest(digest_id):
            if session.readers:
                session.drop_sampler()
                self._decisions.changed(session.session_id)

    def forget_data_set(self, digest_id: bytes) -> list[str]:
        """Whoever reads it will not find the session any more. Returns the ids of its sessions."""
        gone = self._book.of_digest(digest_id)
        for session in gone:
            self._decisions.forget(session)
        return [session.session_id for session in gone]

    def deaf(self, seconds: float) -> None:
        """For so long nobody could be heard: it counts against no reader's time to come back."""
        for session in self._book.read():
            for reader in session.readers.values():
                if reader.deadline is not None:
                    reader.deadline += seconds

    def expire(self) -> None:
        """Gives up on readers whose deadline is over, and forgets sessions that nobody reads. Call it now and then."""
        for _ in self.expiring():
            pass

    def is_any_due(self, now: float) -> bool:
        """Some reader has not come back in its time."""
        return any(
            reader.deadline is not None and reader.deadline <= now
            for session in self._book.read()
            for reader in session.readers.values()
        )

    def expiring(self, heard_until: float | None = None) -> Iterator[None]:
        """As `expire`, part by part: of twenty thousand that were read in the last hour all of it takes 10 ms.
        `heard_until`: who came back after that may not be read yet; None: all that was sent is."""
        now, open_readers = self._decisions.now(), 0
        heard_until = now if heard_until is None else heard_until
        for at, session in enumerate(list(self._book), 1):
            if at % _EXPIRED_AT_ONCE == 0:
                yield
            if self._book.get(session.session_id) is not session:
                continue  # forgotten meanwhile
            open_readers += len(session.readers)
            for reader in list(session.readers.values()):
                if reader.deadline is not None and reader.deadline <= heard_until:
                    why = f"a reader at node {reader.node_id} is not back in time"
                    self._decisions.reader_gone(session, reader, why)
            keep_s = self._decisions.limits.ended_s if session.ended else self._decisions.limits.idle_s
            if not session.readers and session.last_used + keep_s <= now:
                self._decisions.forget(session)
        self.open_readers = open_readers
        self._decisions.given_back.tell()
        if len(self._book) or self.has_dates():
            self._decisions.note_time(_TIME_NOTED_MS)

    # What is known.

    def __iter__(self) -> Iterator[Session]:
        """Oldest first."""
        return iter(self._book)

    def session(self, session_id: str) -> Session:
        """Raises NotFoundError."""
        return self._book.session(session_id)

    def read(self) -> list[Session]:
        """Those that have readers."""
        return self._book.read()

    def of_data_sets(self, digest_ids: Iterable[bytes]) -> list[Session]:
        """Of each, oldest first."""
        return [session for digest_id in digest_ids for session in self._book.of_digest(digest_id)]

    def of_key(self, session_key: str) -> list[Session]:
        """Oldest first."""
        return self._book.of_key(session_key)

    def is_newest(self, session: Session) -> bool:
        """Whether a reader that comes late with the session's key may belong to it, and to no other."""
        return self._book.newest(session.session_key, session.digest_id) is session

    def now(self) -> float:
        """On the clock of `Session.last_used`."""
        return self._decisions.now()

    def idle_s(self, session: Session) -> float:
        """Since somebody asked for it, or left it."""
        return self.now() - session.last_used

    # The log.

    def apply(self, record: Record) -> None:
        """Performs one decision."""
        self._book.apply(record)

    def restored(self) -> None:
        """The log has been read: from now on readers have their grace to come back and say what they hold."""
        self._decisions.restored()
        now = self._decisions.now()
        for session in self._book:
            session.restored_at = now
            session.last_used = self._decisions.time_of(session.used_up_ms) if session.used_up_ms else now
            for reader in session.readers.values():
                reader.leases_unknown = True
                reader.deadline = now + self._decisions.limits.grace_s

    def stopping(self) -> None:
        """Nothing befalls them any more."""
        if len(self._book) or self.has_dates():
            self._decisions.note_time()

    def up_ms(self) -> int:
        """For how long coordinators of this log have been up; > 0."""
        return self._decisions.up_ms()

    def still(self) -> Iterator[Callable[[], Iterable[Record]]]:
        """See SessionBook."""
        return self._book.still(self._decisions.up_ms, self.has_dates())

    def snapshot(self) -> Iterator[Record]:
        """Records that bring an empty object here."""
        for records in self.still():
            yield from records()
