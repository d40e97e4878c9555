"""How fast several jobs read a data set that nobody has read before, against one: the co-operative miss.

The jobs do nothing but read (no training step), through one node whose cache has room for a fifth of the data set; the
store's byte rate is what limits them. A job on its own gets that rate. N that load together, each a different part of
the same chunk, and read what the others load, get it each: N times in sum. Beside that, without a cache, they share it.

    python -m tests.bench.cold_jobs [--quick]

Bar: records/s of all jobs together >= 0.85 N x those of one, each in its first epoch.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment.cell import CYCLIC, NOT_CACHED, RELEVANCE, Way
from tests.bench.experiment.jobs import Jobs, JobSpec
from tests.bench.experiment.remote import Data, Remote
from tests.bench.experiment.world import World

SHARE, TOGETHER_BAR = 0.2, 0.85
SHARD_RECORDS, RECORD_BYTES, FILES, BATCH = 16, 4080, 8, 32
CHUNKS, SHARDS_A_CHUNK = {"relevance": 40, "cyclic": 10}, 10
SHARDS = CHUNKS["relevance"] * SHARDS_A_CHUNK
FULL_JOBS, QUICK_JOBS = (2, 4, 8), (4,)
FULL_EPOCH_S, QUICK_EPOCH_S = 12.0, 4.0


def cold_records_per_s(base: Path, remote: Remote, data: Data, way: Way, jobs: int) -> tuple[float, float, bool]:
    """Of all jobs together over their first epoch; data-set sizes from the store; whether all was read once."""
    specs = [JobSpec(f"job-{number}", 0.0, BATCH, epochs=1) for number in range(jobs)]
    with World(base, remote, 2 * data.disk_bytes) as world:
        chunks = CHUNKS.get(way.rotation, 0)
        world.set_cache(data, way.mode, SHARE if chunks else 0.0, way.rotation, chunks)
        before = remote.payload_bytes()
        runs = Jobs(specs, lambda spec: world.dataset(data, spec), data).start().join(600)
        loads = (remote.payload_bytes() - before) / data.size_bytes
    last_s = max(run.epochs[0].ended_s for run in runs)
    return jobs * data.records / last_s, loads, all(run.every_record_once for run in runs)


def main() -> None:
    parser = quick_parser(__doc__, "four jobs only, less than 60 s")
    quick = parser.parse_args().quick
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    shard_bytes = SHARD_RECORDS * (RECORD_BYTES + 16)
    bytes_per_s = SHARDS * shard_bytes / (QUICK_EPOCH_S if quick else FULL_EPOCH_S)
    figures, bars, checked = {}, [], []
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base,
        Remote.start(Path(base) / "remote", bytes_per_s) as remote,
    ):
        data = remote.add("records", FILES, SHARDS * SHARD_RECORDS // FILES, RECORD_BYTES, SHARD_RECORDS)
        print("| | jobs | records/s | x one job's | from the store |\n|---|--:|--:|--:|--:|", file=sys.stderr)
        for way in (RELEVANCE, CYCLIC, NOT_CACHED):
            one = 0.0
            for jobs in (1, *(QUICK_JOBS if quick else FULL_JOBS)):
                if way is NOT_CACHED and (quick or jobs > 4):  # nothing new, and slow
                    continue
                base_of_run = Path(base) / f"{way.name}-{jobs}"
                rate, loads, once = cold_records_per_s(base_of_run, remote, data, way, jobs)
                one = one or rate
                checked.append(once)
                print(f"| {way.name} | {jobs} | {rate:,.0f} | {rate / one:.2f} | {loads:.2f} |", file=sys.stderr)
                figures[f"{way.name}, {jobs}"] = {"records_per_s": round(rate), "times_one": round(rate / one, 3),
                                                  "loads": round(loads, 3)}  # fmt: skip
                if way is RELEVANCE and jobs > 1:
                    bars.append(Bar(f"{jobs} cold jobs / ({jobs} x one), relevance", rate / one / jobs, TOGETHER_BAR))
    bars.append(Bar("runs with every record exactly once", sum(checked), len(checked)))
    finish("cold_jobs", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
