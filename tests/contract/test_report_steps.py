"""`ReportSteps`: what training processes say reaches plans, probes, status and explain; what cannot be is refused."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient, new_coordinator
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past import listing_calls, step_calls
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.step_calls import INTERVAL_MS
from tfquiver.service.coordinator.measuring_jobs_and_stores import step_meters
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import Explanation

DIGEST = numbered_digest(200, "data")
DATA = DIGEST.digest_id


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[CoordinatorClient]:
    async with new_coordinator(directory) as client:
        await client.upload([DIGEST.to_bytes()], name="data")
        yield client


async def reads(client: CoordinatorClient, job: str, key: str = "key", seconds: float = 2.0) -> None:
    """A reader that has reported: 1 MB/s, a quarter of it from the store, half of its time without data."""
    await beat(client)
    opened = await client.call("OpenReader", pb.OpenReaderRequest(
        reader_id=f"reader of {job}{key}", node_id="node", incarnation="1", digest_id=DATA, job=job, session_key=key
    ))  # fmt: skip
    size = int(seconds * 1e6)
    for part in (0, size):
        await beat(client, pb.ReaderReport(
            session_id=opened.session_id, reader_id=f"reader of {job}{key}", records=part // 1000, bytes=part,
            waited_us=part // 2, elapsed_us=part, hit_bytes=part * 3 // 4, missed_bytes=part // 4,
        ))  # fmt: skip


async def beat(client: CoordinatorClient, *reports: pb.ReaderReport) -> None:
    node = types_pb2.NodeInfo(node_id="node", quota_bytes=1 << 30)
    await client.call("Heartbeat", pb.HeartbeatRequest(node=node, incarnation="1", readers=reports))


def report(steps: int = 0, **fields: Any) -> pb.ReportStepsRequest:
    fields = {"job": "job", "process": "p", "accelerators": 8, "records": 32 * steps} | fields
    return pb.ReportStepsRequest(steps=steps, step_us=30_000 * steps, between_us=10_000 * steps, **fields)


async def session(client: CoordinatorClient) -> pb.SessionInfo:
    (info,) = (await client.call("ListSessions", pb.ListSessionsRequest())).sessions
    return info  # type: ignore[no-any-return]


async def explanation(client: CoordinatorClient, name: str) -> Any:
    """Once the job has been seen to read."""
    async with asyncio.timeout(20):
        while True:
            try:
                return json.loads((await client.call("Explain", pb.ExplainRequest(name=name))).json)
            except errors.NotFoundError:
                await asyncio.sleep(0.05)


@on_loop
async def test_steps_are_known_and_the_reply_says_what_is_measured(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        await reads(client, "job")
        reply = await client.call("ReportSteps", report(session_key="key"))
        assert (reply.interval_ms, reply.known) == (INTERVAL_MS, True)
        assert (reply.read_bytes, reply.store_bytes) == (2_000_000, 500_000)
        assert (reply.hit_share, reply.stall_share) == (pytest.approx(0.75), pytest.approx(0.5))
        assert reply.bytes_per_s == pytest.approx(1e6, rel=0.01)
        assert not (await session(client)).HasField("step_ms"), "no step yet"
        await client.call("ReportSteps", report(100, session_key="key"))
        await client.call("ReportSteps", report(50, session_key="key"))  # late
        info = await session(client)
        assert (info.step_ms, info.between_ms, info.accelerators) == (pytest.approx(30), pytest.approx(10), 8)
        await client.call("ReportSteps", report(10, session_key="key", process="another"))
        assert (await session(client)).accelerators == 16
        explained = await explanation(client, "job")
        assert explained["steps"]["job"]["accelerators"] == 16


@on_loop
async def test_a_job_is_reported_by_its_name_or_by_its_key(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        await reads(client, "", "a key:of exactly once")
        assert (await client.call("ReportSteps", report(job="", session_key="a key"))).known
        await reads(client, "named")
        assert (await client.call("ReportSteps", report(job="named"))).known


@on_loop
async def test_of_a_job_that_nobody_knows_nothing_is_kept(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        for number in range(100):
            reply = await client.call("ReportSteps", report(job=f"made up {number}"))
            assert not reply.known
            assert reply.interval_ms == INTERVAL_MS
        await reads(client, "job")
        assert (await client.call("ReportSteps", report())).known


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("job", ""), ("job", "x" * 513), ("process", ""), ("process", "x" * 513), ("session_key", "x" * 513),
        ("records", 2**64 - 1), ("accelerators", 2**32 - 1),
    ],
)  # fmt: skip
@on_loop
async def test_what_cannot_be_is_refused_by_its_name(tmp_path: Path, field: str, wrong: Any) -> None:
    async with started(tmp_path) as client:
        await reads(client, "job")
        with pytest.raises(errors.InvalidArgumentError, match=field):
            await client.call("ReportSteps", report(**{field: wrong}))
        with pytest.raises(errors.InvalidArgumentError, match="step"):
            await client.call("ReportSteps", pb.ReportStepsRequest(job="job", process="p", steps=2**63))


@on_loop
async def test_thousands_of_processes_report_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_calls, "MOST_PER_S", 1)
    monkeypatch.setattr(step_meters, "_COUNT_S", 0.0)
    intervals = []
    async with started(tmp_path) as client:
        await reads(client, "job")
        for number in range(30):
            reply = await client.call("ReportSteps", report(process=f"p{number}"))
            intervals.append(reply.interval_ms)
    assert intervals[:6] == [INTERVAL_MS] * 6
    assert intervals[10] == 10_000
    assert intervals[-1] == step_calls.LONGEST_MS


@on_loop
async def test_others_are_served_while_many_sessions_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_calls, "_AT_A_TIME", 2)
    async with started(tmp_path) as client:
        for number in range(5):
            await reads(client, "job", f"key{number}")
        turns, told = [0], list[int]()
        info = listing_calls.ListingCalls._info

        def noted(self: listing_calls.ListingCalls, session: Any) -> pb.SessionInfo:
            told.append(turns[0])
            return info(self, session)

        async def counts() -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        monkeypatch.setattr(listing_calls.ListingCalls, "_info", noted)
        other = asyncio.create_task(counts())
        reply = await client.call("ListSessions", pb.ListSessionsRequest(within_ms=60_000))
        other.cancel()
    assert [one.session_key for one in reply.sessions] == [f"key{number}" for number in range(4, -1, -1)]
    assert len(set(told)) == 3


@on_loop
async def test_an_explanation_is_written_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand jobs it takes long enough for readers to wait for it."""
    threads = set[int]()
    as_json = Explanation.as_json

    def noted(self: Explanation) -> dict[str, Any]:
        threads.add(threading.get_ident())
        return as_json(self)

    monkeypatch.setattr(Explanation, "as_json", noted)
    async with started(tmp_path) as client:
        await reads(client, "job")
        await explanation(client, "job")
    assert threads
    assert threading.get_ident() not in threads
