"""What the commit log says of dispatchers: which are there, and which are missed, with as few bytes as may be. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2

Record = log_pb2.CommitRecord
NOTED_EVERY_S = 60.0  # of one whose workers come and go: they may be 10 000


@dataclass(frozen=True, slots=True)
class Said:
    """Of one address."""

    version: str
    id: str  # of its work_dir; "": it told none
    workers: frozenset[str]  # addresses

    @property
    def mark(self) -> tuple[str, str, int]:
        return self.version, self.id, hash(self.workers)


@dataclass(frozen=True, slots=True)
class _Noted:
    at: float  # when its workers were written
    mark: tuple[str, str, int]
    there: bool


class DispatchersInLog:
    """That one is silent, and back again, is written without its workers: one that is so every few seconds would else
    write hundreds of kilobytes each time."""

    def __init__(self, clock: Clock, journal: Callable[[Record], None]) -> None:
        self._clock, self._journal = clock, journal
        self._noted: dict[str, _Noted] = {}

    def is_there(self, address: str) -> bool:
        """As the log says."""
        noted = self._noted.get(address)
        return noted is not None and noted.there

    def read(self, address: str, said: Said, there: bool) -> None:
        """The log says so, since before."""
        self._noted[address] = _Noted(-inf, said.mark, there)

    def there(self, address: str, said: Said) -> None:
        now, noted = self._clock.now(), self._noted.get(address)
        if noted is None or (noted.mark != said.mark and now - noted.at >= NOTED_EVERY_S):
            self._noted[address] = _Noted(now, said.mark, there=True)
            self._journal(record(address, said))
        elif not noted.there:
            self._as_before(address, noted, said, 0)

    def silent(self, address: str, said: Said, heard_s: int) -> None:
        if noted := self._noted.get(address):
            self._as_before(address, noted, said, heard_s)
        else:
            self._noted[address] = _Noted(self._clock.now(), said.mark, there=False)
            self._journal(record(address, said, heard_s))

    def gone(self, address: str) -> None:
        self.forgotten(address)
        self._journal(Record(dispatcher_known=log_pb2.DispatcherKnown(address=address, gone=True)))

    def forgotten(self, address: str) -> None:
        """What the log has of it counts for nothing: whatever is to be kept of it is written whole."""
        self._noted.pop(address, None)

    def _as_before(self, address: str, noted: _Noted, said: Said, heard_s: int) -> None:
        mark = said.version, said.id, noted.mark[2]
        self._noted[address] = replace(noted, mark=mark, there=not heard_s)
        known = log_pb2.DispatcherKnown(
            address=address, version=said.version, id=said.id, heard_s=heard_s, workers_as_before=True
        )
        self._journal(Record(dispatcher_known=known))


def whole(known: log_pb2.DispatcherKnown, before: log_pb2.DispatcherKnown | None) -> log_pb2.DispatcherKnown:
    """With its workers, `before` being what the log said of that address until then."""
    if not known.workers_as_before:
        return known
    made = log_pb2.DispatcherKnown()
    made.CopyFrom(known)
    made.ClearField("workers_as_before")
    made.workers[:] = before.workers if before else ()
    return made


def record(address: str, said: Said, heard_s: int = 0) -> Record:
    known = log_pb2.DispatcherKnown(
        address=address, version=said.version, id=said.id, workers=sorted(said.workers), heard_s=heard_s
    )
    return Record(dispatcher_known=known)
