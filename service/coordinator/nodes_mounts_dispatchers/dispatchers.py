"""The tf.data service dispatchers that have told of themselves lately, for `tfquiver status`; those that are missed;
and of who left. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo, LostDispatcher

MAX_DISPATCHERS = 100
MAX_WORKERS = 10_000  # of all of them: what is listed fits one reply
MAX_LEFT = 4096  # session keys of one report
FORGOTTEN_S = 30.0
SILENT_WORKER_S = 5.0  # two questions that it did not answer, and a busy machine
SILENT_DISPATCHER_S = 8.0  # three reports that did not come, the last of which may have waited for its workers
_GIVEN_UP_S = 600.0
_MISSED_S = 24 * 3600.0  # a dispatcher: what it is needed for does not end by itself


@dataclass(frozen=True, slots=True)
class _Report:
    since: float  # when it was heard of first, without a break
    at: float
    info: DispatcherInfo
    left_keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Lost:
    at: float  # when it was heard of last
    version: str
    workers: frozenset[str]  # addresses


def is_silent(silent_ms: int) -> bool:
    """Of a worker, as people, metrics and alerts have it."""
    return silent_ms >= 1000 * SILENT_WORKER_S


def is_missed(silent_ms: int, idle_ms: int) -> bool:
    """It is silent, and somebody may wait for it. A dispatcher never forgets a worker; for one that has been away for
    long nobody waits."""
    return is_silent(silent_ms) and min(silent_ms, idle_ms) <= 1000 * _GIVEN_UP_S


class Dispatchers:
    """Kept in memory only: each says it all again every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[str, _Report] = {}  # by address, the last one
        # By address, longest first; not those of which much is still told.
        self._lost: OrderedDict[str, _Lost] = OrderedDict()
        # Of workers, by address: when it was said, and what. In the order of that: thousands tell each ten seconds, and
        # to look at all of them for each took most of the loop's time.
        self._versions: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def report(self, info: DispatcherInfo, left_keys: Iterable[str] = ()) -> None:
        """Takes the place of the last one of that address. `left_keys`: as in ReportDispatcherRequest.

        Raises ResourceExhaustedError.
        """
        self._forget()
        others = [told.info for told in self._told.values() if told.info.address != info.address]
        if len(others) >= MAX_DISPATCHERS:
            raise errors.ResourceExhaustedError(f"{MAX_DISPATCHERS} other dispatchers have told of themselves")
        workers = len(info.workers) + sum(len(other.workers) for other in others)
        if workers > MAX_WORKERS:
            raise errors.ResourceExhaustedError(
                f"{workers} workers of {len(others) + 1} dispatchers: at most {MAX_WORKERS} are kept"
            )
        for worker in info.workers:
            worker.version = self._versions.get(worker.address, (0.0, ""))[1]
        self._lost.pop(info.address, None)
        now, before = self._clock.now(), self._told.get(info.address)
        since = before.since if before else now
        if self._lost:
            self._replaced(since, _there(info))
        self._told[info.address] = _Report(since, now, info, frozenset(left_keys))

    def leave(self, address: str) -> None:
        """It stops: it is there no more, and not missed."""
        self._told.pop(address, None)
        self._lost.pop(address, None)

    def _replaced(self, since: float, workers: frozenset[str]) -> None:
        """Of those that are lost, by one that these have gone to: started again at another address. One that was there
        before has all of them: a worker that left a dispatcher for another one long ago is told of by both."""
        for address, lost in list(self._lost.items()):
            if lost.workers & workers and (since > lost.at or lost.workers <= workers):
                del self._lost[address]

    def report_worker(self, address: str, version: str) -> None:
        """It is told with the next report of its dispatcher. Raises ResourceExhaustedError."""
        self._forget()
        if len(self._versions) >= MAX_WORKERS and address not in self._versions:
            raise errors.ResourceExhaustedError(f"{MAX_WORKERS} other workers have told of themselves")
        self._versions[address] = self._clock.now(), version
        self._versions.move_to_end(address)

    def live(self) -> list[DispatcherInfo]:
        """By address."""
        self._forget()
        return [told.info for _, told in sorted(self._told.items())]

    def lost(self) -> list[LostDispatcher]:
        """By address: those that are silent, and have not left."""
        self._forget()
        now = self._clock.now()
        heard = {address: (its.at, its.version) for address, its in self._lost.items()}
        heard |= {address: (told.at, told.info.version) for address, told in self._told.items()}
        return [
            LostDispatcher(address=address, version=version, silent_ms=int(1000 * (now - at)))
            for address, (at, version) in sorted(heard.items())
            if now - at >= SILENT_DISPATCHER_S
        ]

    def told(self) -> Hashable:
        """Equal for as long as the same dispatchers and workers are there, and the same ones are silent."""
        return tuple(one.address for one in self.lost()), tuple(
            (
                info.address,
                *((one.address, one.version, is_silent(one.silent_ms)) for one in info.workers),
            )
            for info in self.live()
        )

    def left(self) -> frozenset[str]:
        """The keys of sessions that workers hold open for nobody."""
        self._forget()
        return frozenset[str]().union(*(told.left_keys for told in self._told.values()))

    def _forget(self) -> None:
        now = self._clock.now()
        too_old = now - FORGOTTEN_S
        gone = [its for its in self._told.items() if its[1].at <= too_old]
        for address, told in sorted(gone, key=lambda its: its[1].at):
            del self._told[address]
            self._lost[address] = _lost(told)
        while self._lost and (len(self._lost) > MAX_DISPATCHERS or self._first_lost_at() <= now - _MISSED_S):
            self._lost.popitem(last=False)
        if gone:
            self._bound()
        while self._versions and self._versions[oldest := next(iter(self._versions))][0] <= too_old:
            del self._versions[oldest]

    def _bound(self) -> None:
        """Of those that have been lost for long it is forgotten which workers they had."""
        workers = 0
        for address, lost in reversed(list(self._lost.items())):
            workers += len(lost.workers)
            if workers > MAX_WORKERS:
                self._lost[address] = replace(lost, workers=frozenset())

    def _first_lost_at(self) -> float:
        return next(iter(self._lost.values())).at


def _lost(told: _Report) -> _Lost:
    return _Lost(told.at, told.info.version, _there(told.info))


def _there(info: DispatcherInfo) -> frozenset[str]:
    """A dispatcher never forgets a worker: one that has long gone to another dispatcher is no sign of it."""
    return frozenset(worker.address for worker in info.workers if not is_silent(worker.silent_ms))
