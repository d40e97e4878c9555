"""What the demo starts, as processes: how they fail, and how they end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.cluster import wait_until
from tfquiver import errors
from tfquiver.demo import op
from tfquiver.demo.processes import Processes
from tfquiver.plain_text import of_error

_MODULE = "tests.support.process_with_child"


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_compilers_end_with_the_process_that_has_started_them(tmp_path: Path) -> None:
    """A demo that was interrupted while it compiled left g++ behind."""

    async def child() -> int:
        async with Processes(tmp_path, {"PYTHONPATH": str(Path.cwd())}) as processes:
            started = await processes.start("op", _MODULE, with_children=True)
            pid = int((await started.ready())["child"])
            assert _is_there(pid)
            return pid

    pid = asyncio.run(child())
    wait_until(lambda: not _is_there(pid), "its child is gone", 10.0)


def test_the_end_of_the_log_of_what_failed_stands_on_lines_of_its_own(tmp_path: Path) -> None:
    async def fail() -> None:
        async with Processes(tmp_path, {"PYTHONPATH": str(Path.cwd())}) as processes:
            await (await processes.start("dispatcher", _MODULE, "3")).ready()

    with pytest.raises(errors.UnavailableError) as raised:
        asyncio.run(fail())
    assert [line.strip() for line in of_error(raised.value).splitlines()] == [
        "dispatcher ended with exit code 3",
        "first line",
        "last line",
    ]


def test_it_is_known_whether_the_package_brings_the_op_for_this_tensorflow(tmp_path: Path) -> None:
    assert not op.is_brought(tmp_path)
    assert op.is_brought(), "this one has compiled it"
