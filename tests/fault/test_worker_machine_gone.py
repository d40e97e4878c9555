"""A worker's machine that loses its power: nobody is told that its connections are closed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered
from tests.support.cluster import Server
from tests.support.hosts import Hosts, HostsError
from tfquiver.ops.compiling_and_loading import tensorflows, transport
from tfquiver.tensorflow_dispatcher_and_worker_connections.worker_connections import SILENCE_S

# A network of the machine is made, and half a minute of silence waited for.
pytestmark = [pytest.mark.alone, pytest.mark.long]

RECORDS, STEP_S = 4000, 0.01
WHOLE_S = SILENCE_S + 45  # the kernel's own limit is a quarter of an hour


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    try:
        with Hosts(["a", "b"]) as made:
            yield made
    except HostsError as error:
        pytest.skip(f"{error}; run the tests as root, with the packages iproute2 and kmod where they are missing")


def test_the_epoch_ends_without_it_and_the_next_begins_at_once(hosts: Hosts, tmp_path: Path) -> None:
    """Servers with their own flags, but for where they are; an epoch over each way from workers to trainers, side by
    side. The machine does not come back."""
    protocols = ["grpc", transport.PROTOCOL] if tensorflows.transport_name(tf.__version__) else ["grpc"]
    paths = numbered.write(tmp_path / "data", 4, RECORDS // 4, 1000)
    here = hosts.address("a").rpartition(".")[0] + ".1"
    coordinator, dispatcher = f"{here}:5040", f"{here}:5050"
    servers: list[Server] = []

    def serve(kind: str, host: str, *flags: str) -> Server:
        prefix = hosts.prefix(host) if host else []
        flags = (*flags, "--allow_unauthenticated")
        servers.append(Server(f"tfquiver.service.{kind}.main", flags, tmp_path / f"{kind}-{host}.log", prefix=prefix))
        return servers[-1].start()

    def made(protocol: str) -> tf.data.Dataset:
        data = tfquiver.dataset(
            paths,
            service=coordinator,
            first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(5_000, 10_000, 20_000)),
            batch_size=10,
            reading=tfquiver.Reading(readahead_bytes=50_000),
            order=tfquiver.Shuffled(shuffle_bytes=50_000),
            job=protocol,
        )
        return data.apply(tfquiver.distribute(dispatcher, compression=None, data_transfer_protocol=protocol))

    try:
        serve("coordinator", "", "--port=5040", f"--bind_host={here}", f"--work_dir={tmp_path / 'coordinator'}")
        asked = f"--coordinator={coordinator}"
        serve("dispatcher", "", "--port=5050", f"--work_dir={tmp_path / 'dispatcher'}", asked)
        for host in ("a", "b"):
            serve("worker", host, f"--dispatcher={dispatcher}", f"--cache_dir={tmp_path / host}", asked)
        every = {protocol: made(protocol) for protocol in protocols}
        epochs = {protocol: numbered.EpochReader(data, step_s=STEP_S) for protocol, data in every.items()}
        for epoch in epochs.values():
            epoch.reached(RECORDS // 5)
        hosts.cut_off("b")
        cut_s = time.monotonic()
        for protocol, epoch in epochs.items():
            lost, twice = numbered.lost_and_duplicates(epoch.result(WHOLE_S), RECORDS)
            took_s = time.monotonic() - cut_s
            print(f"{protocol}: {took_s:.1f} s after the cut, {twice} twice")
            assert lost == 0, protocol
            assert took_s < WHOLE_S, protocol
        for protocol, data in every.items():
            began_s = time.monotonic()
            assert set(numbered.read(data).tolist()) == set(range(RECORDS)), protocol
            assert time.monotonic() - began_s < WHOLE_S, protocol
            print(f"{protocol}: the next epoch {time.monotonic() - began_s:.1f} s")
    finally:
        hosts.connect("b")
        for server in reversed(servers):
            server.kill()
