"""What nodes say of what they have to move, and have moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MoveReport, NodeMoves

MAX_REPORTS = 256  # of one node


class MoveReports:
    """The last that each node said; in memory only."""

    def __init__(self) -> None:
        self._of: dict[str, dict[bytes, MoveReport]] = {}

    def take(self, node_id: str, reports: Iterable[MoveReport]) -> None:
        said = {report.digest_id: report for report in reports}
        if said:
            self._of[node_id] = said
        else:
            self._of.pop(node_id, None)

    def gone(self, node_id: str) -> None:
        self._of.pop(node_id, None)

    def settled(self, digest_id: bytes, node_ids: Iterable[str], version: int) -> bool:
        """Whether all of these nodes have carried out the placement of that version."""
        reports = [self._of.get(node_id, {}).get(digest_id) for node_id in node_ids]
        return bool(version) and all(
            report and report.places_version == version and not report.to_come_shards and not report.to_go_shards
            for report in reports
        )

    def of(self, digest_id: bytes) -> Iterator[NodeMoves]:
        for node_id, reports in sorted(self._of.items()):
            if digest_id in reports:
                yield NodeMoves(node_id=node_id, report=reports[digest_id])
