"""A mount that is taken away while processes with mounts of their own see it still: it ends when they read no more.

Containers do, and what `ip netns exec` runs, if they were started while it stood.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import rotating, warm
from tests.support.mounted import ENDS_S, command, mounted
from tests.support.privileges import needs_mounts
from tfquiver.mounting import mount_points

pytestmark = needs_mounts
# Opens a file, says so; at a line on standard input reads it, says how much, and closes it; at the next one ends.
READS = """
import sys
with open(sys.argv[1], "rb") as file:
    print("open", flush=True)
    sys.stdin.readline()
    print(len(file.read()), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rotating.write(tmp_path / "source", 4)
    return tmp_path / "source"


class Elsewhere:
    """A process with mounts of its own, in which nothing is taken away that is elsewhere."""

    def __init__(self, *arguments: object) -> None:
        own = ["unshare", "--mount", "--propagation=private", sys.executable, "-c", READS, *map(str, arguments)]
        self._process = subprocess.Popen(own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> None:
        self._process.communicate(timeout=ENDS_S)


def test_who_reads_elsewhere_reads_on_and_then_it_ends(tmp_path: Path, source: Path) -> None:
    file = sorted(source.iterdir())[0]
    with mounted(tmp_path / "mnt", tmp_path / "cache", [f"{source}/*"]) as mount:
        elsewhere = Elsewhere(mount.point / file.name)
        assert elsewhere.says() == "open"
        done = warm.run(command("unmount", mount.point), capture_output=True, text=True)
        assert "is unmounted" in done.stdout, done.stderr
        assert mount_points.at(mount.point) is None
        with pytest.raises(subprocess.TimeoutExpired):
            mount.process.wait(3.0)
        elsewhere.go_on()
        assert int(elsewhere.says()) == file.stat().st_size
        assert mount.process.wait(ENDS_S) == 0, "though it is seen there still"
        elsewhere.end()


def test_whoever_has_nothing_but_his_working_directory_there_reads_on(tmp_path: Path, source: Path) -> None:
    """After `unmount --lazy`, which is to be gone when the last one has left."""
    file = sorted(source.iterdir())[0]
    reads = "import sys; input(); print(len(open(sys.argv[1], 'rb').read()))"
    with mounted(tmp_path / "mnt", tmp_path / "cache", [f"{source}/*"]) as mount:
        there = subprocess.Popen(
            [sys.executable, "-c", reads, file.name],
            cwd=mount.point, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        mount_points.unmount(mount.point, lazy=True)
        with pytest.raises(subprocess.TimeoutExpired):
            mount.process.wait(3.0)
        assert there.communicate("\n", ENDS_S)[0] == f"{file.stat().st_size}\n"
        assert mount.process.wait(ENDS_S) == 0


def test_what_is_mounted_there_since_stays_when_it_ends(tmp_path: Path, source: Path) -> None:
    file = sorted(source.iterdir())[0]
    with mounted(tmp_path / "mnt", tmp_path / "cache", [f"{source}/*"]) as mount:
        elsewhere = Elsewhere(mount.point / file.name)
        assert elsewhere.says() == "open"
        mount_points.unmount(mount.point)
        with mounted(mount.point, tmp_path / "cache", [f"{source}/*"], own_daemon=False) as since:
            elsewhere.go_on()
            assert int(elsewhere.says()) == file.stat().st_size
            assert mount.process.wait(ENDS_S) == 0
            assert mount_points.at(since.point) is not None
            assert (since.point / file.name).read_bytes() == file.read_bytes()
        elsewhere.end()


def test_a_mount_without_descriptors_stays(tmp_path: Path, source: Path) -> None:
    """It looks twice a second whether it was taken away; that it cannot look says nothing."""
    with mounted(tmp_path / "mnt", tmp_path / "cache", [f"{source}/*"]) as mount:
        limits = resource.prlimit(mount.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(mount.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        with pytest.raises(subprocess.TimeoutExpired):
            mount.process.wait(2.0)
        resource.prlimit(mount.process.pid, resource.RLIMIT_NOFILE, limits)
        file = sorted(source.iterdir())[0]
        assert (mount.point / file.name).read_bytes() == file.read_bytes()
