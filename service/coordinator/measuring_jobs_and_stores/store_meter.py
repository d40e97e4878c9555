"""What the object store gives all nodes together, and how long a byte takes from it, by what nodes report. Pure.

Nodes say how much they have read since they were started, and how long that took; reports come late, twice, of
processes that are new, and some from liars. What is counted is bounded by the time that passed here.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median

from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_load import StoreLoad
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_outflow import StoreOutflow
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_reads import StoreReads

WINDOW_S, LONGEST_WINDOW_S = 10.0, 60.0  # it is closed when so much was read that it says something
LEAST_READS = 20
WINDOWS = 3  # of which the middle counts: one odd window is none
MOST_NODES = 10_000
_LATE_S = 5.0  # a report may have been so long under way
_SLOW_S = 30.0  # a read is given up after --fetch_deadline_s, and the next one begins with nothing


@dataclass(slots=True)
class _Node:
    incarnation: str
    last: StoreReads
    heard_at: float
    counted: StoreReads = field(default_factory=StoreReads)  # in this window
    slow: tuple[int, float] = (0, 0.0)  # so many ms its oldest read had been under way, of the last ones the most; when


@dataclass(frozen=True, slots=True)
class _Window:
    bytes_per_s: float
    s_per_byte: float
    request_s_per_byte: float


class StoreMeter:
    """`limit_bytes_per_s`: what a person says that the store gives; 0: nobody has said."""

    def __init__(self, clock: Clock, limit_bytes_per_s: float = 0.0) -> None:
        self.limit_bytes_per_s = limit_bytes_per_s
        self.bytes_per_s = 0.0  # for readers and orders, in the last window; pauses count
        self._clock, self._began_at = clock, clock.now()
        self._nodes: dict[str, _Node] = {}
        self._reads = 0  # in this window, of all nodes: of thousands it is not added up with each heartbeat
        self._windows: deque[_Window] = deque(maxlen=WINDOWS)
        self._outflow = StoreOutflow()

    def take(self, node_id: str, incarnation: str, told: pb2.StoreReads) -> None:
        """What a member's heartbeat brought; what cannot be is not counted, and what comes next is counted from it."""
        now = self._clock.now()
        reads = StoreReads.told(told)
        node = self._nodes.get(node_id)
        if node is None:
            if len(self._nodes) < MOST_NODES:
                self._nodes[node_id] = _Node(incarnation, reads, now, slow=(told.oldest_ms, now))
            return
        delta = reads.since(node.last)
        counted = node.counted.plus(delta)
        in_time = counted.elapsed_s <= now - self._began_at + _LATE_S
        if node.incarnation == incarnation and delta.can_be and in_time:
            node.counted = counted
            self._reads += delta.reads
            self._outflow.take(delta.all_bytes, now)
        node.incarnation, node.last, node.heard_at = incarnation, reads, now
        if told.oldest_ms >= node.slow[0] or node.slow[1] <= now - _SLOW_S:
            node.slow = told.oldest_ms, now
        self._close(now)

    def load(self) -> StoreLoad:
        self._close(self._clock.now())
        limit = self.limit_bytes_per_s
        spare_bytes_per_s = max(limit - self.bytes_per_s, 0.0) if limit else None
        if len(self._windows) < WINDOWS:
            return StoreLoad(spare_bytes_per_s=spare_bytes_per_s)
        return StoreLoad(
            median(one.s_per_byte for one in self._windows),
            spare_bytes_per_s,
            median(one.request_s_per_byte for one in self._windows),
        )

    def told(self) -> pb2.StoreInfo:
        """For people: rates are of all that leaves the store, scans included."""
        load, now = self.load(), self._clock.now()
        return pb2.StoreInfo(
            bytes_per_s=self._outflow.bytes_per_s(now),
            s_per_byte=load.s_per_byte or 0.0,
            request_s_per_byte=load.request_s_per_byte or 0.0,
            most_bytes_per_s=self._outflow.most_bytes_per_s(now),
            limit_bytes_per_s=self.limit_bytes_per_s,
            oldest_ms=max((one.slow[0] for one in self._nodes.values() if one.slow[1] > now - _SLOW_S), default=0),
        )

    def _close(self, now: float) -> None:
        """The window, if it is long enough."""
        age_s, nodes, reads = now - self._began_at, self._nodes, self._reads
        if age_s < WINDOW_S or (reads < LEAST_READS and age_s < LONGEST_WINDOW_S):
            return
        window = _window([node.counted for node in nodes.values()], age_s)
        self._began_at, self._reads = now, 0
        self.bytes_per_s = window.bytes_per_s if window else 0.0
        if window and reads >= LEAST_READS:
            self._windows.append(window)
        else:
            self._windows.clear()  # nobody reads there
        self._nodes = {key: node for key, node in nodes.items() if node.heard_at > now - LONGEST_WINDOW_S}
        for node in self._nodes.values():
            node.counted = StoreReads()


def _window(counted: list[StoreReads], age_s: float) -> _Window | None:
    """Of all nodes together; None: nothing came. That nodes read at the same time is known of none of them: as much of
    it is taken as there is where they read whenever they like."""
    bytes_per_s = at_once = 0.0
    idle_share = 1.0
    for one in counted:
        span_s = max(one.elapsed_s, age_s / 2)  # of one that has come a moment ago a short time says too much
        bytes_per_s += one.size_bytes / span_s
        at_once += one.request_s / span_s
        idle_share *= 1 - min(one.busy_s / span_s, 1.0)
    if not bytes_per_s or not at_once or not math.isfinite(bytes_per_s):
        return None
    return _Window(bytes_per_s, (1 - idle_share) / bytes_per_s, at_once / bytes_per_s)
