"""Nobody sets anything: two data sets, together twice the cache, six jobs; the default policy and people's settings.

Jobs with slept steps, three a data set, read again and again through one node from a slow store. In each scenario those
of one data set are four times as fast as those of the other: with the smaller data set the faster ones, and the
other way round, where what looks best before anything is measured is wrong. Each setting that somebody could have
typed runs with `--policy=off`; then the policies run, with nothing set. Counted are the records of all jobs together
once caches are full; with a policy later, when it has measured what it wants to know and has seen it again: it plans
every ten seconds, and moves data that is read only after four plannings in a row have found that it pays.

    python -m tests.bench.nobody_sets [--quick] [--only TEXT]

Bars: the default policy's throughput is at least 0.95 of the best hand-made setting's, and above those of `lru` and
`static`, in each scenario; every job sees every record once an epoch, in every run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment.jobs import Jobs, JobSpec
from tests.bench.experiment.remote import Data, Remote
from tests.bench.experiment.world import World
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.policies.registry import DEFAULT

STORE_BYTES_PER_S = 2.4e6
RECORD_BYTES, SHARD_RECORDS, BATCH, FILES = 4080, 16, 32, 4
FAST_BYTES_PER_S, SLOW_BYTES_PER_S = 5e6, 1.25e6  # of a job that never waits
PACES = (1.0, 0.95, 0.9)  # of a data set's jobs: they are not in step
SHARE_BAR = 0.95
OTHERS = ("lru", "static")


@dataclass(frozen=True)
class Given:
    """How one data set is cached; `share` is of the cache."""

    mode: str
    share: float = 0.0


NOTHING = Given("none")


@dataclass(frozen=True)
class Hand:
    """A setting that somebody could type: of the smaller data set, and of the larger."""

    name: str
    small: Given
    large: Given


@dataclass(frozen=True)
class Scenario:
    name: str
    small_bytes_per_s: float
    large_bytes_per_s: float


SCENARIOS = (
    Scenario("the smaller is read faster", FAST_BYTES_PER_S, SLOW_BYTES_PER_S),
    Scenario("the larger is read faster", SLOW_BYTES_PER_S, FAST_BYTES_PER_S),
)


@dataclass(frozen=True)
class Scale:
    warm_up_s: float
    default_warm_up_s: float
    others_warm_up_s: float  # they go by what was measured, too, but nothing has to pay
    counted_s: float
    shards: tuple[int, int]  # of the smaller and the larger: the cache holds half of both, more than the smaller
    hands: int | None = None  # that are tried; None: all
    scenarios: int | None = None


FULL, QUICK = Scale(20.0, 80.0, 40.0, 12.0, (320, 480)), Scale(6.0, 6.0, 6.0, 3.0, (80, 120), hands=1, scenarios=1)


def hands(data: Sequence[Data], cache_bytes: int) -> list[Hand]:
    whole = data[0].disk_bytes / cache_bytes
    rest, least = 1 - whole, 0.07
    return [
        Hand("smaller whole, rest rotates", Given("uniform", whole), Given("cooperative", rest)),
        Hand("smaller whole, rest kept", Given("uniform", whole), Given("uniform", rest)),
        Hand(
            "smaller rotates in little, larger in the rest",
            Given("cooperative", least),
            Given("cooperative", 1 - least),
        ),
        Hand("both rotate in halves", Given("cooperative", 0.5), Given("cooperative", 0.5)),
        Hand("halves are kept", Given("uniform", 0.5), Given("uniform", 0.5)),
        Hand("larger rotates in all", NOTHING, Given("cooperative", 1.0)),
    ]


@dataclass(frozen=True)
class Outcome:
    records_per_s: float
    store_bytes_per_s: float
    every_record_once: bool
    ended: str  # how the data sets are cached at the end

    def as_json(self) -> dict[str, Any]:
        return {
            "records_per_s": round(self.records_per_s),
            "store_bytes_per_s": round(self.store_bytes_per_s),
            "every_record_once": self.every_record_once,
            "cached": self.ended,
        }


def run(
    remote: Remote, data: Sequence[Data], scenario: Scenario, policy: str, hand: Hand | None, scale: Scale
) -> Outcome:
    """`hand`: None: nobody sets anything."""
    cache_bytes = sum(one.disk_bytes for one in data) // 2
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-nobody-", dir=remote.base) as base,
        World(Path(base), remote, cache_bytes, flags={"coordinator": [f"--policy={policy}"]}) as world,
    ):
        for one, given in zip(data, (hand.small, hand.large) if hand else (None, None), strict=True):
            if given is None:
                world.register(one)
            else:
                world.set_cache(one, given.mode, given.share * cache_bytes / one.disk_bytes)
        rates = scenario.small_bytes_per_s, scenario.large_bytes_per_s
        both = [
            Jobs(_specs(one, bytes_per_s), partial(world.dataset, one), one)
            for one, bytes_per_s in zip(data, rates, strict=True)
        ]
        for jobs in both:
            jobs.start()
        time.sleep(
            scale.warm_up_s if hand else scale.default_warm_up_s if policy == DEFAULT else scale.others_warm_up_s
        )
        began, records, store_bytes = time.monotonic(), _records(both), remote.payload_bytes()
        time.sleep(scale.counted_s)
        counted_s = time.monotonic() - began
        records, store_bytes = _records(both) - records, remote.payload_bytes() - store_bytes
        for jobs in both:
            jobs.stop()
        runs = [run for jobs in both for run in jobs.join(30.0)]
        ended = "; ".join(_shown(world.cached(one), one) for one in data)
    return Outcome(records / counted_s, store_bytes / counted_s, all(run.every_record_once for run in runs), ended)


def _shown(setting: types_pb2.CacheSetting, data: Data) -> str:
    mode = types_pb2.CacheMode.Name(setting.mode).removeprefix("CACHE_MODE_").lower()
    share = setting.allocation_bytes / data.disk_bytes
    return f"{data.name} {mode} {share:.0%}"


def _specs(data: Data, bytes_per_s: float) -> list[JobSpec]:
    step_s = BATCH * data.size_bytes / data.records / bytes_per_s
    return [JobSpec(f"{data.name}-{number}", step_s / pace, BATCH, 1 << 30) for number, pace in enumerate(PACES)]


def _records(both: Sequence[Jobs]) -> int:
    return sum(run.records for jobs in both for run in jobs.runs)


Results = dict[str, dict[str, Outcome]]  # by scenario, and by setting or policy


def measure(base: Path, scale: Scale, only: str) -> Results:
    results: Results = {}
    with Remote.start(base, STORE_BYTES_PER_S) as remote:
        # Names of different lengths: the noise is another for each.
        data = [
            remote.add(name, FILES, shards * SHARD_RECORDS // FILES, RECORD_BYTES, SHARD_RECORDS)
            for name, shards in zip(("small", "larger"), scale.shards, strict=True)
        ]
        by_hand = hands(data, sum(one.disk_bytes for one in data) // 2)[: scale.hands]
        ways: list[tuple[str, str, Hand | None]] = [(hand.name, "off", hand) for hand in by_hand]
        ways += [(policy, policy, None) for policy in (DEFAULT, *OTHERS)]
        for scenario in SCENARIOS[: scale.scenarios]:
            results[scenario.name] = {}
            for name, policy, hand in ways:
                if only in f"{scenario.name}: {name}":
                    outcome = run(remote, data, scenario, policy, hand, scale)
                    say(f"{scenario.name}: {name}: {outcome.as_json()}")
                    results[scenario.name][name] = outcome
    return results


def bars(results: Results) -> list[Bar]:
    made = []
    for scenario, outcomes in results.items():
        ours = outcomes[DEFAULT].records_per_s
        by_hand = {name: one.records_per_s for name, one in outcomes.items() if name not in (DEFAULT, *OTHERS)}
        best = max(by_hand, key=lambda name: by_hand[name])
        made.append(Bar(f"{scenario}: {DEFAULT} / the best by hand ({best})", ours / by_hand[best], SHARE_BAR))
        made += [Bar(f"{scenario}: {DEFAULT} / {other}", ours / outcomes[other].records_per_s, 1.0) for other in OTHERS]
    all_outcomes = [one for outcomes in results.values() for one in outcomes.values()]
    checked = sum(one.every_record_once for one in all_outcomes)
    return [*made, Bar("runs with every record exactly once an epoch", checked, len(all_outcomes))]


def table(results: Results) -> None:
    say("\n| | set by | records/s of all | from the store, MB/s | cached in the end |\n|---|---|--:|--:|---|")
    for scenario, outcomes in results.items():
        for name, one in outcomes.items():
            rate = f"{one.records_per_s:,.0f} | {one.store_bytes_per_s / 1e6:.2f}"
            say(f"| {scenario} | {name} | {rate} | {one.ended} |")
    say("")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = quick_parser(__doc__, "four short runs, less than 60 s: before anything moves")
    parser.add_argument("--only", default="", metavar="TEXT", help="only runs with this in their name; no bars")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        results = measure(Path(base), QUICK if arguments.quick else FULL, arguments.only)
    table(results)
    if arguments.only:
        return
    figures = {name: {way: one.as_json() for way, one in its.items()} for name, its in results.items()}
    finish("nobody_sets", figures, bars(results), arguments.quick)


if __name__ == "__main__":
    run_bench(main)
