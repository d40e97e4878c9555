"""`tfquiver up` in a directory whose disk hangs while it serves: it ends soon after it is told to, and so does all that
it has started."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.support.cluster import die_with_parent, first_line, tensorflow_env, wait_until
from tests.support.disks import ext4
from tests.support.hanging_disk import hanging_disk
from tests.support.privileges import needs_disks, needs_fuse

pytestmark = pytest.mark.long
READY_S = 240.0
SOON_S = 12.0  # seven are usual; it was 14 to 19


@contextmanager
def up(at: Path, said: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """With its servers."""
    command = [sys.executable, "-m", "tfquiver", "up", str(at), "--port=0", "--dispatcher_port=0", "--json", *arguments]
    with (
        said.open("wb") as stderr,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, env=tensorflow_env(), preexec_fn=die_with_parent
        ) as process,
    ):
        try:
            first_line(process, READY_S)
            yield process, psutil.Process(process.pid).children(recursive=True)
        finally:
            process.kill()


def is_alive(server: psutil.Process) -> bool:
    """Not one that has ended, and of which its parent, or who has it from that, has not heard yet."""
    with suppress(psutil.NoSuchProcess):
        return server.is_running() and server.status() != psutil.STATUS_ZOMBIE
    return False


@needs_fuse
def test_it_ends_within_seconds_and_leaves_nothing(tmp_path: Path) -> None:
    """Its servers gave up one after the other: it took 14 s."""
    with (
        hanging_disk(tmp_path) as disk,
        up(disk.path / "cache", tmp_path / "said", "--quota=50MB") as (process, servers),
    ):
        try:
            assert len(servers) >= 4
            disk.hang()
            process.terminate()
            began_s = time.monotonic()
            assert process.wait(60) == 0
            assert time.monotonic() - began_s < SOON_S
            assert not [server for server in servers if is_alive(server)]
        finally:
            disk.go_on()
            for server in servers:
                if server.is_running():
                    server.kill()


@needs_fuse
def test_it_hears_that_it_is_to_end_while_it_starts_a_server_again_there(tmp_path: Path) -> None:
    """It noted on that disk that the server was away, and heard nothing any more."""
    said = tmp_path / "said"
    with hanging_disk(tmp_path) as disk, up(disk.path / "cache", said, "--quota=50MB") as (process, servers):
        try:
            disk.hang()
            (worker,) = [server for server in servers if "tfquiver.service.worker.main" in server.cmdline()]
            worker.kill()
            wait_until(lambda: "it is started again" in said.read_text(), "that it has ended is seen")
            process.terminate()
            assert process.wait(30) == 0
            assert not [server for server in servers if is_alive(server)]
        finally:
            disk.go_on()
            for server in servers:
                if server.is_running():
                    server.kill()


@needs_disks
def test_whom_the_kernel_does_not_let_go_of_it_names_and_does_not_wait_for(tmp_path: Path) -> None:
    """It waited for as long as the volume was frozen."""
    said = tmp_path / "said"
    with ext4(tmp_path) as disk, up(disk.path / "cache", said, "--quota=4MiB", "--workers=0") as (process, servers):
        try:
            disk.freeze()
            process.terminate()
            assert process.wait(60) == 0
        finally:
            disk.thaw()
        for server in servers:
            wait_until(lambda server=server: not server.is_running(), "it ends", 20)  # type: ignore[misc]
    held = [line for line in said.read_text().splitlines() if "waits in the kernel" in line]
    assert all(line.endswith("it ends when that answers") for line in held)
