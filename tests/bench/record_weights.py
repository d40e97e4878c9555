"""What records by weight cost the coordinator: memory and CPU of drawing an epoch, and what the ranks of a job send.

* `without`: an epoch of all records that have a weight, without replacement, where most have none: memory beside the
  weights, as a multiple of theirs;
* `draws`: an epoch by weight of many shards, with replacement, in CPU seconds, beside drawing as many in their order;
* `ranks`: so many processes give a coordinator the same weights at once: bytes that it reads, beside one's.

    python -m tests.bench.record_weights [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.bars import Bar, finish, run_bench
from tests.support.digests import numbered_digest
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats.record_weights import HEADER_BYTES, record_weights
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.weight_files import WeightFiles
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.weighted import Weighted
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.drawing import drawn
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Population

SHARD_RECORDS, RANKS, PART_BYTES = 6, 32, 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    shards = 200_000 if quick else 5_000_000
    rng = np.random.default_rng(1)
    mixed = (np.sqrt(rng.random(shards * SHARD_RECORDS, np.float32)) + np.float32(0.3)).astype(np.float32)
    few = np.where(np.arange(len(mixed)) % 10, np.float32(0), mixed)
    share = np.count_nonzero(few) / len(few)
    without, without_cpu_s = measured(few, lambda of: drawn("w", all_of(share), of, 3, 0))
    by_weight, by_weight_cpu_s = measured(mixed, lambda of: drawn("w", Weighted(records=""), of, 3, 0))
    in_order_s = cpu_s(lambda: Chance(3, 0).weighted(population(mixed).largest_weights, shards, any_order=False))
    sorted_s = cpu_s(lambda: Chance(3, 0).weighted(population(mixed).largest_weights, shards, any_order=True))
    sent = asyncio.run(ranks(2_000 if quick else 20_000))
    figures = {
        "records": len(mixed), "shards": shards, "without_cpu_s": without_cpu_s, "by_weight_cpu_s": by_weight_cpu_s,
        "without_memory": without, "by_weight_memory": by_weight, "in_order_cpu_s": in_order_s,
        "sorted_cpu_s": sorted_s,
        "ranks": RANKS, "ranks_bytes": sent,
    }  # fmt: skip
    bars = [
        # A fixed 45 MiB of what is computed at once are nine times the weights of --quick.
        Bar("memory without replacement, x weights", without, 12.0 if quick else 2.0, at_most=True),
        Bar("bytes that the coordinator reads of all ranks, x one's", sent, 1.1, at_most=True),
        Bar("seconds of the 8 that an epoch may take", max(without_cpu_s, by_weight_cpu_s), 8.0, at_most=True),
    ]
    if not quick:
        bars.append(
            Bar("CPU of draws in any order, x of drawing them in turn", sorted_s / in_order_s, 0.5, at_most=True)
        )
    finish("record_weights", figures, bars, quick)


def all_of(share: float) -> Weighted:
    return Weighted(records="", replacement=False, epoch_share=share)


def population(values: Any) -> Population:
    shards = len(values) // SHARD_RECORDS
    return Population(
        np.full(shards, SHARD_RECORDS, np.uint32), np.full(shards, 1000, np.uint64), np.zeros(shards, np.uint32),
        ["file:///a"], record_weights(b"r" * 32, values),
    )  # fmt: skip


def measured(values: Any, draw: Callable[[Population], object]) -> tuple[float, float]:
    """Memory beside the weights and the digest's columns, as a multiple of the weights'; CPU seconds."""
    seconds = cpu_s(lambda: draw(population(values)))
    of = population(values)
    tracemalloc.start()
    try:
        draw(of)
        return tracemalloc.get_traced_memory()[1] / values.nbytes, seconds
    finally:
        tracemalloc.stop()


def cpu_s(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


async def ranks(records: int) -> float:
    digest, taken = numbered_digest(records), list[int]()
    data = record_weights(digest.content_root, np.ones(records, np.float32)).to_bytes()

    async def parts() -> AsyncIterator[bytes]:
        yield data[:HEADER_BYTES]
        for at in range(HEADER_BYTES, len(data), PART_BYTES):
            await asyncio.sleep(0)
            part = data[at : at + PART_BYTES]
            taken.append(len(part))
            yield part

    with tempfile.TemporaryDirectory() as directory:
        files = WeightFiles(Path(directory) / "weights", set)
        await asyncio.gather(*(one_rank(files, parts, digest) for _ in range(RANKS)))
    return sum(taken) / (len(data) - HEADER_BYTES)  # those say which weights come


async def one_rank(files: WeightFiles, parts: Callable[[], AsyncIterator[bytes]], digest: Digest) -> None:
    await files.put(parts(), digest)


if __name__ == "__main__":
    run_bench(main)
