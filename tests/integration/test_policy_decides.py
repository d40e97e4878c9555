"""What nobody has set is decided by the policy: without a person, explained, and given back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient, new_coordinator
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.plan_rounds_and_moves import cluster_view

SMALL, LARGE = numbered_digest(500, "small"), numbered_digest(3000, "large")
SMALL_BYTES, LARGE_BYTES = (int(most_disk_bytes(one.lengths).sum()) for one in (SMALL, LARGE))
QUOTA_BYTES = SMALL_BYTES + LARGE_BYTES // 3
UNIFORM, COOPERATIVE = types_pb2.CACHE_MODE_UNIFORM, types_pb2.CACHE_MODE_COOPERATIVE
UNSET, NONE = types_pb2.CACHE_MODE_UNSPECIFIED, types_pb2.CACHE_MODE_NONE


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[CoordinatorClient]:
    async with new_coordinator(directory) as client:
        node = types_pb2.NodeInfo(node_id="node", quota_bytes=QUOTA_BYTES)
        await client.call("Heartbeat", pb.HeartbeatRequest(node=node, incarnation="1"))
        yield client


async def reads(client: CoordinatorClient, job: str, digest: Any) -> pb.CloseReaderRequest:
    """Opens; returns what closes."""
    opened = await client.call("OpenReader", pb.OpenReaderRequest(
        reader_id=f"{job} reads", node_id="node", incarnation="1", digest_id=digest.digest_id, job=job, session_key=job
    ))  # fmt: skip
    return pb.CloseReaderRequest(session_id=opened.session_id, reader_id=f"{job} reads")


async def becomes(client: CoordinatorClient, digest: Any, right: Callable[[types_pb2.CacheSetting], bool]) -> Any:
    """How the data set is cached, once that is right."""
    setting = None
    try:
        async with asyncio.timeout(20):
            while True:
                setting = await client.call("GetCache", pb.GetCacheRequest(digest_id=digest.digest_id))
                if right(setting):
                    return setting
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"it is cached so: {setting}")


def set_cache(digest: Any, mode: types_pb2.CacheMode.ValueType) -> pb.SetCacheRequest:
    return pb.SetCacheRequest(digest_id=digest.digest_id, setting=types_pb2.CacheSetting(mode=mode))


@on_loop
async def test_what_fits_is_kept_whole_and_what_does_not_rotates_in_the_rest(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        await client.upload([SMALL.to_bytes()], name="small")
        await client.upload([LARGE.to_bytes()], name="large")
        assert (await client.call("GetCache", pb.GetCacheRequest(digest_id=SMALL.digest_id))).mode == UNSET
        for job in ("a", "b"):
            await reads(client, job, SMALL)
            await reads(client, f"{job} large", LARGE)
        small = await becomes(client, SMALL, lambda its: its.mode == UNIFORM)
        large = await becomes(client, LARGE, lambda its: its.mode == COOPERATIVE)
        assert (small.allocation_bytes, small.decided_by, large.decided_by) == (SMALL_BYTES, "benefit", "benefit")
        assert large.allocation_bytes == QUOTA_BYTES - SMALL_BYTES

        await client.call("SetCache", set_cache(SMALL, NONE))  # a pin: what it had goes to the other
        larger = await becomes(client, LARGE, lambda its: its.allocation_bytes == QUOTA_BYTES)
        assert larger.chunks == large.chunks, "only the bytes change"
        pinned = await client.call("GetCache", pb.GetCacheRequest(digest_id=SMALL.digest_id))
        assert (pinned.mode, pinned.decided_by) == (NONE, "")
        await client.call("SetCache", set_cache(SMALL, UNSET))
        await becomes(client, SMALL, lambda its: its.mode == UNIFORM and its.decided_by == "benefit")
        await becomes(client, LARGE, lambda its: its.allocation_bytes == QUOTA_BYTES - SMALL_BYTES)


@on_loop
async def test_a_curriculum_does_not_disturb_the_regular_jobs_of_its_data_set(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        await client.upload([LARGE.to_bytes()], name="large")
        await client.upload([SMALL.to_bytes()], name="small")
        await reads(client, "regular", LARGE)
        alone = await becomes(client, LARGE, lambda its: its.mode == COOPERATIVE)
        await reads_a_curriculum(client, "guest", LARGE)
        await is_told(client, "guest", "it finds what regular jobs keep of its data set")
        assert await client.call("GetCache", pb.GetCacheRequest(digest_id=LARGE.digest_id)) == alone

        await reads_a_curriculum(client, "odd", SMALL)
        own = await becomes(client, SMALL, lambda its: its.mode == types_pb2.CACHE_MODE_LRU)
        assert own.allocation_bytes == min(SMALL_BYTES, QUOTA_BYTES // 3)  # of three accelerators it has one
        assert await asyncio.to_thread(main, ["explain", "odd", "--service", f"unix:{tmp_path}/socket"]) == 0
        await is_told(client, "small", "irregular: its jobs do not read each record once an epoch")
        sessions = (await client.call("ListSessions", pb.ListSessionsRequest())).sessions
        schemes = {one.job: one.sampling for one in sessions}
        assert schemes == {"regular": "", "guest": "curriculum", "odd": "curriculum"}


async def is_told(client: CoordinatorClient, name: str, reason: str) -> None:
    """Of a data set or job, once it has been planned for."""
    reasons: dict[str, str] = {}
    try:
        async with asyncio.timeout(20):
            while not any(reason in told for told in reasons.values()):
                reply = await client.call("Explain", pb.ExplainRequest(name=name))
                reasons = json.loads(reply.json)["reasons"]
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"of {name} is told: {reasons}")


async def reads_a_curriculum(client: CoordinatorClient, job: str, digest: Any) -> None:
    key = f"{job}~curriculum"
    arguments = '{"pacing":{"starting_part":0.5,"growth":1.5,"step_epochs":1.0}}'
    await client.call("AskSampling", pb.AskSamplingRequest(
        session_key=key, digest_id=digest.digest_id, scheme="curriculum", arguments=arguments, seed=1
    ))  # fmt: skip
    await client.call("OpenReader", pb.OpenReaderRequest(
        reader_id=f"{job} reads", node_id="node", incarnation="1", digest_id=digest.digest_id, job=job, session_key=key,
        seed=1, knows_draws=True,
    ))  # fmt: skip


@on_loop
async def test_who_has_finished_gives_its_room_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view, "GONE_S", 0.5)
    async with started(tmp_path) as client:
        await client.upload([SMALL.to_bytes()], name="small")
        await client.upload([LARGE.to_bytes()], name="large")
        finishes = await reads(client, "short", SMALL)
        await reads(client, "long", LARGE)
        await becomes(client, LARGE, lambda its: 0 < its.allocation_bytes < QUOTA_BYTES)
        await client.call("CloseReader", finishes)
        await becomes(client, SMALL, lambda its: its.mode == UNSET)
        await becomes(client, LARGE, lambda its: its.allocation_bytes == QUOTA_BYTES)


@on_loop
async def test_whom_its_trainer_has_left_gives_its_room_back_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tf.data worker still holds its session open: another trainer could come for it."""
    monkeypatch.setattr(cluster_view, "GONE_S", 0.5)
    async with started(tmp_path) as client:
        await client.upload([SMALL.to_bytes()], name="small")
        await client.upload([LARGE.to_bytes()], name="large")
        ticket = await client.call("Ticket", pb.TicketRequest(
            session_key="short", provider_id="dispatcher:0", digest_id=SMALL.digest_id, job="short"
        ))  # fmt: skip
        await client.call("OpenReader", pb.OpenReaderRequest(
            reader_id="worker", node_id="node", incarnation="1", digest_id=SMALL.digest_id, job="short",
            session_key="short", session_id=ticket.session_id,
        ))  # fmt: skip
        await reads(client, "long", LARGE)
        await becomes(client, LARGE, lambda its: 0 < its.allocation_bytes < QUOTA_BYTES)
        report = pb.ReportDispatcherRequest(dispatcher=pb.DispatcherInfo(address="d:1"), left_keys=["short"])
        await client.call("ReportDispatcher", report)
        await becomes(client, SMALL, lambda its: its.mode == UNSET)
        await becomes(client, LARGE, lambda its: its.allocation_bytes == QUOTA_BYTES)
        (session,) = (await client.call("ListSessions", pb.ListSessionsRequest(session_key="short"))).sessions
        assert (session.readers, session.ended) == (1, False)
        report.left_keys.pop()
        await client.call("ReportDispatcher", report)
        await becomes(client, SMALL, lambda its: its.mode == UNIFORM)


@on_loop
async def test_decisions_are_explained_and_outlive_the_coordinator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with started(tmp_path) as client:
        await client.upload([LARGE.to_bytes()], name="large")
        await client.upload([SMALL.to_bytes()], name="small")
        await reads(client, "sweep-1", LARGE)
        decided = await becomes(client, LARGE, lambda its: its.mode == COOPERATIVE)
        told = json.loads((await client.call("Explain", pb.ExplainRequest(name="sweep-1"))).json)
        assert (told["kind"], told["policy"]) == ("job", "benefit")
        assert told["gets"]["allocation"] == {"mode": "cooperative", "cache_bytes": QUOTA_BYTES}
        assert [more["share"]["hit_ratio"] for more in told["with_more"]] == sorted(
            more["share"]["hit_ratio"] for more in told["with_more"]
        )
        assert told["with_more"][-1]["share"]["hit_ratio"] > told["gets"]["hit_ratio"]
        assert told["probes"] == {"sweep-1": {"waits_for": ""}}, "nobody reports of it"
        with pytest.raises(errors.NotFoundError, match="no job of that name reads now"):
            await client.call("Explain", pb.ExplainRequest(name="nobody"))
        assert await asyncio.to_thread(main, ["explain", "large", "--service", f"unix:{tmp_path}/socket"]) == 0
        printed = capsys.readouterr().out
        assert "by policy benefit" in printed
        assert "2 x cache" in printed
        before = json.loads((await client.call("Explain", pb.ExplainRequest(name="large"))).json)["history"]
        assert before
    async with started(tmp_path) as client:
        again = await client.call("GetCache", pb.GetCacheRequest(digest_id=LARGE.digest_id))
        assert again == decided, "no chunk is cut anew because the coordinator was"
        await reads(client, "sweep-1", LARGE)
        await reads(client, "sweep-2", SMALL)  # once that is decided, the other has been looked at, too
        await becomes(client, SMALL, lambda its: its.decided_by == "benefit")
        after = json.loads((await client.call("Explain", pb.ExplainRequest(name="large"))).json)["history"]
        assert after[: len(before)] == before


@on_loop
async def test_another_policy_decides_from_now_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with started(tmp_path) as client:
        await client.upload([SMALL.to_bytes()], name="small")
        await reads(client, "a", SMALL)
        await becomes(client, SMALL, lambda its: its.decided_by == "benefit")
        where = ["--service", f"unix:{tmp_path}/socket"]
        assert await asyncio.to_thread(main, ["policy", "none", *where]) == 0
        await becomes(client, SMALL, lambda its: its.mode == NONE and its.decided_by == "none")
        assert await asyncio.to_thread(main, ["policy", "nonsense", *where]) == 1
        assert "silod_greedy" in capsys.readouterr().err, "it says which there are"
        assert await asyncio.to_thread(main, ["policy", *where]) == 0
        assert capsys.readouterr().out == "none (chosen; --policy=benefit)\n"
