"""`tfquiver.materialize` in a cluster: whose it is, and which node keeps it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import grpc

import tfquiver
from tests.support import materializing, numbered
from tests.support.cluster import Server
from tests.support.trusted import Trusted
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc
from tfquiver.service.node.derived_shards.computers import COMPUTE_S

FILES, RECORDS = 3, 60
TOTAL = FILES * RECORDS
paths = numbered.fixture(FILES, RECORDS, 500)


def test_who_shows_another_token_gets_nothing_of_it(paths: list[Path], tmp_path: Path) -> None:
    trusted, calls = Trusted(tmp_path), tmp_path / "calls"
    try:

        def read(who: str) -> str:
            data = tfquiver.dataset(
                paths,
                service=trusted.coordinator.address,
                cache_dir=trusted.root / "a",
                first_use=materializing.first_use(),
                connection=tfquiver.Connection(auth_token_file=trusted.token_file(who)),
            )
            data = data.apply(tfquiver.materialize(materializing.counted(calls), name="kept"))
            assert sorted(data.as_numpy_iterator()) == list(range(TOTAL))
            (own,) = [
                one
                for one in trusted.call(who, "ListDatasets", pb.ListDatasetsRequest()).datasets
                if one.name == "kept"
            ]
            assert list(own.owners) == [who]
            return bytes(own.digest_id).hex()

        blue, green = read("blue"), read("green")
        assert blue != green
        assert materializing.calls_in(calls) == 2 * TOTAL, "green's were computed by green"
        assert read("blue") == blue
        assert materializing.calls_in(calls) == 2 * TOTAL
    finally:
        endpoints.close_all()
        trusted.close()


def test_shards_are_kept_by_their_owners_and_computed_for_them_when_they_lose_them(
    paths: list[Path], tmp_path: Path
) -> None:
    """Two nodes; the trainer, who alone can compute, is at one of them."""
    calls, node = tmp_path / "calls", "tfquiver.service.node.main"
    arguments = ["--port=0", f"--work_dir={tmp_path / 'coordinator'}"]
    with contextlib.ExitStack() as stack:

        def started(module: str, arguments: list[str], name: str) -> Server:
            server = Server(module, arguments, tmp_path / f"{name}.log").start()
            stack.callback(server.stop)
            return server

        address = started("tfquiver.service.coordinator.main", arguments, "coordinator").address
        nodes = [
            started(node, [f"--cache_dir={tmp_path / name}", f"--coordinator={address}", "--quota=64MiB"], name)
            for name in ("a", "b")
        ]
        stack.callback(endpoints.close_all)
        data = tfquiver.dataset(
            paths, service=address, cache_dir=tmp_path / "a", first_use=materializing.first_use()
        ).apply(tfquiver.materialize(materializing.counted(calls)))
        assert sorted(data.as_numpy_iterator()) == list(range(TOTAL))
        assert materializing.calls_in(calls) == TOTAL
        stubs = []
        for one in nodes:
            channel = stack.enter_context(grpc.insecure_channel(one.ready["control"]))
            stubs.append(node_pb2_grpc.NodeStub(channel))
        for one in stubs:
            assert one.Clear(node_pb2.ClearRequest(), timeout=10).entries > 0
        began_s = time.monotonic()
        assert sorted(data.as_numpy_iterator()) == list(range(TOTAL))
        assert time.monotonic() - began_s < COMPUTE_S, "the nodes waited for one another until one gave up"
        assert materializing.calls_in(calls) == 2 * TOTAL
        entries = [one.Status(node_pb2.StatusRequest(), timeout=10).entries for one in stubs]
        assert min(entries) > 0, "each is kept by its owner again"
        assert sorted(data.as_numpy_iterator()) == list(range(TOTAL))
        assert materializing.calls_in(calls) == 2 * TOTAL
