"""The tf.data service dispatchers that have told of themselves lately, for `tfquiver status`, and of who left. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo

MAX_DISPATCHERS = 100
MAX_WORKERS = 10_000  # of all of them: what is listed fits one reply
MAX_LEFT = 4096  # session keys of one report
FORGOTTEN_S = 30.0
SILENT_WORKER_S = 5.0  # two questions that it did not answer, and a busy machine
_GIVEN_UP_S = 600.0


@dataclass(frozen=True, slots=True)
class _Report:
    at: float
    info: DispatcherInfo
    left_keys: frozenset[str]


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
        self._told[info.address] = _Report(self._clock.now(), info, frozenset(left_keys))

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

    def told(self) -> Hashable:
        """Equal for as long as the same workers are there, and those that are silent."""
        return tuple(
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
        too_old = self._clock.now() - FORGOTTEN_S
        self._told = {address: told for address, told in self._told.items() if told.at > too_old}
        while self._versions and self._versions[oldest := next(iter(self._versions))][0] <= too_old:
            del self._versions[oldest]
