"""The servers of `tfquiver up` while something is wrong that nobody expects: none is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.local_cluster import supervisor
from tfquiver.local_cluster.plan import Wish
from tfquiver.local_cluster.server_process import ServerProcess
from tfquiver.local_cluster.supervisor import Supervisor
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports


class FakeProcess:
    """Runs until it is stopped, or `ended` is set."""

    pid = 1

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def wait(self) -> str:
        await self.ended.wait()
        return "exit code 1"

    async def stop(self) -> bool:
        self.ended.set()
        return True


class Started:
    """In place of ServerProcess: what was started; raises `trouble` where that is to be started."""

    def __init__(self, trouble: Mapping[str, Exception]) -> None:
        self.trouble, self.processes = trouble, dict[str, FakeProcess]()

    async def start(self, module: str, arguments: Sequence[str], log: Path, _: Any) -> tuple[FakeProcess, Any]:
        if log.stem in self.trouble:
            raise self.trouble[log.stem]
        self.processes[log.stem] = FakeProcess()
        return self.processes[log.stem], {"port": 1}


@on_loop
async def test_what_runs_is_stopped_whatever_else_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = Started({"node": RuntimeError("nobody expects this")})
    monkeypatch.setattr(supervisor, "ServerProcess", started)
    one = Supervisor(Wish(tmp_path, workers=0), Ports(1, 2), tmp_path, {}, print)
    with pytest.raises(RuntimeError, match="nobody expects this"):
        await one.run(asyncio.Event(), lambda: None)
    assert started.processes["coordinator"].ended.is_set()


@on_loop
async def test_nothing_is_started_in_a_directory_that_is_no_longer_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started, ours = Started({}), [True]
    monkeypatch.setattr(supervisor, "ServerProcess", started)
    one = Supervisor(Wish(tmp_path, workers=0), Ports(1, 2), tmp_path, {}, print, lambda: ours[0])

    def ready() -> None:
        ours[0] = False
        started.processes["node"].ended.set()
        del started.processes["node"]

    async with asyncio.timeout(10):
        with pytest.raises(errors.UnavailableError, match="was deleted: node ended"):
            await one.run(asyncio.Event(), ready)
    assert list(started.processes) == ["coordinator"] and started.processes["coordinator"].ended.is_set()


@on_loop
async def test_nothing_is_tried_again_in_a_directory_that_is_no_longer_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The one who made it again found a server of the `up` before in it."""
    trouble: dict[str, Exception] = {}
    started, ours = Started(trouble), [True]
    monkeypatch.setattr(supervisor, "ServerProcess", started)

    def say(line: str) -> None:
        if "did not start" in line:
            ours[0] = False
            trouble.clear()

    def ready() -> None:
        trouble["node"] = errors.UnavailableError("its directory is being deleted")
        started.processes.pop("node").ended.set()

    async with asyncio.timeout(10):
        with pytest.raises(errors.UnavailableError, match="was deleted: node ended"):
            await Supervisor(Wish(tmp_path, workers=0), Ports(1, 2), tmp_path, {}, say, lambda: ours[0]).run(
                asyncio.Event(), ready
            )
    assert list(started.processes) == ["coordinator"]


@on_loop
async def test_a_log_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(errors.UnavailableError, match=r"gone/node\.log: No such file or directory"):
        await ServerProcess.start("tfquiver", (), tmp_path / "gone" / "node.log", {})


class Hangs(FakeProcess):
    """It ends when the last one of its cluster is told to."""

    def __init__(self, all_told: asyncio.Barrier, told: list[str], name: str) -> None:
        super().__init__()
        self._all_told, self._told, self._name = all_told, told, name

    async def stop(self) -> bool:
        self._told.append(self._name)
        await self._all_told.wait()
        return self._name != "node"


@on_loop
async def test_who_does_not_end_is_not_waited_for_before_the_others_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a disk that hangs each gave up after its own time, one after the other: 14 s."""
    monkeypatch.setattr(supervisor, "_IN_TURN_S", 0.1)
    monkeypatch.setattr(supervisor, "_NODE_S", 0.1)
    told, said, all_told = list[str](), list[str](), asyncio.Barrier(4)
    started = Started({})
    monkeypatch.setattr(supervisor, "ServerProcess", started)
    made = started.start

    async def start(module: str, arguments: Sequence[str], log: Path, more: Any) -> tuple[FakeProcess, Any]:
        _, fields = await made(module, arguments, log, more)
        return Hangs(all_told, told, log.stem), fields

    monkeypatch.setattr(started, "start", start)
    stop = asyncio.Event()
    async with asyncio.timeout(10):
        await Supervisor(Wish(tmp_path, workers=1), Ports(1, 2), tmp_path, {}, said.append).run(stop, stop.set)
    assert told == ["worker-0", "dispatcher", "node", "coordinator"]
    assert said == [
        "node (pid 1) is killed, but waits in the kernel, for its disk as a rule: it ends when that answers"
    ]
