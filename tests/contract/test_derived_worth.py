"""What computing a derived data set took: measured, kept over a restart, told by `explain`, and decided by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, coordinating, parts_of, plans, reads
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import derived_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator

ROOM = 1 << 30


async def computed(coordinator: Coordinator, cpu_us: int) -> Digest:
    """FIRST through a function that makes ten bytes of each; in three reports, the last of them twice."""
    if FIRST.digest_id not in coordinator.registry:
        await coordinator.catalogue.register(FIRST.name, b"", None, parts_of(FIRST))
    source = coordinator.registry.find(FIRST.digest_id)
    asked = pb.OpenDerivedRequest(fingerprint=b"f" * 32, digest_id=FIRST.digest_id, name="derived")
    build_id = (await coordinator.deriving.open(EVERYBODY, source, asked)).build_id
    for shards in (range(100), range(100, 200), range(200, 300), range(200, 300)):
        report = pb.ReportDerivedRequest(build_id=build_id, claimer="c")
        for shard in shards:
            part = pb.DerivedShard(
                hash=shard.to_bytes(32, "big"), length_bytes=10 * int(FIRST.lengths[shard]),
                records=int(FIRST.records[shard]),
            )  # fmt: skip
            report.rows.add(row=shard, parts=[part])
            report.cost.input_bytes += int(FIRST.lengths[shard])
            report.cost.made_bytes += part.length_bytes
        report.cost.rows, report.cost.cpu_us, report.cost.read_us, report.cost.busy_us = 100, cpu_us, 1000, cpu_us
        state = await coordinator.deriving.report(EVERYBODY, report)
    return await coordinator.registry.digest(state.dataset.digest_id)


@on_loop
async def test_explain_says_what_was_measured_and_decided_and_knows_it_after_a_restart(tmp_path: Path) -> None:
    size_bytes = int(FIRST.lengths.sum())
    measured = {
        "shards": 300, "input_bytes": size_bytes, "made_bytes": 10 * size_bytes, "cpu_s": 6.0, "read_cpu_s": 0.003,
        "bytes_per_s": pytest.approx(10 * size_bytes / 6), "saved_cpu_s": pytest.approx(5.97), "pays": True,
    }  # fmt: skip
    async with coordinating(tmp_path, a=ROOM) as coordinator:
        derived = await computed(coordinator, cpu_us=2_000_000)
        await reads(coordinator, "job", derived)
        told = await (await plans(coordinator)).explain("derived")
        assert told.computed == measured
        assert told.gets.allocation.cache_bytes > 10 * size_bytes
        assert "keeping it pays, 0.0199 s a shard" in " ".join(told.reasons.values())
        await reads(coordinator, "plain", FIRST)
        assert (await (await plans(coordinator)).explain(FIRST.name)).computed is None
        await coordinator._log.compact()
    async with coordinating(tmp_path, a=ROOM) as coordinator:
        await coordinator.start()
        await reads(coordinator, "job", derived)
        assert (await (await plans(coordinator)).explain("derived")).computed == measured


@on_loop
async def test_what_costs_more_cpu_to_read_than_to_compute_gets_no_room(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=ROOM) as coordinator:
        derived = await computed(coordinator, cpu_us=9000)  # of which 1000 are to read a tenth of what it becomes
        await reads(coordinator, "job", derived)
        told = await (await plans(coordinator)).explain("derived")
        assert told.gets.allocation.cache_bytes == 0
        assert "keeping it does not pay, a miss is computed" in " ".join(told.reasons.values())


@on_loop
async def test_costs_that_cannot_be_are_refused_before_anything_is_kept(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=ROOM) as coordinator:
        await coordinator.catalogue.register(FIRST.name, b"", None, parts_of(FIRST))
        source = coordinator.registry.find(FIRST.digest_id)
        asked = pb.OpenDerivedRequest(fingerprint=b"f" * 32, digest_id=FIRST.digest_id, name="derived")
        build_id = (await coordinator.deriving.open(EVERYBODY, source, asked)).build_id
        report = pb.ReportDerivedRequest(build_id=build_id, claimer="c", cost=pb.DerivedCost(rows=2))
        report.rows.add(row=0, parts=[pb.DerivedShard(hash=b"h" * 32, length_bytes=100, records=1)])
        with pytest.raises(errors.InvalidArgumentError, match=r"cost.rows: 2; the report has 1"):
            await coordinator.deriving.report(EVERYBODY, report)
        asked_again = await coordinator.deriving.open(EVERYBODY, source, asked)
        assert asked_again.done == 0
