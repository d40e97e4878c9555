"""TFRecord files whose records are numbered, and what was read of them counted."""

from __future__ import annotations

import math
import random
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tfquiver.scanning import tfrecord

_NUMBER = struct.Struct("<Q")
Numbers = npt.NDArray[np.int64]
# Of pipelines whose source is not ours, as behind tf.data service, TensorFlow's tuning thread may keep an iterator so
# long from being destroyed: ops/tf/quiver_ends_at_once_op/tuner_waking.h.
_TUNED_S = 75.0
_AT_ONCE = 256


def fixture(files: int, records_a_file: int, record_bytes: int) -> Any:
    """`paths = fixture(...)`: the files' paths, written once for a module of tests."""

    @pytest.fixture(scope="module", name="paths")
    def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
        return write(tmp_path_factory.mktemp("data"), files, records_a_file, record_bytes)

    return paths


def write(directory: Path, files: int, records_a_file: int, record_bytes: int, seed: int = 0) -> list[Path]:
    """`files` files with records numbered from 0 on; a record's first 8 bytes are its number, the rest is random."""
    directory.mkdir(parents=True, exist_ok=True)
    noise = random.Random(seed)
    paths = []
    for file in range(files):
        path = directory / f"part-{file:03d}.tfrecord"
        with path.open("wb") as out:
            for record in range(records_a_file):
                out.write(
                    tfrecord.frame(_NUMBER.pack(file * records_a_file + record) + noise.randbytes(record_bytes - 8))
                )
        paths.append(path)
    return paths


def numbers(element: Any) -> Numbers:
    """The numbers in one element: a record, or an array of records."""
    records = np.atleast_1d(np.asarray(element, object))
    return np.array([_NUMBER.unpack_from(record)[0] for record in records], np.int64)


def read(elements: Any) -> Numbers:
    """The numbers of one epoch, in the order of arrival; of a tf.data.Dataset or anything else that is iterated.

    Single records of a data set are taken in batches: Python takes a tenth of a millisecond for an element.
    """
    if hasattr(elements, "element_spec"):
        single = elements.element_spec.shape.rank == 0
        elements = (elements.batch(_AT_ONCE) if single else elements).as_numpy_iterator()
    parts = [numbers(element) for element in elements]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def assert_each_once(seen: Numbers, records: int, times: int = 1) -> None:
    counts = np.bincount(seen, minlength=records)
    lost, more = np.flatnonzero(counts < times), np.flatnonzero(counts > times)
    assert len(counts) == records, f"numbers beyond {records}: {seen.max()}"
    assert not len(lost) and not len(more), (
        f"of {records}: {len(lost)} lost {lost[:5]}, {len(more)} too often {more[:5]}"
    )


def lost_and_duplicates(seen: Numbers, records: int) -> tuple[int, int]:
    counts = np.bincount(seen, minlength=records)
    return int(np.sum(counts == 0)), int(np.sum(np.maximum(counts - 1, 0)))


class EpochReader:
    """Reads one epoch in a thread; tests wait for how far it has come. `step_s` is the time of a training step;
    `allowed`: so many elements are taken before `allow` is waited for."""

    def __init__(self, dataset: Any, step_s: float = 0.0, allowed: float = math.inf) -> None:
        self._dataset = dataset
        self._step_s, self._allowed = step_s, allowed
        self._parts: list[Numbers] = []
        self._count = 0
        self._ended = False
        self._error: BaseException | None = None
        self.longest_wait_s, self.waited_after = 0.0, 0  # for the first element, the next, or the end; records before
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="epoch reader", daemon=True)
        self._thread.start()

    def allow(self, elements: float = math.inf) -> None:
        """To take so many more."""
        with self._changed:
            self._allowed += elements
            self._changed.notify_all()

    def reached(self, records: int, deadline_s: float = 60.0) -> int:
        """Waits until so many records have arrived; raises what the reader raised, or TimeoutError."""
        with self._changed:
            self._changed.wait_for(lambda: self._count >= records or self._ended, deadline_s)
            if self._error is not None:
                raise self._error
            if self._count < records:
                raise TimeoutError(f"{self._count} of {records} records; {'ended' if self._ended else 'still reading'}")
            return self._count

    def result(self, deadline_s: float = 60.0) -> Numbers:
        """The epoch's numbers once it has ended; raises what the reader raised, or TimeoutError."""
        with self._changed:
            ended = self._changed.wait_for(lambda: self._ended, deadline_s)
        if self._error is not None:
            raise self._error
        if not ended:
            raise TimeoutError(f"the epoch has not ended after {deadline_s:.0f} s more; {self._count} records so far")
        self._thread.join(_TUNED_S)
        return self.seen()

    def seen(self) -> Numbers:
        """What has arrived so far."""
        with self._changed:
            return np.concatenate(self._parts) if self._parts else np.zeros(0, np.int64)

    def _run(self) -> None:
        iterator = self._dataset.as_numpy_iterator()
        try:
            while (element := self._next(iterator)) is not None:
                part = numbers(element)
                with self._changed:
                    self._parts.append(part)
                    self._count += len(part)
                    self._changed.notify_all()
                if self._step_s:
                    time.sleep(self._step_s)
                with self._changed:
                    self._changed.wait_for(lambda: len(self._parts) < self._allowed)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _next(self, iterator: Iterator[Any]) -> Any:
        """None at the end, which does not count what TensorFlow takes to clear up afterwards."""
        asked = time.monotonic()
        try:
            return next(iterator, None)
        finally:
            self._waited(time.monotonic() - asked)

    def _waited(self, wait_s: float) -> None:
        if wait_s > self.longest_wait_s:
            self.longest_wait_s, self.waited_after = wait_s, self._count
