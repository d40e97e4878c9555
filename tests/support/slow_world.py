"""Jobs, a node and a store whose rate changes, second by second: what they would tell a coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfquiver.clock import ManualClock
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.coordinator import Coordinator

RECORD_BYTES = 1000
AT_ONCE = 16  # reads of a node that waits


@dataclass
class Job:
    """`ideal`: bytes/s where it never waits. `ahead`: what it reads by chunks is loaded before it asks."""

    name: str
    digest: Digest
    ideal: float
    ahead: bool = False
    session_id: str = ""
    report: pb.ReaderReport = field(default_factory=pb.ReaderReport)
    probed_s: list[float] = field(default_factory=list)  # when a probe of it began

    @property
    def key(self) -> tuple[str, bytes]:
        return self.name, self.digest.digest_id


@dataclass
class SlowWorld:
    """One node; `store_bytes_per_s` is shared by those who miss, in equal parts."""

    coordinator: Coordinator
    clock: ManualClock
    quota_bytes: int
    store_bytes_per_s: float
    jobs: list[Job]
    resident: dict[bytes, int] = field(default_factory=dict)  # shards, the first ones, by data set
    reads: pb.StoreReads = field(default_factory=pb.StoreReads)
    version: int = 1

    async def run(self, seconds: int) -> None:
        replanning = self.coordinator.replanning
        assert replanning
        for _ in range(seconds):
            self.clock.advance(1.0)
            missing = {job.key for job in self.jobs if job.key in self.coordinator.probed}
            self._second()
            await replanning.measure()
            await replanning.look()
            for job in self.jobs:
                if job.key in self.coordinator.probed and job.key not in missing:
                    job.probed_s.append(self.clock.now())

    def _second(self) -> None:
        misses = {job.name: job.ideal * (1 - self._hits(job)) for job in self.jobs}
        left, came = self.store_bytes_per_s, dict[str, float]()
        for at, (name, wanted) in enumerate(sorted(misses.items(), key=lambda item: item[1])):
            came[name] = min(wanted, left / (len(misses) - at))
            left -= came[name]
        waits = left <= 0
        taken = sum(came.values())
        busy_s = 1.0 if waits else taken / self.store_bytes_per_s
        self.reads.reads += int(taken / 10_000)
        self.reads.bytes += int(taken)
        self.reads.busy_us += int(busy_s * 1e6)
        self.reads.request_us += int(busy_s * 1e6 * (AT_ONCE if waits else 1))
        self.reads.elapsed_us += 1_000_000
        added, removed = list[bytes](), list[bytes]()
        for job in self.jobs:
            share = came[job.name] / misses[job.name] if misses[job.name] else 1.0
            self._read(job, job.ideal * share, came[job.name], share)
            self._keep(job, came[job.name], added, removed)
        self.version += 1
        node = types_pb2.NodeInfo(node_id="a", quota_bytes=self.quota_bytes)
        inventory = pb.Inventory(version=self.version, added=added, removed=removed)
        beat = pb.HeartbeatRequest(
            node=node, incarnation="1", inventory=inventory, readers=[job.report for job in self.jobs],
            store_reads=self.reads,
        )  # fmt: skip
        self.coordinator.heartbeats.take(beat)

    def _hits(self, job: Job) -> float:
        if job.key in self.coordinator.probed:
            return 0.0
        return self.resident.get(job.digest.digest_id, 0) / job.digest.num_shards

    def _read(self, job: Job, size_bytes: float, missed_bytes: float, share: float) -> None:
        report = job.report
        report.session_id, report.reader_id = job.session_id, "1"
        report.records += int(size_bytes / RECORD_BYTES)
        report.bytes += int(size_bytes)
        report.waited_us += int((1 - share) * 1e6)
        report.elapsed_us += 1_000_000
        probed, setting = job.key in self.coordinator.probed, self.coordinator.catalogue.cache(job.digest.digest_id)
        by_chunks = job.ahead and setting.mode == types_pb2.CACHE_MODE_COOPERATIVE
        if by_chunks and not probed:
            missed_bytes = 0
        report.hit_bytes += int(size_bytes - missed_bytes)
        report.missed_bytes += int(missed_bytes)
        if probed:
            kept = 1.0 if by_chunks else self.resident.get(job.digest.digest_id, 0) / job.digest.num_shards
            self.coordinator.probes.leased(*job.key, int(size_bytes * kept))

    def _keep(self, job: Job, missed_bytes: float, added: list[bytes], removed: list[bytes]) -> None:
        """As much as the data set's setting allows, the first shards first."""
        digest, had = job.digest, self.resident.get(job.digest.digest_id, 0)
        setting = self.coordinator.catalogue.cache(digest.digest_id)
        shard_bytes = digest.size_bytes / digest.num_shards
        room = int(setting.allocation_bytes / (shard_bytes + 4096)) if setting.mode else 0
        has = min(had + int(missed_bytes / shard_bytes) * (job.key not in self.coordinator.probed), room)
        has = min(has, digest.num_shards)
        added += [digest.hashes[shard].tobytes() for shard in range(had, has)]
        removed += [digest.hashes[shard].tobytes() for shard in range(has, had)]
        self.resident[digest.digest_id] = has
