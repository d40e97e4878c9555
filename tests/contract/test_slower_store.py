"""A store that becomes slower is seen, jobs are probed again, another data set is worth the cache; without sockets."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.digests import digest_of
from tests.support.slow_world import Job, SlowWorld
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.probing.limits import ProbeLimits

MB = 10**6
FAST, SLOW = 10 * MB, 0.6 * MB


def data(name: str, shards: int) -> Digest:
    return digest_of([hashlib.sha256(f"{name} {shard}".encode()).digest() for shard in range(shards)], name, MB // 10)


SMALL, LARGE = data("small", 400), data("large", 2000)
SMALL_BYTES = int(most_disk_bytes(SMALL.lengths).sum())


async def parts(digest: Digest) -> AsyncIterator[bytes]:
    yield digest.to_bytes()


@asynccontextmanager
async def world(
    directory: Path, *jobs: Job, room: float = 1.02, options: CoordinatorOptions | None = None
) -> AsyncIterator[SlowWorld]:
    """Room for the small data set and little more."""
    clock = ManualClock(1000.0)
    coordinator = Coordinator(directory, options or CoordinatorOptions(), clock)
    made = SlowWorld(coordinator, clock, round(room * SMALL_BYTES), FAST, list(jobs))
    try:
        node = types_pb2.NodeInfo(node_id="a", quota_bytes=made.quota_bytes)
        beat = pb.HeartbeatRequest(node=node, incarnation="1", inventory=pb.Inventory(full=True, version=1))
        coordinator.heartbeats.take(beat)
        for job in jobs:
            await coordinator.catalogue.register(job.digest.name, b"", None, parts(job.digest))
            request = pb.OpenReaderRequest(
                reader_id=job.name, node_id="a", incarnation="1", digest_id=job.digest.digest_id, job=job.name,
                session_key=job.name,
            )  # fmt: skip
            session, _ = await coordinator.reading.open_reader(request)
            job.session_id = session.session_id
        yield made
    finally:
        await coordinator.stop()


def jobs(ideal: float = 1.5 * MB, ahead: bool = False) -> tuple[Job, Job]:
    """One that computes for long, of the small data set, and one of the large one that the store does for just yet."""
    return Job("computes", SMALL, 0.4 * MB), Job("balanced", LARGE, ideal, ahead)


@pytest.mark.slow
@on_loop
async def test_when_the_store_slows_down_who_did_not_wait_for_it_becomes_worth_caching_and_is(tmp_path: Path) -> None:
    computes, balanced = jobs()
    async with world(tmp_path / "work", computes, balanced) as run:
        coordinator = run.coordinator
        await run.run(700)
        first = coordinator.probes.result(*balanced.key)
        assert first, "it is measured"
        assert first.benefit.value == pytest.approx(1.0, rel=0.05), "and does not wait for the store"
        assert coordinator.catalogue.cache(SMALL.digest_id).allocation_bytes == SMALL_BYTES
        assert coordinator.store.load().s_per_byte == pytest.approx(1 / FAST, rel=0.1)
        begun = len(balanced.probed_s)
        await run.run(600)
        assert len(balanced.probed_s) == begun, "the store is what it was, and so are the results"

        run.store_bytes_per_s, slow_at = SLOW, run.clock.now()
        await run.run(700)
        assert coordinator.store.load().s_per_byte == pytest.approx(1 / SLOW, rel=0.1)
        assert len(balanced.probed_s) > begun
        assert balanced.probed_s[begun] <= slow_at + 60.0, "it is not the half hour's turn"
        second = coordinator.probes.result(*balanced.key)
        assert second
        assert 0.95 * 1.5 * MB / SLOW < second.benefit.value < 2.05 * 1.5 * MB / SLOW, "shared with nobody, or with one"
        assert coordinator.catalogue.cache(LARGE.digest_id).allocation_bytes > 0.9 * run.quota_bytes
        for job in (computes, balanced):
            extra = coordinator.probes._extra_bytes.get(job.key, 0)
            assert extra <= ProbeLimits().extra_share * job.report.bytes


@pytest.mark.slow
@on_loop
async def test_whose_chunks_are_loaded_just_ahead_of_it_is_measured_at_once_and_for_nothing(tmp_path: Path) -> None:
    """Its data set has a fiftieth of the room that it takes; all it reads are hits. To miss would read it all twice."""
    computes, balanced = jobs(ahead=True)
    async with world(tmp_path / "work", computes, balanced, room=1.1) as run:
        coordinator = run.coordinator
        await run.run(700)
        setting = coordinator.catalogue.cache(LARGE.digest_id)
        assert setting.mode == types_pb2.CACHE_MODE_COOPERATIVE
        assert setting.allocation_bytes < 0.05 * LARGE.size_bytes
        first = coordinator.probes.result(*balanced.key)
        assert first
        assert first.benefit.value == pytest.approx(1.0, rel=0.05)
        begun, extra_bytes = len(balanced.probed_s), coordinator.probes.extra_bytes(*balanced.key)
        assert extra_bytes <= 1.5 * MB, "of the second in which nothing was decided yet"
        run.store_bytes_per_s = SLOW
        await run.run(450)
        second = coordinator.probes.result(*balanced.key)
        assert second
        assert second.benefit.value > 0.95 * 1.5 * MB / SLOW
        assert len(balanced.probed_s) == begun
        assert coordinator.probes.extra_bytes(*balanced.key) == extra_bytes


@pytest.mark.slow
@on_loop
async def test_the_misses_of_a_probe_are_no_change_of_the_store(tmp_path: Path) -> None:
    """One job always reads it, as fast as it may; that another one joins it to be measured makes both slower."""
    computes, balanced = jobs()
    async with world(tmp_path / "work", computes, balanced) as run:
        run.store_bytes_per_s = SLOW
        await run.run(1500)
        assert computes.probed_s
        assert balanced.probed_s
        assert len(computes.probed_s) <= 2
        assert len(balanced.probed_s) <= 2


@pytest.mark.slow
@on_loop
async def test_bandwidth_that_a_person_has_told_of_is_shared_out(tmp_path: Path) -> None:
    shared = "silod_greedy", "max_min_fair"
    for told, policy in (
        (0, shared[0]),
        (0, shared[1]),
        *((MB, one) for one in shared),
        (MB, "benefit"),
        (20 * MB, shared[0]),
    ):
        options = CoordinatorOptions(policy=policy, store_bytes_per_s=told)
        async with world(tmp_path / f"{told} {policy}", *jobs(3.0 * MB), options=options) as run:
            run.store_bytes_per_s = MB
            await run.run(60)
            rates = run.coordinator.budgets.allocated
            spare = run.coordinator.store.load().spare_bytes_per_s
            if told == MB and policy in shared:
                assert sum(rates.values()) <= told * 1.001
                assert rates["balanced"] > 0.4 * MB
                assert spare is not None
                assert spare < 0.2 * MB
            else:
                assert not rates, "nobody is limited while it gives all that they lack, or nobody knows"
                assert (spare is None) == (not told)


@pytest.mark.slow
@on_loop
async def test_nobody_is_probed_while_a_job_has_less_than_its_pin_and_waits(tmp_path: Path) -> None:
    computes, balanced = jobs()
    async with world(tmp_path / "work", computes, balanced) as run:
        coordinator = run.coordinator
        run.store_bytes_per_s = SLOW
        await coordinator.allocate_remote_io("balanced", 1.0 * MB)
        await run.run(20)
        await run.run(400)
        told = coordinator.probes.told(*computes.key, 0.0)
        assert "benefit" not in told
        assert "below a floor" in told["waits_for"]
        await coordinator.allocate_remote_io("balanced", 0)
        await run.run(400)
        assert computes.probed_s
        assert coordinator.probes.told(*computes.key, 0.0)["waits_for"] != told["waits_for"]


async def decides(directory: Path, flag: str = "benefit", choose: str = "") -> str:
    """In a coordinator that is started with that flag, and where it is said another is chosen."""
    coordinator = Coordinator(directory, CoordinatorOptions(policy=flag))
    try:
        await coordinator.start()
        assert coordinator.replanning
        if choose:
            await coordinator.choose_policy(choose)
        return coordinator.replanning.planner.policy_name
    finally:
        await coordinator.stop()


@on_loop
async def test_a_policy_that_was_chosen_outlives_the_coordinator_until_the_flag_says_another(tmp_path: Path) -> None:
    assert await decides(tmp_path, "benefit") == "benefit"
    assert await decides(tmp_path, "benefit", "quiver") == "quiver"
    for _ in range(3):  # each start compacts the log
        assert await decides(tmp_path, "benefit") == "quiver"
    with pytest.raises(errors.InvalidArgumentError, match="silod_greedy"):
        await decides(tmp_path, "benefit", "nonsense")
    assert await decides(tmp_path, "benefit") == "quiver", "what is not there changes nothing"
    assert await decides(tmp_path, "static") == "static", "said later"
    assert await decides(tmp_path, "benefit") == "benefit", "and the choice is forgotten with that"
    assert await decides(tmp_path, "benefit", "none") == "none"
    assert await decides(tmp_path, "benefit", "benefit") == "benefit"
    assert await decides(tmp_path, "benefit") == "benefit"


@on_loop
async def test_a_policy_that_was_chosen_and_is_not_installed_any_more_leaves_it_to_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await decides(tmp_path, choose="quiver")
    from tfquiver.service.coordinator.policies import registry

    make = registry.make

    def gone(name: str) -> object:
        if name == "quiver":
            raise errors.InvalidArgumentError("policy: quiver is not there")
        return make(name)

    monkeypatch.setattr(registry, "make", gone)
    assert await decides(tmp_path) == "benefit"
    monkeypatch.undo()
    assert await decides(tmp_path) == "quiver", "it is there again"
