"""What readers of this node say of themselves, each one's newest, until a heartbeat has taken it along. Pure."""

from __future__ import annotations

import itertools
from collections import OrderedDict

from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb

MAX_REPORTS = 1024  # in a heartbeat
MAX_WAITING = 16384  # while the coordinator is away, epochs of many jobs begin and end: the latest are of most use
_MOST_AGO_MS = (1 << 32) - 1


class ReaderReports:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: OrderedDict[str, tuple[pb.ReaderReport, float]] = OrderedDict()  # by reader; when it was heard
        self._told: list[pb.ReaderReport] = []

    def heard(self, report: pb.ReaderReport) -> None:
        self._waiting.pop(report.reader_id, None)
        self._waiting[report.reader_id] = report, self._clock.now()
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)

    def report(self) -> list[pb.ReaderReport]:
        """What the next heartbeat carries; those that have waited longest first."""
        now, first = self._clock.now(), itertools.islice(self._waiting.values(), MAX_REPORTS)
        self._told = []
        for report, heard_at in first:
            report.heard_ago_ms = min(max(int(1000 * (now - heard_at)), 0), _MOST_AGO_MS)
            self._told.append(report)
        return self._told

    def arrived(self) -> None:
        """The heartbeat was answered. What was heard meanwhile goes with the next one."""
        for report in self._told:
            waiting = self._waiting.get(report.reader_id)
            if waiting and waiting[0] is report:
                del self._waiting[report.reader_id]
        self._told = []
