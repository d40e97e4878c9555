"""The store slows down: who did not wait for it waits, is probed again, and becomes worth caching; and is.

Two jobs with slept steps, one that never waits and one (`balanced`) that waits for a third of its time once the store
gives no more than `SLOW_BYTES_PER_S`; its data set is four times as large. One node with room for the smaller data
set, that is its own coordinator, by the default policy; nobody sets anything. First the store gives ten times as much:
nobody waits, and the smaller data set has the cache. When both jobs have been probed its rate is cut.

    python -m tests.bench.probing_slower [--quick]

A job of which nothing is cached is told what it would do with a cache five minutes after it was measured without one
(`ProbeLimits.phase_s`), once with each store: it takes a quarter of an hour. --quick begins with the slower store, and
ends when it is measured.

Bars: the slower store is measured within 10 %, and within a minute; the balanced job's benefit is measured to be higher
than before; its data set has the cache; every job sees every record once an epoch.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment.jobs import Jobs
from tests.bench.experiment.remote import Data, Remote
from tests.bench.experiment.world import Embedded
from tests.bench.probing import (
    BALANCED,
    COMPUTE_BOUND,
    FILES,
    RECORD_BYTES,
    SHARD_RECORDS,
    WITHIN,
    Kind,
    say,
    specs,
    wait_for,
)
from tfquiver.cli.status_asked_watched_explained import status

FAST_BYTES_PER_S, SLOW_BYTES_PER_S = 1e7, 1e6
SHARDS = {COMPUTE_BOUND: 832, BALANCED: 3328}
SEEN_S, PROBED_S, DECIDED_S = 60.0, 600.0, 240.0


class Slower:
    def __init__(self, node: Embedded, data: dict[Kind, Data]) -> None:
        self._node, self._data = node, data

    def s_per_byte(self) -> float:
        return float(status.collect(self._node.coordinator)["store"]["s_per_byte"])

    def probe(self, kind: Kind) -> dict[str, Any] | None:
        told = self._node.explain(kind.name)["probes"].get(kind.name)
        return told if told and "benefit" in told else None

    def probed_since(self, kind: Kind, at_s: float) -> bool:
        found = self.probe(kind)
        return found is not None and found["at_s"] > at_s

    def cached_share(self, kind: Kind) -> float:
        return self._node.cached(self._data[kind]).allocation_bytes / self._data[kind].disk_bytes


def error(s_per_byte: float) -> float:
    return s_per_byte * SLOW_BYTES_PER_S - 1


def run(base: Path, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    with ExitStack() as stack:
        first_bytes_per_s = SLOW_BYTES_PER_S if quick else FAST_BYTES_PER_S
        remote = stack.enter_context(Remote.start(base / "stores", first_bytes_per_s))
        data = {
            kind: remote.add(kind.name, FILES, shards * SHARD_RECORDS // FILES, RECORD_BYTES, SHARD_RECORDS)
            for kind, shards in SHARDS.items()
        }
        node = stack.enter_context(Embedded(base, remote, round(1.05 * data[COMPUTE_BOUND].disk_bytes)))
        jobs = []
        stack.enter_context(remote.used())  # until the end: how to reach the store is told again while jobs read
        for kind, its in data.items():
            node.register(its)
            jobs.append(Jobs([specs(kind, its)], partial(node.dataset, its), its))
            jobs[-1].start()
        seen = Slower(node, data)
        wait_for(lambda: seen.s_per_byte() > 0, SEEN_S)
        if not quick:
            for kind in data:
                say(f"{kind.name}: probed after {wait_for(lambda kind=kind: seen.probe(kind), PROBED_S)} s")
        before, first_at_s, first = seen.s_per_byte(), time.time(), seen.probe(BALANCED)
        shares = {kind.name: seen.cached_share(kind) for kind in data}
        after, seen_s = before, 0.0
        again_s = decided_s = second = None
        if not quick:
            remote.store.change_rate(SLOW_BYTES_PER_S)
            seen_s = wait_for(lambda: abs(error(seen.s_per_byte())) <= WITHIN, 2 * SEEN_S) or float("inf")
            after = seen.s_per_byte()
            again_s = wait_for(lambda: seen.probed_since(BALANCED, first_at_s), PROBED_S)
            second = seen.probe(BALANCED)
            room = 0.9 * data[COMPUTE_BOUND].disk_bytes / data[BALANCED].disk_bytes
            decided_s = wait_for(lambda: seen.cached_share(BALANCED) > room, DECIDED_S)
        for one in jobs:
            one.stop()
        once = [run.every_record_once for one in jobs for run in one.join(30.0)]
    figures = {
        "s_per_byte": before, "then": after, "seen_after_s": seen_s, "cached_before": shares,
        "first": first, "second": second,
        "probed_again_after_s": again_s, "decided_after_s": decided_s,
    }  # fmt: skip
    bars = [Bar("error of what a byte of the slower store takes, a share", abs(error(after)), WITHIN, True)]
    if not quick:
        bars.append(Bar("the slower store is seen, s", seen_s, SEEN_S, True))
        was, now = (one["benefit"]["value"] if one else float("nan") for one in (first, second))
        bars += [
            Bar("the smaller data set had the cache, a share of it", shares[COMPUTE_BOUND.name], 0.9),
            Bar("the balanced job's benefit with the slower store to that before", now / was, 1.2),
            Bar("the balanced job's data set has the cache then", int(decided_s is not None), 1),
        ]
    return figures, [*bars, Bar("jobs with every record exactly once an epoch", sum(once), len(once))]


def main() -> None:
    parser = quick_parser(__doc__, "only that the slower store is measured, less than 60 s")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as name:
        figures, bars = run(Path(name), arguments.quick)
    finish("probing_slower", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
