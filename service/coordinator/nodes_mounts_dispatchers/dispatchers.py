"""The tf.data service dispatchers that have told of themselves lately, for `tfquiver status`; those that are missed,
also by a coordinator that was started since; and of who left. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from math import inf

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo, LostDispatcher
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers_in_log import (
    DispatchersInLog,
    Record,
    Said,
    record,
    whole,
)
from tfquiver.sizes_durations_amounts.amounts import many

MAX_DISPATCHERS = 100
MAX_WORKERS = 10_000  # of all of them: what is listed fits one reply
MAX_LEFT = 4096  # session keys of one report
MAX_ID_BYTES = 64
FORGOTTEN_S = 30.0
SILENT_WORKER_S = 5.0  # two questions that it did not answer, and a busy machine
_UNREAD_S = 10.0  # a trainer that takes its time may ask late
SILENT_DISPATCHER_S = 8.0  # three reports that did not come, the last of which may have waited for its workers
_GIVEN_UP_S = 600.0
_MISSED_S = 24 * 3600.0  # a dispatcher: what it is needed for does not end by itself


@dataclass(frozen=True, slots=True)
class _Report:
    since: float  # when it was heard of first, without a break
    at: float
    info: DispatcherInfo
    left_keys: frozenset[str]
    replaced: bool = False  # one with its work_dir began elsewhere since: it is gone, unless it tells of itself again


@dataclass(frozen=True, slots=True)
class _Lost:
    at: float  # when it was heard of last
    said: Said
    was_there: bool = False  # at the end of the log: it may only not have told of itself again yet


def is_silent(silent_ms: int) -> bool:
    """Of a worker, as people, metrics and alerts have it."""
    return silent_ms >= 1000 * SILENT_WORKER_S


def is_missed(silent_ms: int, idle_ms: int) -> bool:
    """It is silent, and somebody may wait for it. A dispatcher never forgets a worker; for one that has been away for
    long nobody waits."""
    return is_silent(silent_ms) and min(silent_ms, idle_ms) <= 1000 * _GIVEN_UP_S


def is_unread(unread_ms: int) -> bool:
    """A worker's part of an epoch may hold up its trainer for nothing."""
    return unread_ms >= 1000 * _UNREAD_S


class Dispatchers:
    """What they say is kept in memory only: each says it all again every few seconds. That they are there, or missed,
    is journaled: else a coordinator that was started again would miss nobody."""

    def __init__(self, clock: Clock, unix_s: Callable[[], float], journal: Callable[[Record], None]) -> None:
        """`journal`: is given what changes; the caller makes it durable, soon: nobody waits for it."""
        self._clock, self._unix_s = clock, unix_s
        self._in_log = DispatchersInLog(clock, journal)
        self._read: dict[str, log_pb2.DispatcherKnown] = {}  # from the log
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
                f"{many(workers, 'worker')} of {many(len(others) + 1, 'dispatcher')}: at most {MAX_WORKERS} are kept"
            )
        for worker in info.workers:
            worker.version = self._versions.get(worker.address, (0.0, ""))[1]
        lost = self._lost.pop(info.address, None)
        now, before, said = self._clock.now(), self._told.get(info.address), _said(info)
        was_there = lost is not None and lost.was_there and now - lost.at < FORGOTTEN_S
        same = before is not None and info.process == before.info.process  # else it was away, elsewhere perhaps
        since = before.since if before and same else -inf if was_there else now
        self._moved(info.address, info.id, since)
        self._replaced(since, said.workers)
        self._told[info.address] = _Report(since, now, info, frozenset(left_keys))
        self._in_log.there(info.address, said)

    def leave(self, address: str, id: str = "") -> None:
        """It stops: it is there no more, and not missed."""
        if self._told.pop(address, None) or self._lost.pop(address, None):
            self._in_log.gone(address)
        else:  # it has never been heard of: the coordinator was away meanwhile
            self._moved(address, id, self._clock.now())

    def forget(self, addresses: Iterable[str], all_lost: bool = False) -> list[str]:
        """Dispatchers that are gone for good, `all_lost`: and all that are lost, are not missed any more; those that
        were. After `check_lost` of those that are named."""
        lost = [one.address for one in self.lost()]
        gone = lost if all_lost else [one for one in dict.fromkeys(addresses) if one in lost]
        for address in gone:
            self.leave(address)
        return gone

    def check_lost(self, addresses: Iterable[str]) -> None:
        """Raises InUseError where one of them tells of itself."""
        lost = {one.address for one in self.lost()}
        for address in addresses:
            if address in self._told and address not in lost:
                raise errors.InUseError(f"dispatcher {address} tells of itself: stop it, or wait until it is lost")

    def _moved(self, address: str, id: str, since: float) -> None:
        """Of those with that work_dir at another address, by one that is there since later. Two that live, of a copied
        directory, tell by turns: each was there before the other's last report. Who is replaced is shown for some
        seconds still, and comes back with its next report."""
        if not id:
            return
        for other, lost in list(self._lost.items()):
            if other != address and lost.said.id == id and since >= lost.at:
                del self._lost[other]
                self._in_log.gone(other)
        for other, told in self._told.items():
            if other != address and told.info.id == id and since >= told.at and not told.replaced:
                self._told[other] = replace(told, replaced=True)
                self._in_log.gone(other)

    def _replaced(self, since: float, workers: frozenset[str]) -> None:
        """Of those that are lost, by one that these have gone to: started again at another address. One that was there
        before has all of them: a worker that left a dispatcher for another one long ago is told of by both."""
        for address, lost in list(self._lost.items()):
            its = lost.said.workers
            if its & workers and (since > lost.at or its <= workers):
                del self._lost[address]
                self._in_log.gone(address)

    def apply(self, known: log_pb2.DispatcherKnown) -> None:
        """From the log."""
        before = self._read.pop(known.address, None)
        if not known.gone:
            self._read[known.address] = whole(known, before)

    def restored(self) -> None:
        """The log has been read. Those that were there are missed unless they tell of themselves again."""
        now, unix_s = self._clock.now(), self._unix_s()
        lost = [
            (known.address, _Lost(now - ago_s, said, not known.heard_s))
            for known in self._read.values()
            for said in [Said(known.version, known.id, frozenset(known.workers))]
            for ago_s in [max(0.0, unix_s - known.heard_s) if known.heard_s else 0.0]  # that clock may have been set
        ]
        self._lost.update(sorted(lost, key=lambda its: its[1].at))
        for address, its in lost:
            self._in_log.read(address, its.said, its.was_there)
        was_there = [address for address, its in lost if its.was_there]
        self._read.clear()
        self._forget()
        self._bound()
        for address in was_there:
            if still := self._lost.get(address):
                self._note_lost(address, still)

    def still(self) -> Callable[[], Iterable[Record]]:
        """Gives the records that bring an empty object here, but for what each says again; in any thread."""
        known = self._lost | {address: _lost(told) for address, told in self._told.items() if not told.replaced}
        still = [
            (address, its.said, 0 if self._in_log.is_there(address) else self._unix_of(its))
            for address, its in known.items()
        ]
        return lambda: (record(*one) for one in still)

    def _note_lost(self, address: str, its: _Lost) -> None:
        self._in_log.silent(address, its.said, self._unix_of(its))

    def _unix_of(self, its: _Lost) -> int:
        return max(1, int(self._unix_s() - (self._clock.now() - its.at)))

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
        heard = {address: (its.at, its.said.version) for address, its in self._lost.items()}
        heard |= {address: (told.at, told.info.version) for address, told in self._told.items()}
        return [
            LostDispatcher(address=address, version=version, silent_ms=int(1000 * (now - at)))
            for address, (at, version) in sorted(heard.items())
            if now - at >= SILENT_DISPATCHER_S
        ]

    def told(self) -> Hashable:
        """Equal for as long as the same dispatchers and workers are there, and the same ones are silent, or unread."""
        return tuple(one.address for one in self.lost()), tuple(
            (
                info.address,
                *(
                    (one.address, one.version, is_silent(one.silent_ms), is_unread(one.unread_ms))
                    for one in info.workers
                ),
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
        for address, told in list(self._told.items()):
            if told.at <= now - SILENT_DISPATCHER_S:
                if told.replaced:
                    del self._told[address]
                elif self._in_log.is_there(address):
                    self._note_lost(address, _lost(told))
        gone = [its for its in self._told.items() if its[1].at <= too_old]
        for address, told in sorted(gone, key=lambda its: its[1].at):
            del self._told[address]
            self._lost[address] = _lost(told)
        while len(self._lost) > MAX_DISPATCHERS:  # else missed again, where the others are forgotten, after a restart
            self._in_log.gone(self._lost.popitem(last=False)[0])
        while self._lost and self._first_lost_at() <= now - _MISSED_S:
            self._in_log.forgotten(self._lost.popitem(last=False)[0])
        if gone:
            self._bound()
        while self._versions and self._versions[oldest := next(iter(self._versions))][0] <= too_old:
            del self._versions[oldest]

    def _bound(self) -> None:
        """Of those that have been lost for long it is forgotten which workers they had."""
        workers = 0
        for address, lost in reversed(list(self._lost.items())):
            workers += len(lost.said.workers)
            if workers > MAX_WORKERS:
                self._lost[address] = replace(lost, said=replace(lost.said, workers=frozenset()))
                self._in_log.forgotten(address)

    def _first_lost_at(self) -> float:
        return next(iter(self._lost.values())).at


def _lost(told: _Report) -> _Lost:
    return _Lost(told.at, _said(told.info))


def _said(info: DispatcherInfo) -> Said:
    """A dispatcher never forgets a worker: one that has long gone to another dispatcher is no sign of it."""
    there = frozenset(worker.address for worker in info.workers if not is_silent(worker.silent_ms))
    return Said(info.version, info.id, there)
