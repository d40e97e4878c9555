"""The tf.data service dispatchers that have told of themselves lately, for `tfquiver status`. Pure."""

from __future__ import annotations

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo

MAX_DISPATCHERS = 100
MAX_WORKERS = 10_000  # of all of them: what is listed fits one reply
FORGOTTEN_S = 30.0


class Dispatchers:
    """Kept in memory only: each says it all again every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[str, tuple[float, DispatcherInfo]] = {}  # address -> when, and its last report

    def report(self, info: DispatcherInfo) -> None:
        """Takes the place of the last one of that address. Raises ResourceExhaustedError."""
        self._forget()
        others = [other for _, other in self._told.values() if other.address != info.address]
        if len(others) >= MAX_DISPATCHERS:
            raise errors.ResourceExhaustedError(f"{MAX_DISPATCHERS} other dispatchers have told of themselves")
        workers = len(info.workers) + sum(len(other.workers) for other in others)
        if workers > MAX_WORKERS:
            raise errors.ResourceExhaustedError(
                f"{workers} workers of {len(others) + 1} dispatchers: at most {MAX_WORKERS} are kept"
            )
        self._told[info.address] = self._clock.now(), info

    def live(self) -> list[DispatcherInfo]:
        """By address."""
        self._forget()
        return [info for _, (_, info) in sorted(self._told.items())]

    def _forget(self) -> None:
        too_old = self._clock.now() - FORGOTTEN_S
        self._told = {address: told for address, told in self._told.items() if told[0] > too_old}
