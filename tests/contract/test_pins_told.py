"""A pin that could not have its room is told as such, as long as that is so: by the coordinator, by the commands."""

from __future__ import annotations

import asyncio
import contextlib
import io
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, started
from tests.support.coordinator_served import served
from tests.support.named_here import of, until_done
from tests.support.planning import beat as beat_with_disk
from tfquiver.cli.main import main
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator


async def warmed(coordinator: Coordinator, name: str) -> pb.NamedDataset:
    await coordinator.named.look()
    [task] = coordinator.named.tasks
    assert await coordinator.named.report(pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True))
    return await until_done(coordinator, name)


@on_loop
async def test_whether_it_has_its_room_is_told_beside_that_it_is_to_have_some(tmp_path: Path) -> None:
    """Only the wish was told, and the reason went with the next prefetch."""
    async with started(tmp_path) as coordinator:
        beat(coordinator, quota_bytes=1)
        await coordinator.named.create(EVERYBODY, of("train", pin=True))
        told = await until_done(coordinator, "train")
        assert (told.spec.pin, told.HasField("pinned"), told.pinned) == (True, True, False)
        assert told.reason.startswith("not pinned: ")
        assert told.reason_s > 0
        await coordinator.named.prefetch(EVERYBODY, "train")
        assert (await warmed(coordinator, "train")).reason.startswith("not pinned: ")
        beat(coordinator)
        await coordinator.named.pin(EVERYBODY, "train", True)
        told = await until_done(coordinator, "train")
        assert (told.pinned, told.reason, told.reason_s) == (True, "", 0)
        await coordinator.named.pin(EVERYBODY, "train", False)
        assert not (await until_done(coordinator, "train")).HasField("pinned")


@pytest.mark.slow
@on_loop
async def test_a_creation_whose_pin_finds_no_room_says_so_by_its_exit_code(tmp_path: Path) -> None:
    """It was 0, and `list` said that it is pinned."""
    (tmp_path / "train.tfqd").write_bytes(DIGEST.to_bytes())
    async with served(tmp_path / "work") as (server, _):
        where = f"--service=localhost:{server.bound_port}"

        async def command(*arguments: str) -> tuple[int, str]:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                code = await asyncio.to_thread(main, ["dataset", *arguments, where])
            return code, out.getvalue()

        beat(server.coordinator, quota_bytes=1)
        made = ["create", "train", f"--digest={tmp_path / 'train.tfqd'}", "--pin"]
        code, said = await command(*made, "--wait")
        assert code == 3
        assert said.startswith("train: Ready, pin waits for room")
        assert "pinned:     waits for room" in (await command("show", "train"))[1]
        assert "pin waits for room" in (await command("list"))[1]
        beat(server.coordinator)
        code, said = await command("pin", "train")
        assert (code, said) == (0, "train: Ready, pinned\n")
        assert (await command(*made, "--wait"))[0] == 0
        assert "pinned:     yes" in (await command("show", "train"))[1]


@on_loop
async def test_figures_that_change_with_each_heartbeat_are_not_journaled_each_time(tmp_path: Path) -> None:
    """The message names what disks have room for, which others change all the time: each pin that waited was a record
    every ten seconds."""
    clock = ManualClock()
    async with started(tmp_path, node_timeout_s=1e9, clock=clock) as coordinator:
        beat_with_disk(coordinator, "n", 1 << 40, disk_room_bytes=1000)
        await coordinator.named.create(EVERYBODY, of("train", pin=True))
        assert "disks have room for 1.0 kB " in (await until_done(coordinator, "train")).reason
        before = coordinator._log.appended
        for tried in range(20):
            clock.advance(11.0)
            beat_with_disk(coordinator, "n", 1 << 40, disk_room_bytes=2000 + tried)
            await coordinator.named.look()
        assert coordinator._log.appended == before
        beat_with_disk(coordinator, "n", 1)
        clock.advance(301.0)  # where there is less room than before a pin is asked for again after five minutes only
        await coordinator.named.look()
        assert "the live nodes' quotas are 1 B," in (await until_done(coordinator, "train")).reason, "another reason"
