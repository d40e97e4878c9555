"""A dispatcher that was stopped while its coordinator was away, and is back at another address, is not missed."""

from __future__ import annotations

from pathlib import Path

from tests.support.cluster import Cluster, wait_until
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc


def test_a_dispatcher_that_is_back_at_another_address_is_not_missed(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=0, dispatcher=True) as cluster:
        assert cluster.dispatcher is not None
        old, at = cluster.dispatcher, cluster.coordinator.address

        def listed() -> tuple[list[str], list[str]]:
            """Those that tell of themselves, and those that are missed."""
            with rpc.channel(at) as channel:
                stub = coordinator_pb2_grpc.CoordinatorStub(channel)
                reply = stub.ListDispatchers(pb.ListDispatchersRequest(), timeout=10)
            return [one.address for one in reply.dispatchers], [one.address for one in reply.lost]

        wait_until(lambda: listed() == ([old.address], []), "it is told of")
        assert cluster.coordinator.stop() == 0
        assert old.stop() == 0, old.log_tail()
        cluster.coordinator.restart()
        wait_until(lambda: listed() == ([], [old.address]), "nobody knows where it has gone", 30)
        new = cluster.add(
            "dispatcher", f"--work_dir={tmp_path / 'cluster' / 'dispatcher'}", f"--coordinator={at}", name="new"
        ).start()
        assert new.address != old.address
        wait_until(lambda: listed() == ([new.address], []), "it has taken its own place", 30)
