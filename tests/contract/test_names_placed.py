"""Content has one placement, whatever it is called: a second name for it moves nothing of the first one's unasked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, started
from tests.support.coordinator_served import served
from tests.support.named_here import of, scanned, until_done
from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator

ONE, TWO = types_pb2.PlacementRule(stripe=1), types_pb2.PlacementRule(stripe=2)


def rule(coordinator: Coordinator) -> types_pb2.PlacementRule | None:
    return coordinator.caching.placed.rules.find(DIGEST.digest_id)


async def deleted(coordinator: Coordinator, name: str) -> None:
    await coordinator.named.delete(EVERYBODY, name, force=True)
    await coordinator.named.look()
    [task] = coordinator.named.tasks
    await coordinator.named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True))
    await coordinator.named.look()


@on_loop
async def test_a_second_name_that_would_place_it_otherwise_is_refused(tmp_path: Path) -> None:
    """The first one was kept elsewhere from then on, without a word."""
    async with started(tmp_path) as coordinator:
        small, again = of("small"), of("again")
        small.placement.CopyFrom(ONE)
        again.placement.CopyFrom(TWO)
        await coordinator.named.create(EVERYBODY, small)
        assert (await until_done(coordinator, "small")).placed
        refused = r"small is of the same content and is kept on all nodes, on at most 1 of them: .* dataset place small"
        with pytest.raises(errors.InUseError, match=refused):
            await coordinator.named.create(EVERYBODY, again)
        again.placement.CopyFrom(ONE)
        await coordinator.named.create(EVERYBODY, again)
        assert (await until_done(coordinator, "again")).placed
        plain = await coordinator.named.create(EVERYBODY, of("plain"))
        assert not plain.HasField("placed")
        assert rule(coordinator) == ONE


@on_loop
async def test_where_that_is_seen_after_the_scan_only_it_says_why_until_the_first_name_is_gone(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        small = of("small")
        small.placement.CopyFrom(ONE)
        await coordinator.named.create(EVERYBODY, small)
        await until_done(coordinator, "small")
        spec = pb.DatasetSpec(name="again", sources=["/x"], placement=TWO)
        await coordinator.named.create(EVERYBODY, spec)
        told = await scanned(coordinator, "again", DIGEST)
        assert (told.HasField("placed"), told.placed) == (True, False)
        assert told.reason.startswith("not placed: placement: small is of the same content")
        assert rule(coordinator) == ONE
        await deleted(coordinator, "small")
        coordinator.named._not_before.clear()
        told = await until_done(coordinator, "again")
        assert (told.placed, told.reason) == (True, "")
        assert rule(coordinator) == TWO


@pytest.mark.slow
@on_loop
async def test_a_placement_is_told_of_the_name_that_was_asked_and_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.tfqd").write_bytes(DIGEST.to_bytes())
    async with served(tmp_path / "work") as (server, _):
        beat(server.coordinator)
        where = f"--service=localhost:{server.bound_port}"

        async def command(*arguments: str) -> int:
            return await asyncio.to_thread(main, ["dataset", *arguments, where])

        for name in ("small", "again"):
            assert await command("create", name, f"--digest={tmp_path / 'x.tfqd'}") == 0
        capsys.readouterr()
        assert await command("place", "again", "--stripe", "2") == 0
        first, second, *_ = capsys.readouterr().out.splitlines()
        assert first.startswith("again is kept on ")
        assert second == "small: of the same content, and so kept there, too"
        assert await command("create", "third", f"--digest={tmp_path / 'x.tfqd'}", "--stripe", "1") == 1
        assert "of the same content and is kept on all nodes, on at most 2 of them" in capsys.readouterr().err
        assert await command("share", "again", "--everybody") == 0
        assert capsys.readouterr().out.startswith("data set:   again\n")
