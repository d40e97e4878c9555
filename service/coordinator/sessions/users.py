"""Who uses a data set: readers, and jobs that have none just now but may begin another epoch. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.sizes_durations_amounts.amounts import many

_NAMED = 3  # jobs, of many


@dataclass(frozen=True, slots=True)
class Users:
    """`between`: jobs that nobody reads for now, and when each read last (on the coordinator's clock): it evaluates,
    builds a model, or has ended; which of these is not known here. Sessions of no job, as tools open them, have no next
    epoch."""

    readers: int
    between: tuple[tuple[str, float], ...]
    restored: frozenset[str] = frozenset()  # of those: read before the coordinator was started, and not since

    @staticmethod
    def of(sessions: Iterable[Session]) -> Users:
        """Those of the sessions of one data set, or of its versions."""
        its = list(sessions)
        reading = {session.job for session in its if session.readers}
        last: dict[str, float] = {}
        since = set[str]()
        for session in its:
            if not session.job or session.job in reading:
                continue
            began = session.restored_at
            used = session.last_used if began is None else max(session.last_used, began)
            last[session.job] = max(used, last.get(session.job, used))
            if began is None or session.last_used > began:
                since.add(session.job)
        readers = sum(len(session.readers) for session in its)
        return Users(readers, tuple(sorted(last.items())), frozenset(last.keys() - since))

    def said(self, called: str, now: float) -> str:
        """Who they are, as a sentence about the data set that is called so; "": there are none."""
        if self.readers:
            return f"{many(self.readers, 'reader reads', 'readers read')} {called}"
        if not self.between:
            return ""
        jobs = [f"{job} (read it {self._when(job, now - last)})" for job, last in self.between[:_NAMED]]
        more = f" and {len(self.between) - len(jobs)} more" if len(self.between) > len(jobs) else ""
        which = "jobs" if len(self.between) > 1 else "job"
        return f"{which} {', '.join(jobs)}{more} may be between two epochs of {called}"

    def _when(self, job: str, ago_s: float) -> str:
        if job in self.restored:
            return f"before the coordinator was started {ago_s:.0f} s ago"
        return f"{ago_s:.0f} s ago"
