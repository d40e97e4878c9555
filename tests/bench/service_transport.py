"""Elements through tf.data service, one worker: tfquiver with its own transport, against the stock service.

Stock: `TFRecordDataset(files).shuffle(n).batch(b)` in the worker, elements by gRPC. tfquiver: `tfquiver.dataset(files,
batch_size=b)` in the same worker, elements as `tfquiver.distribute` has them. Both uncompressed, warm, one process a
row, in turn. Figures are records/s of whole epochs, without the second in which TensorFlow's client finds the worker
and the one in which it learns of the end: from the first element to the last.

* same machine: 256 B records in batches of 256, 110 KB records in batches of 32;
* between two network namespaces, where there can be some (root, iproute2): the same data set of numbers by both.

    python -m tests.bench.service_transport [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.warm_read import LARGE, SMALL, Kind, write_files
from tests.support import element_world
from tests.support.cluster import Cluster, die_with_parent, tensorflow_env
from tests.support.hosts import Hosts, HostsError

ROUNDS = 3
ROW_S = 300.0
SIDES = ("stock", "tfquiver", "tfquiver by gRPC")
# Between namespaces: strings of 256 and of 110 000 bytes, made in the worker, in the batches of above.
NETWORK = {SMALL.name: (256, 256, 20_000), LARGE.name: (110_000, 32, 1_500)}


def row(arguments: Sequence[str], prefix: Sequence[str] = ()) -> dict[str, Any]:
    """One measurement, in a process of its own."""
    command = [*prefix, sys.executable, "-m", "tests.bench.service_transport", "--row", *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, env=tensorflow_env(), timeout=ROW_S, check=True, preexec_fn=die_with_parent
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def epoch(dataset: Any) -> tuple[int, float, float]:
    """Elements, seconds between the first and the last, CPU seconds of this process meanwhile."""
    elements, first, last, began = 0, 0.0, 0.0, time.process_time()
    for _ in dataset:
        last = time.perf_counter()
        if elements == 0:
            first, began = last, time.process_time()
        elements += 1
        spent = time.process_time() - began
    return elements - 1, last - first, spent


def records_row(side: str, dispatcher: str, folder: str, cache_dir: str, kind: Kind) -> None:
    import tensorflow as tf

    import tfquiver

    files = sorted(str(path) for path in Path(folder).glob("part-*"))
    if side == "stock":
        service = tf.data.experimental.service
        local = tf.data.TFRecordDataset(files).shuffle(kind.shuffle).batch(kind.batch)
        data = local.apply(service.distribute(service.ShardingPolicy.OFF, f"grpc://{dispatcher}", compression=None))
    else:
        protocol = "tfquiver" if side == "tfquiver" else "grpc"
        local = tfquiver.dataset(files, cache_dir=cache_dir, batch_size=kind.batch)
        data = local.apply(tfquiver.distribute(dispatcher, compression=None, data_transfer_protocol=protocol))
    _tell(*epoch(data), kind.batch)


def network_row(side: str, target: str, record_bytes: int, batch: int, batches: int) -> None:
    import tensorflow as tf

    from tfquiver.ops.compiling_and_loading import transport

    transport.load()
    service = tf.data.experimental.service
    one = tf.random.uniform([batch], maxval=9, dtype=tf.int64)
    strings = tf.strings.join([tf.strings.as_string(one), tf.constant("x" * (record_bytes - 1))])
    data = tf.data.Dataset.from_tensors(strings).repeat(batches)
    protocol = "tfquiver" if side == "tfquiver" else "grpc"
    shared = data.apply(
        service.distribute(service.ShardingPolicy.OFF, target, data_transfer_protocol=protocol, compression=None)
    )
    _tell(*epoch(shared), batch)


def _tell(elements: int, elapsed_s: float, cpu_s: float, batch: int) -> None:
    records = elements * batch
    print(json.dumps({"records_per_s": records / elapsed_s, "cpu_s": cpu_s, "records": records}), flush=True)
    os._exit(0)  # TensorFlow's teardown may sleep as long as the epoch was


def in_turn(sides: Sequence[str], rounds: int, measure: Any) -> dict[str, dict[str, float]]:
    """Medians of each side; one round before is not counted."""
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side in sides:
            told = measure(side)
            if number:
                found[side].append(told)
    return {
        side: {
            "records_per_s": round(statistics.median(told["records_per_s"] for told in all_told)),
            "trainer_cpu_ns_a_record": round(
                statistics.median(told["cpu_s"] / told["records"] for told in all_told) * 1e9
            ),
        }
        for side, all_told in found.items()
    }


def same_machine(base: Path, kind: Kind, quick: bool) -> dict[str, dict[str, float]]:
    folder = base / kind.name.replace(" ", "_")
    write_files(folder, kind, kind.quick_bytes if quick else kind.full_bytes)
    with Cluster(base / f"{folder.name}-cluster", workers=1, quota="8GiB") as cluster:
        dispatcher, cache_dir = cluster.dispatcher.address, str(cluster.cache_dir)  # type: ignore[union-attr]
        return in_turn(
            SIDES[:2] if quick else SIDES,
            1 if quick else ROUNDS,
            lambda side: row([side, dispatcher, str(folder), cache_dir, kind.name]),
        )


def two_machines(kind: Kind, quick: bool) -> dict[str, dict[str, float]]:
    record_bytes, batch, batches = NETWORK[kind.name]
    batches = batches // 5 if quick else batches
    with (
        Hosts(["worker", "trainer"]) as hosts,
        element_world.served(hosts.address("worker"), prefix=hosts.prefix("worker")) as target,
    ):
        return in_turn(
            SIDES[:2],
            1 if quick else ROUNDS,
            lambda side: row([side, target, str(record_bytes), str(batch), str(batches)], hosts.prefix("trainer")),
        )


def main() -> None:
    parser = quick_parser(__doc__, "smaller data sets, less than 60 s")
    parser.add_argument("--row", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        side, target, *rest = options.row
        if len(rest) == 3 and rest[2].isdigit():
            network_row(side, target, *map(int, rest))
        else:
            records_row(side, target, rest[0], rest[1], SMALL if rest[2] == SMALL.name else LARGE)
    figures: dict[str, Any] = {}
    bars = []
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        for kind, bar in ((SMALL, 3.0), (LARGE, 4.0)):
            rates = figures[kind.name] = same_machine(Path(base), kind, options.quick)
            print(kind.name, rates, file=sys.stderr)
            bars.append(Bar(f"{kind.name}, one machine / stock", _ratio(rates), bar))
    for kind in (SMALL, LARGE):
        try:
            rates = figures[f"{kind.name}, two namespaces"] = two_machines(kind, options.quick)
        except HostsError as error:
            print(f"{kind.name}, two namespaces: not measured: {error}", file=sys.stderr)
            continue
        print(kind.name, "two namespaces", rates, file=sys.stderr)
        bars.append(Bar(f"{kind.name}, two namespaces / stock", _ratio(rates), 2.0))
    finish("service_transport", figures, bars, options.quick)


def _ratio(rates: dict[str, dict[str, float]]) -> float:
    return rates["tfquiver"]["records_per_s"] / rates["stock"]["records_per_s"]


if __name__ == "__main__":
    run_bench(main)
