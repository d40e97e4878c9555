"""What mounts show, as their nodes tell: they read without a session. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.sizes_durations_amounts.amounts import many

MAX_MOUNTS = 256  # data sets of one report
# A node that was started again hears of its mounts a moment later, and one that is lost for a while may come back.
KEPT_S = 60.0
_MOST_STAND = 4096  # of a node that tells of them in turn
MOST_KEPT = 1 << 16  # data sets; those that were told longest ago go first


class Mounts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of_nodes: dict[str, dict[bytes, tuple[int, float]]] = {}  # how many, and when it was told
        self._away: dict[str, tuple[float, dict[bytes, int]]] = {}  # what nodes told that have gone, and when they went
        self._told_at: dict[bytes, float] = {}  # by when that was, as the one below
        self._read_at: dict[bytes, float] = {}

    def take(self, node_id: str, reports: Iterable[pb2.MountReport]) -> None:
        """All that mounts of that node show now; or some, in turn, where that is more than can be told at once."""
        now, shown, count = self._clock.now(), dict[bytes, tuple[int, float]](), 0
        _, away = self._away.get(node_id, (0.0, dict[bytes, int]()))
        for report in reports:
            shown[report.digest_id] = report.mounts, now
            count += 1
            away.pop(report.digest_id, None)  # it has come back, as many of it as there are now
            _put(self._told_at, report.digest_id, now)
            if report.HasField("idle_ms"):
                read_at = now - report.idle_ms / 1000
                _put(self._read_at, report.digest_id, max(read_at, self._read_at.get(report.digest_id, read_at)))
        if count >= MAX_MOUNTS:
            before = self._of_nodes.get(node_id, {})
            stand = [(one, its) for one, its in before.items() if its[1] > now - KEPT_S and one not in shown]
            shown = dict(stand[-_MOST_STAND:]) | shown
        if shown:
            self._of_nodes[node_id] = shown
        else:
            self._of_nodes.pop(node_id, None)

    def gone(self, node_id: str) -> None:
        """That node, or its process. Its mounts stay, and wait for another one."""
        self._forget_away()
        if shown := self._of_nodes.pop(node_id, None):
            _, before = self._away.get(node_id, (0.0, dict[bytes, int]()))
            self._away[node_id] = self._clock.now(), before | {one: mounts for one, (mounts, _) in shown.items()}

    def shown(self) -> list[bytes]:
        """Digest ids of what is mounted somewhere, or was until just now."""
        since = self._clock.now() - KEPT_S
        self._told_at = {digest_id: at for digest_id, at in self._told_at.items() if at > since}
        self._read_at = {digest_id: at for digest_id, at in self._read_at.items() if at > since}
        return list(self._told_at)

    def is_read(self, digest_id: bytes) -> bool:
        """Whether somebody has read it through a mount until just now."""
        return self._read_at.get(digest_id, float("-inf")) > self._clock.now() - KEPT_S

    def said(self, digest_ids: Sequence[bytes], called: str) -> str:
        """How many read one of these now, as a sentence about the data set that is called so; "": none. Trainers that
        compute shards of a derived data set ask for those that it is made of as mounts do."""
        self._forget_away()
        count = sum(shown.get(one, (0, 0.0))[0] for shown in self._of_nodes.values() for one in digest_ids)
        count += sum(away.get(one, 0) for _, away in self._away.values() for one in digest_ids)
        if not count:
            return ""
        who = "mount, or trainer that materializes it, reads", "mounts, or trainers that materialize it, read"
        return f"{many(count, *who)} {called}"

    def _forget_away(self) -> None:
        since = self._clock.now() - KEPT_S
        self._away = {node_id: (at, away) for node_id, (at, away) in self._away.items() if at > since and away}


def _put(times: dict[bytes, float], digest_id: bytes, at: float) -> None:
    times.pop(digest_id, None)
    times[digest_id] = at
    if len(times) > MOST_KEPT:
        del times[next(iter(times))]
