"""A derived data set computed together: each process that wants it takes shards that nobody computes, to the last.

A process that is killed is not waited for: what it had claimed goes to others after half a minute. What has been
reported stays, and is computed by nobody again.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque

from absl import logging

from tfquiver import errors
from tfquiver.materializing.calls import Calls
from tfquiver.materializing.making import Making
from tfquiver.proto.tfquiver.v1 import derived_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.users_arguments_checked.option_groups import Progress

_RENEW_S = 5.0
_WAIT_MS = 1000
_AHEAD_S = 1.0  # rows are claimed and reported together that take about so long
_MOST_CLAIMED = 64
THREADS = 2  # one computes, in all of TensorFlow's threads, while the other fetches, frames and sends


class Building:
    """`build`: until all is there. Once."""

    def __init__(self, calls: Calls, making: Making, build_id: bytes, progress: Progress | None) -> None:
        self._calls, self._making, self._build_id, self._progress = calls, making, build_id, progress
        self._claimer = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._claiming = threading.Lock()
        self._ready: deque[int] = deque()
        self._mine: set[int] = set()
        self._done: list[pb.DerivedRow] = []  # not yet reported
        self._over = threading.Event()
        self._trouble: BaseException | None = None
        self._made: types_pb2.Dataset | None = None
        self._row_s, self._reported_s = _AHEAD_S, time.monotonic()
        self._cost = pb.DerivedCost()  # of those not yet reported
        self._cpu_s = time.process_time()  # when the last report was made
        self.computed = 0
        self.kept = True

    def build(self) -> types_pb2.Dataset:
        """The derived data set. Raises InvalidArgumentError (the function cannot do a shard), UnavailableError, ..."""
        threads = [threading.Thread(target=self._work, name=f"tfquiver materialize {i}") for i in range(THREADS)]
        for thread in threads:
            thread.daemon = True
            thread.start()
        try:
            while not self._over.wait(_RENEW_S):
                self._ask(0)
        except BaseException as error:  # noqa: BLE001 - it is raised when the threads have ended
            self._end(error)
        for thread in threads:
            thread.join()
        if self._trouble is not None:
            self._give_back()
            raise self._trouble
        assert self._made is not None
        return self._made

    def _work(self) -> None:
        try:
            while (row := self._next()) is not None:
                self._compute(row)
        except BaseException as error:  # noqa: BLE001 - it is raised in `build`
            self._end(error)
        finally:
            self._making.close_mine()

    def _next(self) -> int | None:
        """A row of ours; None: it is over."""
        with self._claiming:
            while not self._over.is_set():
                with self._lock:
                    if self._ready:
                        return self._ready.popleft()
                self._report()
                self._ask(self._rows_ahead())
        return None

    def _rows_ahead(self) -> int:
        return max(THREADS, min(_MOST_CLAIMED, int(_AHEAD_S / max(self._row_s, 1e-3))))

    def _compute(self, row: int) -> None:
        began_s = time.monotonic()
        parts: list[pb.DerivedShard] = []
        read_s: list[float] = []
        for shard in self._making.make(row, self._over.wait, read_s.append):
            if not self._calls.put(shard) and self.kept:
                self.kept = False
                logging.warning(
                    "not all that is computed is kept: there is no room for it; it is computed when it is read"
                )
            parts.append(pb.DerivedShard(hash=shard.hash, length_bytes=len(shard.data), records=shard.records))
        with self._lock:
            self._done.append(pb.DerivedRow(row=row, parts=parts))
            self._row_s = (time.monotonic() - began_s) / THREADS
            self._cost.rows += 1
            self._cost.read_us += int(1e6 * sum(read_s))
            self._cost.busy_us += int(1e6 * self._row_s)
            self._cost.input_bytes += int(self._making.digest.lengths[row])
            self._cost.made_bytes += sum(part.length_bytes for part in parts)
            due = not self._ready or time.monotonic() - self._reported_s > _AHEAD_S
        if due:
            self._report()

    def _report(self) -> None:
        """Several rows at a time: each report waits for the coordinator's disk."""
        with self._lock:
            rows, self._done, self._reported_s = self._done, [], time.monotonic()
            if not rows:
                return
            cost, self._cost = self._cost, pb.DerivedCost()
            # Of the whole process, since the function runs in TensorFlow's threads: with what else it does meanwhile.
            cpu_s, self._cpu_s = time.process_time() - self._cpu_s, time.process_time()
            cost.cpu_us = max(cost.read_us, int(1e6 * cpu_s))
        report = pb.ReportDerivedRequest(build_id=self._build_id, claimer=self._claimer, rows=rows, cost=cost)
        state = self._calls.report(report)
        with self._lock:
            self._mine.difference_update(row.row for row in rows)
            self.computed += len(rows)
        self._seen(state)

    def _ask(self, most: int) -> None:
        with self._lock:
            computing = list(self._mine)
        request = pb.ClaimDerivedRequest(
            build_id=self._build_id, claimer=self._claimer, most=most, computing=computing,
            wait_ms=_WAIT_MS if most else 0,
        )  # fmt: skip
        state = self._calls.claim(request)
        with self._lock:
            self._mine.update(state.claimed)
            self._ready.extend(state.claimed)
        self._seen(state)

    def _seen(self, state: pb.DerivedState) -> None:
        if self._progress is not None and state.rows:
            size_bytes = self._making.digest.size_bytes
            self._progress(size_bytes * state.done // state.rows, size_bytes)
        if state.HasField("dataset"):
            self._made = state.dataset
            self._over.set()

    def _end(self, error: BaseException) -> None:
        with self._lock:
            if self._trouble is None and self._made is None:
                self._trouble = error
        self._over.set()

    def _give_back(self) -> None:
        with self._lock:
            mine = list(self._mine)
        try:
            self._calls.claim(pb.ClaimDerivedRequest(build_id=self._build_id, claimer=self._claimer, given_back=mine))
        except errors.TfquiverError as error:
            logging.warning("shards that were not computed go to others in half a minute: %s", error)
