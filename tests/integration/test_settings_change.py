"""How a data set is cached changes while it is read: each epoch is complete all the same, and no record comes twice."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import node_calls, rotating
from tests.support.cluster import Server, wait_until
from tests.support.rotating import ENTRY_BYTES, Job
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2
from tfquiver.scanning.cutting import CutPolicy

SHARDS = 400
QUOTA_BYTES = SHARDS // 2 * ENTRY_BYTES


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Server]:
    flags = [f"--cache_dir={tmp_path / 'cache'}", f"--quota={QUOTA_BYTES}", "--hot=0", "--lease_ahead=32KiB"]
    server = Server("tfquiver.service.node.main", flags, tmp_path / "node.log").start()
    yield server
    assert server.stop() == 0, server.log_tail()


def call(node: Server, method: str, request: Any) -> Any:
    with rpc.channel(node.ready["coordinator"]) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        return getattr(stub, method)(request, timeout=20.0, wait_for_ready=True)


def mode(node: Server, dataset: types_pb2.Dataset) -> int:
    return call(node, "GetCache", pb.GetCacheRequest(digest_id=dataset.digest_id)).mode


def data(tmp_path: Path, node: Server) -> tuple[types_pb2.Dataset, Counter[bytes]]:
    made = Counter(rotating.write(tmp_path / "data", SHARDS))
    return node_calls.ensure(node.ready["control"], tmp_path / "data" / "part-*", CutPolicy(1, 1, 1)), made


def start(node: Server, dataset: types_pb2.Dataset, epochs: int) -> list[Job]:
    jobs = [
        Job(node.ready["socket"], dataset, f"job {number}", epochs, step_s)
        for number, step_s in enumerate((0.004, 0.007))
    ]
    for job in jobs:
        job.start()
    return jobs


@pytest.mark.long
def test_the_policy_takes_a_data_set_from_uniform_over_cooperative_to_none(tmp_path: Path, node: Server) -> None:
    """By what policies decide: `static` keeps what came first, `benefit` rotates, `none` keeps nothing."""
    dataset, made = data(tmp_path, node)
    epochs = 4
    jobs = start(node, dataset, epochs)
    seen = []
    policies = (
        ("static", types_pb2.CACHE_MODE_UNIFORM),
        ("benefit", types_pb2.CACHE_MODE_COOPERATIVE),
        ("none", types_pb2.CACHE_MODE_NONE),
    )
    for policy, becomes in policies:
        call(node, "SetPolicy", pb.SetPolicyRequest(policy=policy))
        wait_until(lambda: mode(node, dataset) == becomes, f"{policy} decides", 60)  # noqa: B023 - called here
        seen.append([job.shards for job in jobs])
        read = jobs[0].shards
        wait_until(lambda: jobs[0].shards > read + SHARDS // 3, "a third is read so", 60)  # noqa: B023
    assert all(after > before for before, after in itertools.pairwise(shards for shards, _ in seen))
    assert [job.finish() for job in jobs] == [[made] * epochs] * 2


@pytest.mark.long
def test_settings_that_change_ten_times_an_epoch(tmp_path: Path, node: Server) -> None:
    """By hand: pins come and go faster than any policy would have it."""
    dataset, made = data(tmp_path, node)
    epochs = 2
    jobs = start(node, dataset, epochs)
    changes = 0
    for name in itertools.cycle(("uniform", "cooperative", "none", "lru", "cooperative", "unspecified")):
        if not any(job.is_alive() for job in jobs):
            break
        rotating.set_cache(node.ready["coordinator"], dataset, name)
        changes += 1
        time.sleep(0.1)
    assert changes > 20, "they changed while it was read"
    assert [job.finish() for job in jobs] == [[made] * epochs] * 2
    assert node_calls.status(node.ready["control"]).node.used_bytes <= QUOTA_BYTES
