"""What nodes say of what they have to move, and have moved; when nothing of a data set moves any more. Pure."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass

from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MoveReport, NodeMoves

MAX_REPORTS = 256  # of one node at a time
MAX_STANDING = 200_000  # of all nodes: some hundred bytes each
# When somebody's last move becomes known, another one's look may be under way that began before it.
_LOOKS = 2


@dataclass(slots=True)
class _Node:
    """What one says of a data set. `seen`: how many of its moves were known when it was last heard."""

    seen: int
    counts_from: int  # its looks in vain, since the last of these moves
    idle_looks: int
    version: int


class _DataSet:
    """Who has carried out the placement, as far as there is room. One of those with something left is not done any more
    when something moves: all of them go at once, and each comes back when it has looked in vain again."""

    def __init__(self) -> None:
        self.moved = 0
        self._moves = 0  # and whatever else all are to look again for
        self._nodes: dict[str, _Node] = {}
        self._clear: dict[int, set[str]] = {}  # by version: nothing is left
        self._quiet: dict[int, set[str]] = {}  # something is left that nobody can do anything about

    def take(self, name: str, before: MoveReport | None, report: MoveReport) -> None:
        node = self._left_out(name)
        if before is None or _amounts(before) != _amounts(report):
            self.moved += 1
        if node is None or before is None or _is_not_over(before, report):
            self._moves += 1
            self._quiet = {}
            node = _Node(self._moves, report.idle_looks + _LOOKS, 0, 0)
        elif node.seen != self._moves:
            node.seen, node.counts_from = self._moves, node.idle_looks + _LOOKS
        node.idle_looks, node.version = report.idle_looks, report.places_version
        self._nodes[name] = node
        if not (report.to_come_shards or report.to_go_shards):
            self._clear.setdefault(node.version, set()).add(name)
        elif node.idle_looks >= node.counts_from:
            self._quiet.setdefault(node.version, set()).add(name)

    @property
    def names(self) -> Collection[str]:
        """Who tells of it."""
        return self._nodes.keys()

    def forget(self, name: str) -> bool:
        """Whether nobody tells of it any more."""
        self._left_out(name)
        del self._nodes[name]
        return not self._nodes

    def are_done(self, names: Collection[str], version: int) -> bool:
        clear, quiet = self._clear.get(version, set()), self._quiet.get(version, set())
        if len(clear) + len(quiet) < len(names):
            return False
        return (clear | quiet if quiet else clear).issuperset(names)

    def _left_out(self, name: str) -> _Node | None:
        """What is known of it; it does not count as done."""
        node = self._nodes.get(name)
        if node is not None:
            for done in (self._clear, self._quiet):
                if (names := done.get(node.version)) is not None:
                    names.discard(name)
                    if not names:
                        del done[node.version]
        return node


class MoveReports:
    """The last that each node said; in memory only. A report costs the same with one node and with a thousand.

    What is left of a move may have no room where it should be. No node can say so by itself: a full one gets room when
    others take over what it does not own, and they may be full as well. Nothing moves any more when all that have
    something left have looked in vain since the last thing moved anywhere.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[bytes, MoveReport]] = {}
        self._swept: dict[str, object] = {}
        self._sets: dict[bytes, _DataSet] = {}  # of which some node tells

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def take(
        self,
        node_id: str,
        reports: Iterable[MoveReport],
        awaited: Container[bytes] = frozenset(),
        version: object = None,
    ) -> None:
        """`awaited`: of these, who tells of as many as can be told at once is taken to say as before what it does not
        say: it has told of them in turn. `version`: another one whenever `awaited` has become less."""
        told, its = {report.digest_id: report for report in reports}, self._of.get(node_id, {})
        stand = len(told) >= MAX_REPORTS
        if not stand or version is None or self._swept.get(node_id) != version:
            for digest_id in [one for one in its if one not in told and not (stand and one in awaited)]:
                del its[digest_id]
                self._forget(digest_id, node_id)
        for digest_id, report in told.items():
            was = its.get(digest_id)
            # Between two looks of a node it says the same again with each heartbeat, of up to 256 data sets.
            if was is None or not report.idle_looks or was != report:
                self._sets.setdefault(digest_id, _DataSet()).take(node_id, was, report)
        its.update(told)
        if its:
            self._of[node_id], self._swept[node_id] = its, version
        else:
            self._dropped(node_id)

    def gone(self, node_id: str) -> None:
        for digest_id in self._dropped(node_id):
            self._forget(digest_id, node_id)

    def _dropped(self, node_id: str) -> Iterable[bytes]:
        self._swept.pop(node_id, None)
        return self._of.pop(node_id, {})

    def moved(self, digest_id: bytes) -> int:
        """Another number when something of it has moved, on any node."""
        its = self._sets.get(digest_id)
        return its.moved if its else 0

    def settled(self, digest_id: bytes, node_ids: Collection[str], version: int) -> bool:
        """Whether all of these nodes have carried out the placement of that version, as far as there is room."""
        its = self._sets.get(digest_id)
        return bool(version) and (its.are_done(node_ids, version) if its else not node_ids)

    def of(self, digest_id: bytes) -> Iterator[NodeMoves]:
        its = self._sets.get(digest_id)
        for node_id in sorted(its.names) if its else ():
            yield NodeMoves(node_id=node_id, report=self._of[node_id][digest_id])

    def _forget(self, digest_id: bytes, node_id: str) -> None:
        if self._sets[digest_id].forget(node_id):
            del self._sets[digest_id]


def _amounts(report: MoveReport) -> tuple[int, int, int]:
    return report.places_version, report.came_bytes, report.gone_shards


def _is_not_over(before: MoveReport, report: MoveReport) -> bool:
    """Something has come or gone since, or been looked at anew; or may, for not all was tried."""
    return not report.idle_looks or _amounts(before) != _amounts(report) or report.idle_looks < before.idle_looks
