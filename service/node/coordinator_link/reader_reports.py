"""What readers of this node say of themselves, each one's newest, until a heartbeat has taken it along. Pure."""

from __future__ import annotations

from collections import OrderedDict

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb

MAX_REPORTS = 1024  # in a heartbeat
MAX_WAITING = 16384  # while the coordinator is away, epochs of many jobs begin and end: the latest are of most use


class ReaderReports:
    def __init__(self) -> None:
        self._waiting: OrderedDict[str, pb.ReaderReport] = OrderedDict()  # by reader
        self._told: list[pb.ReaderReport] = []

    def heard(self, report: pb.ReaderReport) -> None:
        self._waiting.pop(report.reader_id, None)
        self._waiting[report.reader_id] = report
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)

    def report(self) -> list[pb.ReaderReport]:
        """What the next heartbeat carries; those that have waited longest first."""
        self._told = [report for report, _ in zip(self._waiting.values(), range(MAX_REPORTS), strict=False)]
        return self._told

    def arrived(self) -> None:
        """The heartbeat was answered. What was heard meanwhile goes with the next one."""
        for report in self._told:
            if self._waiting.get(report.reader_id) is report:
                del self._waiting[report.reader_id]
        self._told = []
