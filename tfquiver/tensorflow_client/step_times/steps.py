"""`with tfquiver.step(job):` around the training step of a loop of one's own."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from types import TracebackType

from tfquiver.tensorflow_client.step_times import accelerators as devices
from tfquiver.tensorflow_client.step_times import step_reports
from tfquiver.tensorflow_client.step_times.step_counts import MOST_RECORDS
from tfquiver.tensorflow_client.tf_errors import raised_as_both
from tfquiver.users_arguments_checked.checks import check_integer, check_name


def step(
    job: str | None = None, *, records: int | None = None, accelerators: int | None = None
) -> AbstractContextManager[None]:
    """What runs in it is one training step; the coordinator is told how long steps take and what lies between them.

    ```python
    for batch in data:
        with tfquiver.step("run-17", records=256):
            train_step(batch)
    ```

    Fetch the batch outside of it: then the time between steps is what the trainer waits for data, and the coordinator
    knows how fast it would be if it did not. It is said every five seconds, on a thread of its own, and costs a step
    about five microseconds. A coordinator that is away, or of an older version, changes nothing but a line in the log.

    A step that raises is none. The first one, which traces and compiles, is not counted. One within another of the same
    thread is a part of it; threads may make steps side by side. Not for the inside of a `tf.function`.

    Args:
      job: as `tfquiver.dataset(..., job=)` has it; None: the data sets that this process has made, of
        `tfquiver.reader`, `tfquiver.torch` and `tfquiver.grain`, too.
      records: that the step takes: a mini-batch of this process.
      accelerators: of this process; None: those of the distribution strategy whose scope this is, or without one all
        that TensorFlow sees. What the first step says, holds.

    Raises InvalidArgumentError naming an argument that cannot be right.
    """
    try:
        _check(job, records, accelerators)
    except TypeError:  # what cannot be hashed cannot be right either
        _check.__wrapped__(job, records, accelerators)
    subject = step_reports.subject_of(job)
    if not subject.counts.accelerators:
        subject.counts.accelerators = accelerators or devices.of_process()
    return _Step(subject, records or 0)


class _Step(AbstractContextManager[None]):
    __slots__ = ("_records", "_subject")

    def __init__(self, subject: step_reports.Subject, records: int) -> None:
        self._subject, self._records = subject, records

    def __enter__(self) -> None:
        if not self._subject.watched:
            step_reports.reporter().watch(self._subject)
        self._subject.counts.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subject.counts.end(1, self._records, whole=kind is None)


@functools.lru_cache(256, typed=True)  # a loop says the same at every step
def _check(job: str | None, records: int | None, accelerators: int | None) -> None:
    with raised_as_both():
        check_name("job", job)
        if records is not None:
            check_integer("records", records, 1, MOST_RECORDS)
        if accelerators is not None:
            check_integer("accelerators", accelerators, 1, devices.MOST)
