"""The way of a shard through a node, as spans: asked for, got, with the op, acknowledged.

    shard                 the call that leased it ─────────────────────► its last record was emitted
      lease               the call
      fetch                    from hot set, disk, peer or store; sent to the op
      emit                           in the op's pool, until the acknowledgement

Every method is called on the node's loop, and only notes times: a span is made when its shard's way has ended.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_MOST_OF_A_READER = 1024  # under way; more are not traced


@dataclass(slots=True)
class _Way:
    asked_ns: int
    leased_ns: int
    sent_ns: int = 0
    source: str = ""
    length_bytes: int = 0


class ShardSpans:
    """A node's. `share` of the shards are traced, drawn when they are leased."""

    def __init__(
        self,
        tracer: Tracer,
        share: float,
        clock_ns: Callable[[], int] = time.time_ns,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._tracer, self.share, self.clock_ns, self.chance = tracer, share, clock_ns, chance

    def reader(self, job: str, name: Callable[[int], str]) -> ReaderSpans:
        """`name`: of a shard, for people."""
        return ReaderSpans(self, job, name)

    def end(self, names: Mapping[str, str], way: _Way, outcome: str) -> None:
        from opentelemetry import trace

        ended_ns = self.clock_ns()
        about: dict[str, str | int] = {**names, "tfquiver.outcome": outcome}
        if way.sent_ns:
            about |= {"tfquiver.source": way.source, "tfquiver.bytes": way.length_bytes}
        root = self._tracer.start_span("shard", start_time=way.asked_ns, attributes=about)
        within = trace.set_span_in_context(root)
        parts = [("lease", way.asked_ns, way.leased_ns), ("fetch", way.leased_ns, way.sent_ns or ended_ns)]
        if way.sent_ns:
            parts.append(("emit", way.sent_ns, ended_ns))
        for what, began, over in parts:
            self._tracer.start_span(what, within, start_time=began).end(over)
        root.end(ended_ns)


class ReaderSpans:
    """One reader's."""

    def __init__(self, spans: ShardSpans, job: str, name: Callable[[int], str]) -> None:
        self._spans, self._job, self._name = spans, job, name
        self._ways: dict[int, _Way] = {}

    def now_ns(self) -> int:
        return self._spans.clock_ns()

    def leased(self, shards: Iterable[int], asked_ns: int) -> None:
        now_ns = self.now_ns()
        for shard in shards:
            if len(self._ways) < _MOST_OF_A_READER and self._spans.chance() < self._spans.share:
                self._ways[shard] = _Way(asked_ns, now_ns)

    def sent(self, shard: int, source: str, length_bytes: int) -> None:
        if way := self._ways.get(shard):
            way.sent_ns, way.source, way.length_bytes = self.now_ns(), source, length_bytes

    def acked(self, shards: Iterable[int]) -> None:
        self._end(shards, "acknowledged")

    def gone(self, complete: bool) -> None:
        """The reader is: all that it had is done (`complete`), or goes to others."""
        self._end(list(self._ways), "acknowledged" if complete else "given back")

    def _end(self, shards: Iterable[int], outcome: str) -> None:
        for shard in shards:
            if way := self._ways.pop(shard, None):
                self._spans.end({"tfquiver.job": self._job, "tfquiver.shard": self._name(shard)}, way, outcome)
