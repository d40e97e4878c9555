"""How fast data sets with names are prefetched, against plain readers of the same store; and what a refresh reads.

One coordinator with one node, and with three, and an emulated store with a byte rate that all share.

    python -m tests.bench.prefetch [--quick]

Bars: prefetch >= 0.95 of the rate at which eight threads read the same ranges just before and after; bytes that leave
the store <= 1.01 of the data set, for a scan, too; where a tenth of the files has changed <= 0.11. Times are of the
whole call, from asking until it is ready.
"""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support.named_place import Place, name
from tfquiver import stores
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.scanning import tfrecord
from tfquiver.stores.credentials.resolved import Access
from tfquiver.testing.emulated_store import EmulatedStore

FILES, RECORD_BYTES, RATE_BAR, ONCE_BAR, CHANGED_BAR = 20, 50_000, 0.95, 1.01, 0.11
FULL_BYTES, FULL_RATE, QUICK_BYTES, QUICK_RATE = 200_000_000, 10e6, 40_000_000, 8e6
THREADS, RANGE_BYTES = 8, 2 << 20  # as nodes warm
READY = pb.NamedDataset.STATE_READY


def put(store: EmulatedStore, number: int, records: int, rng: random.Random) -> int:
    """One file; its bytes."""
    data = b"".join(tfrecord.frame(rng.randbytes(RECORD_BYTES)) for _ in range(records))
    store.put("bucket", f"part-{number:03d}", data)
    return len(data)


def run(place: Place, method: str, request: Any, store: EmulatedStore) -> tuple[float, int]:
    """Seconds until it is ready, and the bytes of objects that left the store."""
    before, began = store.traffic(), time.perf_counter()
    place.call(method, request)
    seen = 0
    while True:
        named = place.call("Get", pb.GetNamedDatasetRequest(name="train", seen=seen, wait_ms=1000))
        if named.state == READY:
            return time.perf_counter() - began, (store.traffic() - before).payload_bytes
        assert named.state != pb.NamedDataset.STATE_FAILED, named.reason
        seen = named.seen


def plain(store: EmulatedStore) -> float:
    """Seconds in which as many threads as a node has read all of it, and do nothing else."""
    with contextlib.closing(stores.open_with(Access("gs", json.dumps({"endpoint": store.url})))) as opened:
        ranges = [
            (file.uri, at, min(RANGE_BYTES, file.size_bytes - at), file.generation)
            for file in opened.list("gs://bucket/part-*")
            for at in range(0, file.size_bytes, RANGE_BYTES)
        ]

        def read(one: tuple[str, int, int, str]) -> bytes:
            return opened.read(*one, 60.0)

        began = time.perf_counter()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(read, ranges))
        return time.perf_counter() - began


def main() -> None:
    parser = quick_parser(__doc__, "a smaller data set, less than 60 s")
    quick = parser.parse_args().quick
    wanted_bytes, rate = (QUICK_BYTES, QUICK_RATE) if quick else (FULL_BYTES, FULL_RATE)
    records, rng = wanted_bytes // FILES // RECORD_BYTES, random.Random(1)
    figures: dict[str, Any] = {"limit_bytes_per_s": rate}
    bars = []
    with EmulatedStore.start(rate) as store:
        store.make_bucket("bucket")
        size_bytes = sum(put(store, number, records, rng) for number in range(FILES))
        for nodes in (1, 3):
            with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
                place = Place(Path(base), nodes, {"STORAGE_EMULATOR_HOST": store.url}, "2GiB")
                try:
                    spec = pb.DatasetSpec(name="train", sources=["gs://bucket/part-*"])
                    steps = {"scan": run(place, "Create", spec, store)}
                    run(place, "Evict", name("train"), store)
                    before_s = plain(store)
                    steps["prefetch"] = run(place, "Prefetch", name("train"), store)
                    plain_s = (before_s + plain(store)) / 2
                    for number in range(FILES // 10):
                        put(store, number, records, rng)
                    changed = run(place, "Refresh", name("train"), store)[1] / size_bytes
                finally:
                    place.stop()
            for step, (seconds, left_bytes) in steps.items():
                share, times = plain_s / seconds, left_bytes / size_bytes
                figures[f"{step}_{nodes}"] = {"seconds": seconds, "plain_seconds": plain_s, "times": times}
                if step == "prefetch":
                    bars.append(Bar(f"{step}, {nodes} nodes, of plain reading", share, RATE_BAR))
                bars.append(Bar(f"{step}, {nodes} nodes, times each byte has left", times, ONCE_BAR, at_most=True))
            figures[f"changed_{nodes}"] = changed
            bars.append(Bar(f"refresh, {nodes} nodes, of the data set", changed, CHANGED_BAR, at_most=True))
    finish("prefetch", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
