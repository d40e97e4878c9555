"""How much is cached of data sets that the coordinator does not follow, as nobody has read them since its start, or
not for a while: others may have taken the room of what was there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc

# It takes the coordinator a look at each shard: a second for millions.
_MOST, _MOST_SHARDS = 32, 1 << 20
_STANDS_S = 30.0  # before it is looked at again: who watches looks every two seconds
_SHOWN_S = 600.0  # what was found, with its age: of many the others have their turn meanwhile


class Unfollowed:
    """Of one cluster. Some are looked at, then others, in turn; also where each look is that of another process."""

    def __init__(self) -> None:
        # By digest id: when, and what: bytes, how many more that nobody reaches, and shards.
        self._found: dict[str, tuple[float, dict[str, int]]] = {}
        self._tried: dict[str, float] = {}  # when each was left out, or looked at
        self._looked_at: dict[str, float] = {}
        self._unreached = list[str]()

    def known(
        self, channel: Any, datasets: Sequence[dict[str, Any]], token: str, whom: str, unreached: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """`datasets`, those that are not followed with `resident_bytes`, where that is known. Raises nothing.

        Args:
          unreached: ids of nodes of which what they hold does not count.
        """
        now = time.monotonic()
        if self._unreached != sorted(unreached):  # then all are looked at again
            self._unreached, self._found, self._tried = sorted(unreached), {}, {}
        unfollowed = [one for one in datasets if "resident_bytes" not in one or one.get("resident_age_ms")]
        self._forget(unfollowed, now)
        due = [one for one in unfollowed if one["digest_id"] not in self._tried]
        if due:
            self._tried |= {one["digest_id"]: now for one in due}
            with contextlib.suppress(errors.TfquiverError):
                self._look(coordinator_pb2_grpc.CoordinatorStub(channel), self._in_turn(due), now, token, whom)
        return [self._with(one, now) for one in datasets]

    def _forget(self, unfollowed: Sequence[dict[str, Any]], now: float) -> None:
        there = {one["digest_id"] for one in unfollowed}
        self._found = {one: its for one, its in self._found.items() if now < its[0] + _SHOWN_S}
        self._tried = {one: at for one, at in self._tried.items() if now < at + _STANDS_S}
        self._looked_at = {one: at for one, at in self._looked_at.items() if one in there}

    def _in_turn(self, due: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that have waited for longest first; of those that were never looked at, others at another time."""
        begin = int(time.time() // _STANDS_S) * _MOST % len(due) if len(due) > _MOST else 0
        turned = [*due[begin:], *due[:begin]]
        return sorted(turned, key=lambda one: self._looked_at.get(one["digest_id"], float("-inf")))

    def _look(self, stub: Any, due: Sequence[dict[str, Any]], now: float, token: str, whom: str) -> None:
        request, left = coordinator_pb2.ListDatasetsRequest(unreached=self._unreached), _MOST_SHARDS
        for one in due:
            if len(request.looked_at) == _MOST:
                break
            if one["shards"] <= left:  # of what is too large by itself nothing is known, but of all that come after it
                left -= one["shards"]
                self._looked_at[one["digest_id"]] = now
                request.looked_at.append(bytes.fromhex(one["digest_id"]))
        if request.looked_at:
            for found in calls.ask(stub.ListDatasets, request, token, whom).datasets:
                if found.HasField("resident_bytes"):  # an older coordinator says again what it remembers
                    at = now - found.resident_age_ms / 1000
                    fields = ("resident_bytes", "unreached_bytes", "resident_shards")
                    self._found[found.digest_id.hex()] = at, {field: getattr(found, field) for field in fields}

    def _with(self, one: dict[str, Any], now: float) -> dict[str, Any]:
        if one["digest_id"] not in self._found:
            return one
        at, found = self._found[one["digest_id"]]
        age_ms = round(1000 * (now - at))
        if "resident_bytes" in one and one.get("resident_age_ms", 0) <= age_ms:
            return one
        return one | found | {"resident_age_ms": age_ms}
