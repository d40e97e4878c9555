"""How much is cached of data sets that the coordinator does not follow, as nobody has read them since its start."""

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
_STANDS_S = 30.0  # what was found is shown for so long: who watches looks every two seconds


class Unfollowed:
    """Of one cluster. Some are looked at; of more than that nothing is known."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, int | None]] = {}  # by digest id: when, and how many bytes

    def known(self, channel: Any, datasets: Sequence[dict[str, Any]], token: str, whom: str) -> list[dict[str, Any]]:
        """`datasets`, those that are not followed with `resident_bytes`, where that is known. Raises nothing."""
        now = time.monotonic()
        self._found = {one: its for one, its in self._found.items() if now < its[0] + _STANDS_S}
        unknown = [one for one in datasets if "resident_bytes" not in one and one["digest_id"] not in self._found]
        if unknown:
            self._found |= {one["digest_id"]: (now, None) for one in unknown}
            with contextlib.suppress(errors.TfquiverError):
                self._look(coordinator_pb2_grpc.CoordinatorStub(channel), unknown, now, token, whom)
        return [self._with(one, now) for one in datasets]

    def _look(self, stub: Any, unknown: Sequence[dict[str, Any]], now: float, token: str, whom: str) -> None:
        request, left = coordinator_pb2.ListDatasetsRequest(), _MOST_SHARDS
        for one in unknown[:_MOST]:
            left -= one["shards"]
            if left < 0:
                break
            request.looked_at.append(bytes.fromhex(one["digest_id"]))
        if request.looked_at:
            for found in calls.ask(stub.ListDatasets, request, token, whom).datasets:
                if found.HasField("resident_bytes"):
                    self._found[found.digest_id.hex()] = (now, found.resident_bytes)

    def _with(self, one: dict[str, Any], now: float) -> dict[str, Any]:
        at, resident_bytes = self._found.get(one["digest_id"], (now, None))
        if "resident_bytes" in one or resident_bytes is None:
            return one
        return one | {"resident_bytes": resident_bytes, "resident_age_ms": round(1000 * (now - at))}
