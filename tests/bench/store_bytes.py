"""How many bytes leave the store when several jobs read one data set that fits in the cache.

Four jobs (processes) start at the same moment on an empty cache directory, and read a data set of random bytes for
three epochs, in embedded mode: no digest has been built, no daemon runs. The store is the GCS emulator behind a byte
rate. Counted are the bytes of object reads (payload) and, separately, headers, listings and metadata.

Bar: payload bytes / data-set bytes <= 1.02, the first scan included. Every job must see every record once an epoch.

    python -m tests.bench.store_bytes [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.bench.bars import Bar, finish, run_bench
from tests.support.records import stream
from tfquiver.testing.emulated_store import EmulatedStore

JOBS, EPOCHS, FILES, RECORD_BYTES = 4, 3, 16, 4096
FULL_BYTES, QUICK_BYTES = 96 << 20, 16 << 20
STORE_BYTES_PER_S = 16 << 20
DEADLINE_S = 600.0


def job(cache_dir: str, source: str, name: str) -> None:
    """One job; prints the records of each epoch, and how many different ones."""
    import tfquiver

    epochs = []
    started = time.monotonic()
    data = tfquiver.dataset(source, cache_dir=cache_dir, quota="1GiB", batch_size=64, job=name)
    for _ in range(EPOCHS):
        ids = [record[:8] for batch in data.as_numpy_iterator() for record in batch]
        epochs.append([len(ids), len(set(ids))])
    print(json.dumps({"epochs": epochs, "wall_s": time.monotonic() - started}))


def fill(store: EmulatedStore, size_bytes: int) -> tuple[int, int]:
    """Records and bytes that were put into the store."""
    store.make_bucket("bench")
    per_file = size_bytes // FILES // RECORD_BYTES
    stored_bytes = 0
    for file in range(FILES):
        ids = range(file * per_file, (file + 1) * per_file)
        data = stream(at.to_bytes(8, "big") + os.urandom(RECORD_BYTES - 8) for at in ids)
        store.put("bench", f"train-{file:05}-of-{FILES:05}", data)
        stored_bytes += len(data)
    return per_file * FILES, stored_bytes


def run_jobs(cache_dir: Path, store: EmulatedStore) -> list[dict[str, Any]]:
    env = {
        **os.environ,
        "STORAGE_EMULATOR_HOST": store.url,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    jobs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.store_bytes", f"--job=job-{n}", f"--cache_dir={cache_dir}"],
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        for n in range(JOBS)
    ]
    try:
        said = [process.communicate(timeout=DEADLINE_S)[0] for process in jobs]
    finally:
        for process in jobs:
            process.kill()
            process.wait()
        stop_daemon(cache_dir)
    if any(process.returncode for process in jobs):
        raise RuntimeError("a job failed: see its messages above")
    return [json.loads(text) for text in said]


def stop_daemon(cache_dir: Path) -> None:
    with suppress(FileNotFoundError, psutil.NoSuchProcess):
        daemon = psutil.Process(json.loads((cache_dir / "node.json").read_text())["pid"])
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_BYTES >> 20} MiB instead of {FULL_BYTES >> 20}")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--cache_dir", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        job(arguments.cache_dir, "gs://bench/train-*", arguments.job)
        return
    with EmulatedStore.start(STORE_BYTES_PER_S) as store, tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        records, dataset_bytes = fill(store, QUICK_BYTES if arguments.quick else FULL_BYTES)
        before = store.traffic()
        started = time.monotonic()
        jobs = run_jobs(Path(base) / "cache", store)
        wall_s = time.monotonic() - started
        traffic = store.traffic() - before
    epochs = [tuple(epoch) for one in jobs for epoch in one["epochs"]]
    figures = {
        "jobs": JOBS,
        "epochs": EPOCHS,
        "records": records,
        "dataset_bytes": dataset_bytes,
        "payload_bytes": traffic.payload_bytes,
        "header_bytes": traffic.header_bytes,
        "other_body_bytes": traffic.other_body_bytes,
        "requests": traffic.requests,
        "store_bytes_per_s": STORE_BYTES_PER_S,
        "wall_s": round(wall_s, 2),
        "job_wall_s": [round(one["wall_s"], 2) for one in jobs],
    }
    bars = [
        Bar("payload bytes / data-set bytes", traffic.payload_bytes / dataset_bytes, 1.02, at_most=True),
        Bar("all bytes / data-set bytes", traffic.total_bytes / dataset_bytes, 1.02, at_most=True),
        Bar("epochs with every record exactly once", epochs.count((records, records)), JOBS * EPOCHS),
    ]
    finish("store_bytes", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
