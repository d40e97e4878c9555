"""What a run of tests has mounted is nobody else's, and ends with it, also where it is killed, whatever it was at."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.support import own_mounts
from tests.support.cluster import wait_until
from tests.support.privileges import needs_disks

pytestmark = needs_disks
_RUN = """
import sys
from pathlib import Path
from tests.support import own_mounts
assert own_mounts.begin()
from tests.support.disks import ext4, tmpfs
base = Path(sys.argv[1])
with tmpfs(base / "small", 1 << 20) as small, ext4(base) as disk:
    mounted = {str(small), str(disk.path)} & set(own_mounts.points())
    disk.freeze()
    print(len(mounted), flush=True)
    sys.stdin.read()
"""


def _loop_files() -> list[str]:
    """The files that are disks now."""
    found = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found.append(path.read_text())
        except OSError:  # no more
            continue
    return found


def test_a_run_that_is_killed_leaves_no_mounts_and_no_loop_devices(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _RUN, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as run:
        assert run.stdout is not None
        try:
            assert run.stdout.readline() == "2\n"
            assert any(str(tmp_path) in name for name in _loop_files())
            assert not [point for point in own_mounts.points() if str(tmp_path) in point]
        finally:
            os.killpg(run.pid, signal.SIGKILL)  # as `timeout` does
    wait_until(lambda: not any(str(tmp_path) in name for name in _loop_files()), "the disk is nobody's")
    for name in ("small", "disk"):
        shutil.rmtree(tmp_path / name)
