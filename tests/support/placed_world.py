"""Some nodes in racks, at a coordinator that keeps a data set by placement rules."""

from __future__ import annotations

from tests.support.digests import numbered_digest
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import PlacementSet
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.placed import Placed
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.resident_shards.residency import Residency
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows

DIGEST = numbered_digest(30)
ID, CONTENTS = DIGEST.digest_id, of_rows(DIGEST.hashes)
RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}


class World:
    def __init__(self) -> None:
        self.membership, self.residency = Membership(ManualClock(), 10.0), Residency()
        self.mode = types_pb2.CACHE_MODE_UNSPECIFIED
        self.placed = Placed(self.membership, self.residency, lambda _: self.mode)
        for name, rack in RACKS.items():
            self.join(name, rack)
        self.join("gateway", "r2", quota_bytes=0)

    def join(self, name: str, rack: str, quota_bytes: int = 1000) -> None:
        info = types_pb2.NodeInfo(node_id=name, quota_bytes=quota_bytes, labels={"rack": rack})
        self.membership.heartbeat(info, "1")

    def set(self, **rule: object) -> None:
        self.placed.rules.apply(PlacementSet(digest_id=ID, rule=types_pb2.PlacementRule(**rule)))  # type: ignore[arg-type]

    def places(self) -> Places:
        places = self.placed.places(ID)
        assert places is not None
        return places

    def hold(self, name: str, values: Prefixes) -> None:
        self.residency.added(name, values)


def moved(version: int, left: int, idle_looks: int = 3) -> pb2.MoveReport:
    return pb2.MoveReport(digest_id=ID, places_version=version, to_go_shards=left, idle_looks=idle_looks)
