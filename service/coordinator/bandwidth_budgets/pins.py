"""What a person, or an outside scheduler, has said that jobs may read from the store; for good. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2

MAX_PINS = 10_000  # also of jobs that are yet to come
Record = log_pb2.CommitRecord


class Pins:
    def __init__(self, journal: Callable[[Record], None], changed: Callable[[str, float], None]) -> None:
        """`journal`: is given each decision; the caller makes it durable. `changed`: is given the job and its rate."""
        self._journal, self._changed = journal, changed
        self.bytes_per_s: dict[str, float] = {}  # by job

    def allocate(self, job: str, bytes_per_s: float) -> bool:
        """Whether that is another pin than before; 0: it has none any more. Raises ResourceExhaustedError."""
        if self.bytes_per_s.get(job, 0.0) == bytes_per_s:
            return False  # a scheduler says it of all jobs every second
        if bytes_per_s and job not in self.bytes_per_s and len(self.bytes_per_s) >= MAX_PINS:
            raise errors.ResourceExhaustedError(
                f"job: {MAX_PINS} jobs have an allocation already: take some back (bytes_per_s 0)"
            )
        record = _record(job, bytes_per_s)
        self._journal(record)
        self.apply(record.remote_io_allocated)
        self._changed(job, bytes_per_s)
        return True

    def apply(self, record: log_pb2.RemoteIoAllocated) -> None:
        """From the log, of which there may be as many as pins: whoever reads it says when that is over."""
        if record.bytes_per_s:
            self.bytes_per_s[record.job] = record.bytes_per_s
        else:
            self.bytes_per_s.pop(record.job, None)

    def still(self) -> Callable[[], Iterator[Record]]:
        """Gives the records that bring an empty object here; in any thread."""
        pins = dict(self.bytes_per_s)
        return lambda: (_record(job, rate) for job, rate in pins.items())


def _record(job: str, bytes_per_s: float) -> Record:
    return Record(remote_io_allocated=log_pb2.RemoteIoAllocated(job=job, bytes_per_s=bytes_per_s))
