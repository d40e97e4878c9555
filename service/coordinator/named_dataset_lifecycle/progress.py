"""What nodes have said of the tasks that they have now: how far, who is done, who could not. Pure, and not durable:
after a restart they say it again.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import MOST_OF
from tfquiver.sizes_durations_amounts.amounts import many

# Invalid, not found, denied, precondition, out of range, data loss, unauthenticated: another node may do it; this one
# will not do it later either (what comes damaged from a remote store has been read again for a while before).
_OF_THE_NODE = frozenset({3, 5, 7, 9, 11, 15, 16})
# Cancelled, deadline, resource exhausted, aborted, unavailable: of the store, or of this moment. What is none of these
# and none of those above (internal, say) is a defect: it is tried again now and then, but not for ever.
_OF_THE_MOMENT = frozenset({1, 4, 8, 10, 14})
MOST_DEFECTS = 5  # on each node
SILENT_S = 60.0  # a node says at once that it has begun; one that knows nothing of tasks never does
QUIET_S = 5.0  # after so long it is said whose answer is waited for
SLOW_S = 30.0  # and after so long who is not through with deleting
LONGEST_ROOM_S = 300.0  # for so long others wait for the room that is made
_SAID = 5
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 60.0


@dataclass(slots=True)
class TaskProgress:
    """One task's."""

    reports: dict[str, pb2.ReportTaskRequest] = field(default_factory=dict)  # the last one, by node
    refused: dict[str, str] = field(default_factory=dict)  # nodes that cannot scan it, and why
    node_id: str = ""  # that scans it
    asked_s: float = 0.0  # when it was chosen
    failures: int = 0
    defects: Counter[str] = field(default_factory=Counter)  # by node
    not_before_s: float = 0.0
    since_s: float | None = None  # when it was first looked at
    held_back: str = ""  # why nobody is given it yet
    seen: set[str] = field(default_factory=set)  # nodes that were there since it was ordered

    @property
    def done_bytes(self) -> int:
        return sum(one.done_bytes for one in self.reports.values())

    @property
    def total_bytes(self) -> int:
        return sum(one.total_bytes for one in self.reports.values())

    @property
    def trouble(self) -> str:
        return next((one.trouble for one in self.reports.values() if one.trouble), "")

    @property
    def lacks_room_bytes(self) -> dict[str, int]:
        """By node; none where something else is in the way of one."""
        told = [(one.node_id, one.lacks_room_bytes) for one in self.reports.values() if one.trouble]
        if len(told) > MOST_OF or not all(lacks_bytes for _, lacks_bytes in told):
            return {}
        return dict(told)

    def begun(self, now: float) -> None:
        if self.since_s is None:
            self.since_s = now

    def holds_back(self, evicting: int, now: float) -> bool:
        """Whether room is made first, by so many data sets. Nobody is asked before. They may be secret."""
        which = "a data set is" if evicting == 1 else many(evicting, "data set is", "data sets are")
        self.held_back = f"room is made first: {which} being evicted" if evicting else ""
        if evicting:
            self.since_s = now
        return bool(evicting)

    def makes_room(self, node_ids: Collection[str], now: float) -> bool:
        """Of one that is being evicted: whether it is worth waiting for. Not where each of these nodes that is not
        through says what is in the way, as a disk that does not answer: that may be for ever."""
        if self.since_s is not None and now - self.since_s > LONGEST_ROOM_S:
            return False
        if len(self.reports) < len(node_ids):
            return True
        hindered = False
        for node_id in node_ids:  # of a thousand nodes: no further than to the first that is still at it
            report = self.reports.get(node_id)
            if report is None or not (report.over or report.trouble):
                return True
            hindered = hindered or not report.over
        return not hindered

    def waits(self, node_ids: Collection[str], scans: bool, now: float, empties: bool = False) -> str:
        """What is waited for that should long have come; "": nothing.

        Args:
          node_ids: of which each is to do its part, or, where it `scans`, one is to scan.
          empties: they are to delete what they keep.
        """
        if self.held_back:
            return self.held_back
        if self.since_s is None or now - self.since_s < QUIET_S or self.trouble:
            return ""
        old = "is it down (tfquiver status), or too old to know data sets with names? Replace it, or stop it"
        if not scans:
            silent = sorted(node_id for node_id in node_ids if node_id not in self.reports)
            if silent:
                return f"no answer from node {some(silent)} yet: {old}"
            slow = sorted(node_id for node_id in node_ids if not self._is_through(node_id))
            if not empties or not slow or now - self.since_s < SLOW_S:
                return ""
            return (
                f"node {some(slow)} is not through with it after {now - self.since_s:.0f} s: does its disk hang? "
                "See its log; what it keeps goes when that answers, and is not waited for when that node is stopped"
            )
        if not self.node_id:
            return "" if self.not_before_s > now else "no node was asked yet: others are scanned first"
        if self.reports or now - self.asked_s < QUIET_S:
            return ""
        others = len(set(node_ids) - self.refused.keys()) - 1
        then = "another node is asked then" if others > 0 else "it fails then, for no other node can be asked"
        left_s = max(0, round(self.asked_s + SILENT_S - now))
        return f"no answer from node {self.node_id}, which is to scan it, yet: {old} (in {left_s} s {then})"

    def all_over(self, node_ids: Collection[str], but_hindered: bool = False) -> bool:
        """Whether each of these has done its part. `but_hindered`: who says what is in the way, as a disk that does not
        answer, is not waited for."""
        if len(self.reports) < len(node_ids):
            return False
        return all(self._is_through(one) or (but_hindered and self._is_hindered(one)) for one in node_ids)

    def _is_hindered(self, node_id: str) -> bool:
        return node_id in self.reports and bool(self.reports[node_id].trouble)

    def _is_through(self, node_id: str) -> bool:
        return node_id in self.reports and self.reports[node_id].over

    def scanner(self, node_ids: Sequence[str], preferred: str, life: str, now: float) -> str:
        """Which of these nodes, sorted, scans: the one that does already, if it is there; "": none just now.

        Another one for each data set, where nothing says which one knows its files already.
        """
        at = bisect.bisect_left(node_ids, self.node_id)
        if at < len(node_ids) and node_ids[at] == self.node_id:
            if not self.reports and now - self.asked_s > SILENT_S:
                self.refused[self.node_id] = f"node {self.node_id} does not answer: is it down, or of an older version?"
            if self.node_id not in self.refused:
                return self.node_id if now >= self.not_before_s else ""
        left = [node_id for node_id in node_ids if node_id not in self.refused] if self.refused else node_ids
        if not left or now < self.not_before_s:
            return ""
        at = int.from_bytes(life.encode()[:8], "big") % len(left)
        self.node_id = preferred if preferred in left else left[at]
        self.reports.clear()
        self.asked_s = now
        return self.node_id

    def failed(self, report: pb2.ReportTaskRequest, now: float) -> None:
        """A scan did, on the node that had it: another one tries where it may be that node's fault, else it does again,
        later every time."""
        self.reports.clear()
        if report.error_code not in _OF_THE_MOMENT | _OF_THE_NODE:
            self.defects[report.node_id] += 1
        if report.error_code in _OF_THE_NODE or self.defects[report.node_id] >= MOST_DEFECTS:
            self.refused[report.node_id] = report.trouble
            if report.error_code not in _OF_THE_NODE:
                self.refused[report.node_id] = (
                    f"it failed {MOST_DEFECTS} times on node {report.node_id}, the last time with: {report.trouble}: "
                    "look into that node's log, and `tfquiver dataset refresh` it when what is wrong there is mended"
                )
            self.node_id = ""
            return
        pause_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(self.failures, 10))
        self.failures += 1
        self.not_before_s = now + pause_s
        self.reports[report.node_id] = pb2.ReportTaskRequest(node_id=report.node_id, trouble=report.trouble)

    def all_refused(self, node_ids: Collection[str]) -> str:
        """Why, when none of these nodes can scan it; "": one may."""
        if not self.refused or not node_ids or set(node_ids) - self.refused.keys():
            return ""
        return "; ".join(dict.fromkeys(self.refused.values()))


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - _SAID} more" if len(names) > _SAID else ""
    return f"{', '.join(names[:_SAID])}{more}"
