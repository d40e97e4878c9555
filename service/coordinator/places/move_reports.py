"""What nodes say of what they have to move, and have moved; when nothing of a data set moves any more. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MoveReport, NodeMoves

MAX_REPORTS = 256  # of one node
# When somebody's last move becomes known, another one's look may be under way that began before it.
_LOOKS = 2


class MoveReports:
    """The last that each node said; in memory only.

    What is left of a move may have no room where it should be. No node can say so by itself: a full one gets room when
    others take over what it does not own, and they may be full as well. Nothing moves any more when all that have
    something left have looked in vain since the last thing moved anywhere.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[bytes, MoveReport]] = {}
        self._from: dict[bytes, dict[str, int]] = {}  # by data set and node: `idle_looks` from which they count

    def take(self, node_id: str, reports: Iterable[MoveReport]) -> None:
        said, before = {report.digest_id: report for report in reports}, self._of.get(node_id, {})
        if said:
            self._of[node_id] = said
        else:
            self._of.pop(node_id, None)
        for digest_id in before.keys() - said.keys():
            self._forget(digest_id)
        for digest_id, report in said.items():
            if _has_moved(before.get(digest_id), report):
                self._from[digest_id] = {
                    name: reports[digest_id].idle_looks + _LOOKS
                    for name, reports in self._of.items()
                    if digest_id in reports
                }

    def gone(self, node_id: str) -> None:
        for digest_id in self._of.pop(node_id, {}):
            self._forget(digest_id)

    def settled(self, digest_id: bytes, node_ids: Iterable[str], version: int) -> bool:
        """Whether all of these nodes have carried out the placement of that version, as far as there is room."""
        counts_from = self._from.get(digest_id, {})
        for node_id in node_ids:
            report = self._of.get(node_id, {}).get(digest_id)
            if report is None or report.places_version != version:
                return False
            left = report.to_come_shards or report.to_go_shards
            if left and report.idle_looks < counts_from.get(node_id, _LOOKS):
                return False
        return bool(version)

    def of(self, digest_id: bytes) -> Iterator[NodeMoves]:
        for node_id, reports in sorted(self._of.items()):
            if digest_id in reports:
                yield NodeMoves(node_id=node_id, report=reports[digest_id])

    def _forget(self, digest_id: bytes) -> None:
        if not any(digest_id in reports for reports in self._of.values()):
            self._from.pop(digest_id, None)


def _has_moved(before: MoveReport | None, report: MoveReport) -> bool:
    """Something has come or gone since, or been looked at anew."""
    return (
        before is None
        or not report.idle_looks
        or (before.places_version, before.came_bytes, before.gone_shards)
        != (report.places_version, report.came_bytes, report.gone_shards)
        or report.idle_looks < before.idle_looks
    )
