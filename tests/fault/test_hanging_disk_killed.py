"""The disk that hangs in tests (tests/support/hanging_disk.py) lets go of who is killed, whatever he was about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.hanging_disk import hanging_disk
from tests.support.privileges import needs_fuse

_ROUNDS, _WRITERS = 5, 3
_WRITES = """
import os, sys
for number in range(1 << 30):
    with open(f"{sys.argv[1]}/{os.getpid()}-{number}", "wb") as file:
        file.write(bytes(4096))
    if number == 50:
        print(flush=True)
"""


@needs_fuse
def test_who_waits_for_it_can_be_killed(tmp_path: Path) -> None:
    """The kernel held, for as long as it hung, whose request was half answered when it was stopped: in three rounds of
    eight."""
    for number in range(_ROUNDS):
        (base := tmp_path / str(number)).mkdir()
        with hanging_disk(base) as disk:
            command = [sys.executable, "-c", _WRITES, str(disk.path)]
            writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(_WRITERS)]
            try:
                for writer in writers:
                    assert writer.stdout is not None and writer.stdout.readline()
                disk.hang()
                for writer in writers:
                    writer.kill()
                for writer in writers:
                    assert writer.wait(10) == -9
            finally:
                disk.go_on()
                for writer in writers:
                    writer.kill()
                    writer.communicate()
