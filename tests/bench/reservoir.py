"""How fast a random part of a data set, `order=tfquiver.Reservoir(records)`, comes from a store, read by nobody before.

One node with an empty cache, a reader that looks at nothing, and an emulated store that answers after 60 ms and sends
50 MB/s, over all connections together. Its sequential rate is what eight threads reach that read the whole data set, 16
MiB at a time, and do nothing else; in the same run. The parts are a quarter (not with --quick), a half and nine tenths
of the records; each is timed from its reader's opening to the end.

    python -m tests.bench.reservoir [--quick]

Bars: the slowest part's rate against the sequential one; bytes that left the store for each byte of the part, where a
late request that is sent twice counts twice; and that each part was the shards that the scheme drew, each once.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.misses import filled, plain
from tests.support import node_calls
from tests.support.cluster import Server
from tests.support.reader_client import ReaderClient
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import AskSamplingRequest
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.drawing import drawn
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Population
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.reservoir import Reservoir
from tfquiver.testing.emulated_store import StoreClient

BYTES_PER_S = 50e6  # few enough that a busy machine is not what limits them
PARTS, QUICK_PARTS, RATE_BAR, BYTES_BAR = (0.25, 0.5, 0.9), (0.5, 0.9), 0.9, 1.03
FULL_BYTES, QUICK_BYTES, ROUNDS = 4 << 30, 640 << 20, 3
CREDIT_BYTES, SEED = 64 << 20, 7


class Reader(ReaderClient):
    """Takes draws and gives them back at once."""

    def use_all(self) -> list[int]:
        """The draws, as they came."""
        came = list[int]()
        while True:
            frame, descriptor = self.connection.receive()
            if isinstance(frame, frames.End):
                return came
            assert isinstance(frame, frames.Shard), frame
            os.close(descriptor)
            came.append(frame.shard)
            self.connection.send(frames.Credit(frame.length_bytes))
            self.connection.send(frames.Ack((frame.shard,)))


def sampled(base: Path, store: StoreClient, digest: Digest, part: float) -> dict[str, float]:
    """A part of the records, through a node whose cache is empty."""
    base.mkdir()
    path, records = base / "data.tfqd", round(part * digest.num_records)
    digest.save(path)
    flags = [f"--cache_dir={base / 'cache'}", "--quota=64GiB"]
    node = Server("tfquiver.service.node.main", flags, base / "node.log", {"STORAGE_EMULATOR_HOST": store.url}).start()
    try:
        key = "bench~reservoir"
        with Registrar(node_calls.status(node.ready["control"]).coordinator_address, None, "", 30.0) as registrar:
            registrar.digest(path)
            registrar.ask_sampling(
                AskSamplingRequest(
                    session_key=key, digest_id=digest.digest_id, scheme="reservoir", seed=SEED,
                    arguments=json.dumps({"records": records}),
                )
            )  # fmt: skip
        files = [entry.uri for entry in digest.files]
        of = Population(digest.records, digest.lengths, digest.file_index, files)
        wanted = drawn("reservoir", Reservoir(records), of, SEED, 0).shards
        size_bytes, before = int(digest.lengths[wanted].sum()), store.traffic()
        began = time.perf_counter()
        client = Reader(node.ready["socket"], digest.digest_id, session_key=key, credit_bytes=CREDIT_BYTES, seed=SEED)
        came = client.use_all()
        seconds, left = time.perf_counter() - began, store.traffic() - before
        client.close()
        return {
            "part": part,
            "bytes_per_s": size_bytes / seconds,
            "times_each_byte": left.payload_bytes / size_bytes,
            "requests_a_shard": left.reads / len(wanted),
            "as_drawn": float(sorted(came) == list(range(len(wanted)))),
            "places_out_of_turn": float(np.abs(np.array(came) - np.arange(len(came))).mean()),
        }
    finally:
        node.stop()


def main() -> None:
    parser = quick_parser(__doc__, "a smaller data set, less than 60 s")
    quick = parser.parse_args().quick
    with filled(BYTES_PER_S, QUICK_BYTES if quick else FULL_BYTES) as (base, store, digest):
        rounds, parts = list[dict[str, Any]](), QUICK_PARTS if quick else PARTS
        for number in range(1 if quick else ROUNDS):
            sequential = plain(store, digest)
            found = [sampled(base / f"{number}-{part}", store, digest, part) for part in parts]
            rounds.append({"sequential_bytes_per_s": sequential, "parts": found})
            print(json.dumps(rounds[-1]))
    limit = min(BYTES_PER_S, max(each["sequential_bytes_per_s"] for each in rounds))
    best = [max(each["parts"][at]["bytes_per_s"] for each in rounds) for at in range(len(parts))]
    every = [part for each in rounds for part in each["parts"]]
    bars = [
        Bar("slowest part / sequential", min(best) / limit, RATE_BAR),
        Bar(
            "bytes from the store / of the part", max(one["times_each_byte"] for one in every), BYTES_BAR, at_most=True
        ),
        Bar("parts that were as drawn", min(one["as_drawn"] for one in every), 1.0),
    ]
    finish("reservoir", {"shards": digest.num_shards, "limit_bytes_per_s": limit, "rounds": rounds}, bars, quick)


if __name__ == "__main__":
    run_bench(main)
