"""Why shards are handed out once more: said in the log, for who counts an epoch's records finds more than there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from absl import logging

from tfquiver.clock import Clock
from tfquiver.log_files_and_lines.logs import about
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.sizes_durations_amounts.amounts import many

_PAUSE_S = 10.0  # between two lines of one job and data set
_MOST_AT_ONCE = 10  # jobs and data sets: a rack that is lost is that of thousands
_MOST_KEPT = 10_000


@dataclass(slots=True)
class _Untold:
    job: str
    digest_id: bytes
    why: str = ""  # the last one
    shards: int = 0
    unknown: int = 0  # readers of which it is not known how many they held
    tell_at: float = 0.0


class GivenBack:
    """`note` what befalls readers; `tell` writes it: a line for each job and data set, no more than some at a time."""

    def __init__(self, clock: Clock, called: Callable[[bytes], str]) -> None:
        """`called`: gives a data set's name."""
        self._clock, self._called = clock, called
        self._untold: dict[tuple[str, bytes], _Untold] = {}

    def note(self, session: Session, shards: int, why: str, unknown: int = 0) -> None:
        """So many that readers of it held, and of so many readers that held nobody knows what, go back."""
        if session.taken_over or not (shards or unknown) or (session.ended and not session.reopened):
            return
        if session.reads not in self._untold:
            if len(self._untold) >= _MOST_KEPT:
                return
            self._untold[session.reads] = _Untold(session.job, session.digest_id)
        its = self._untold[session.reads]
        its.why, its.shards, its.unknown = why, its.shards + shards, its.unknown + unknown

    def tell(self) -> None:
        """Call it now and then."""
        now, told, rest = self._clock.now(), 0, list[_Untold]()
        for reads, its in list(self._untold.items()):
            if its.tell_at > now:
                continue
            if not its.why:  # nothing more has come
                del self._untold[reads]
                continue
            if told < _MOST_AT_ONCE:
                self._line(its)
            else:
                rest.append(its)
            told += 1
            self._untold[reads] = _Untold(its.job, its.digest_id, tell_at=now + _PAUSE_S)
        if rest:
            others, shards = many(len(rest), "job", "jobs"), many(sum(its.shards for its in rest), "shard")
            logging.warning("handed out again to readers of %s more: %s", others, shards)

    def _line(self, its: _Untold) -> None:
        who, name = f"job {its.job}" if its.job else "a job without a name", self._called(its.digest_id)
        parts = [many(its.shards, "shard")] if its.shards or not its.unknown else []
        if its.unknown:  # leases are not in the log
            parts.append(f"what {many(its.unknown, 'reader')} held before the coordinator was started again")
        logging.warning(
            "handed out again of data set %s to readers of %s: %s, since %s; some of those records may come twice",
            name, who, " and ".join(parts), its.why, extra=about(job=its.job, dataset=name, digest=its.digest_id),
        )  # fmt: skip
