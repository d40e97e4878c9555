"""`tfquiver dataset refresh --wait` of a source that cannot be scanned any more, or can."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts
from tests.support.coordinator_served import served
from tests.support.named_here import OTHER
from tfquiver.cli.main import main
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.coordinator.coordinator import Coordinator


async def scan(coordinator: Coordinator, told: set[str], digest_id: bytes, trouble: str = "") -> None:
    """By the node n, as soon as it is asked for one that it has not `told` of: the last one is listed for a moment."""
    async with asyncio.timeout(20):
        while not (new := [one for one in coordinator.named.tasks if one.HasField("scan") and one.task_id not in told]):
            await asyncio.sleep(0.01)
    (task,) = new
    told.add(task.task_id)
    over = pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True, digest_id=digest_id)
    over.trouble, over.error_code = trouble, 5 if trouble else 0
    assert await coordinator.named.report(over)


@on_loop
async def test_that_the_version_before_is_read_on_is_said_by_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was 0: a job that was started after it read what it was to read no more."""
    async with served(tmp_path / "work") as (server, _):
        coordinator, where = server.coordinator, f"--service=localhost:{server.bound_port}"
        beat(coordinator)
        for digest in (DIGEST, OTHER):
            await coordinator.catalogue.register("", b"", None, parts(digest))

        told = set[str]()

        async def command(digest_id: bytes, *arguments: str, trouble: str = "") -> tuple[int, str]:
            done = asyncio.to_thread(main, ["dataset", *arguments, "--wait", where])
            code, _ = await asyncio.gather(done, scan(coordinator, told, digest_id, trouble))
            return code, capsys.readouterr().out

        assert await command(DIGEST.digest_id, "create", "train", "--source=/x") == (0, "train: Ready\n")
        code, said = await command(b"", "refresh", "train", trouble="/x: there is nothing")
        assert (code, said.partition(" (")[0].strip()) == (3, "train: Ready: /x: there is nothing")
        assert await command(OTHER.digest_id, "refresh", "train") == (0, "train: Ready\n")
