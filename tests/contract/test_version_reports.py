"""A worker tells a real coordinator its version, whatever has gone wrong the last time."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_served import served
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.worker import version_reports
from tfquiver.version import VERSION


@on_loop
async def test_it_is_told_after_errors_that_nobody_has_thought_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_reports, "INTERVAL_S", 0.01)
    told, turns = asyncio.Event(), itertools.count()
    loop = asyncio.get_running_loop()
    rpc.on_served(lambda method, *_: loop.call_soon_threadsafe(told.set) if method == "ReportWorker" else None)
    async with served(tmp_path) as (server, _client), asyncio.timeout(20):

        def coordinator() -> str:
            match next(turns):
                case 0:
                    raise ZeroDivisionError("where the coordinator is nobody can say")
                case 1:
                    return f"unix:{tmp_path}/nobody"
                case _:
                    return f"localhost:{server.bound_port}"

        telling = asyncio.create_task(version_reports.go_on(coordinator, "worker:1", ""))
        try:
            await told.wait()
        finally:
            rpc.on_served(None)
            telling.cancel()
            await asyncio.wait([telling])
        assert telling.cancelled()
        worker = pb.ServiceWorker(address="worker:1")
        server.coordinator.dispatchers.report(pb.DispatcherInfo(address="dispatcher:1", workers=[worker]))
        assert server.coordinator.dispatchers.live()[0].workers[0].version == VERSION
