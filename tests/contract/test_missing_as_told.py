"""Which shards nobody holds, and which another one does: by all that nodes have told, also where there are so many that
tables follow later. Whoever asks loads what nobody is said to hold, and gives up what another one is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, coordinating, reads
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.nodes_mounts_dispatchers import heartbeats

HASHES = [row.tobytes() for row in FIRST.hashes]
NODES = [f"n{number}" for number in range(150)]
STEPS = 400


@on_loop
@pytest.mark.parametrize("seed", range(3))
async def test_it_is_what_all_have_told_until_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(heartbeats, "_WAIT_S", 1.0)  # tables follow when this test has long ended,
    monkeypatch.setattr(heartbeats, "_MOST_WAIT_S", 3600.0)  # or when something makes them
    print(f"{seed=}")
    chance = random.Random(seed)
    held, versions = {name: set[int]() for name in NODES}, dict.fromkeys(NODES, 1)
    async with coordinating(tmp_path) as coordinator:
        for name in NODES:
            _tells(coordinator, name, pb.Inventory(full=True, version=1))
        await reads(coordinator, "job", FIRST)
        waited = 0
        for _ in range(STEPS):
            name, some = chance.choice(NODES), set(chance.sample(range(20), 3))
            versions[name] += 1
            here = held[name]
            inventory = pb.Inventory(
                version=versions[name],
                added=[HASHES[shard] for shard in some - here],
                removed=[HASHES[shard] for shard in some & here],
            )
            _tells(coordinator, name, inventory)
            held[name] = here ^ some
            if chance.random() < 0.3:
                waited += bool(coordinator.residency.unsettled)
                asks = chance.choice(NODES)
                missing, elsewhere = coordinator.missing(FIRST.digest_id, list(range(30)), asks)
                holders = {shard: {one for one in NODES if shard in held[one]} for shard in range(30)}
                assert missing == [shard for shard in range(30) if not holders[shard]]
                assert all(holders[shard] - {asks} for shard in elsewhere), "what it gives up is kept by another"
                alone = {shard for shard in range(30) if holders[shard] and asks not in holders[shard]}
                assert alone <= set(elsewhere)
        assert waited > 20, "tables were behind what had been told"


def _tells(coordinator: Coordinator, name: str, inventory: pb.Inventory) -> None:
    node = types_pb2.NodeInfo(node_id=name, quota_bytes=1 << 30)
    coordinator.heartbeats.take(pb.HeartbeatRequest(node=node, incarnation="1", inventory=inventory))
