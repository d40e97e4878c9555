"""Where a node that was started by hand logs to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tfquiver.node_daemon_and_notes_in_directories import logged_to

PROGRAM = "import sys; from pathlib import Path; from tfquiver.node_daemon_and_notes_in_directories import logged_to; "
PROGRAM += "logged_to.write(Path(sys.argv[1]))"


def started(directory: Path, stderr: Path | None) -> Path | None:
    command = [sys.executable, "-c", PROGRAM, str(directory)]
    if stderr is None:
        subprocess.run(command, stderr=subprocess.PIPE, check=True)
    else:
        with stderr.open("w") as file:
            subprocess.run(command, stderr=file, check=True)
    return logged_to.read(directory)


def test_a_file_is_remembered_and_nothing_else(tmp_path: Path) -> None:
    log, directory = tmp_path / "node.err", tmp_path / "cache"
    (directory / "log").mkdir(parents=True)
    assert started(directory, log) == log
    assert started(directory, None) is None, "a pipe"
    assert started(directory, directory / "log" / "node.log") is None, "there it is looked for by itself"
    assert started(directory, log) == log
    log.unlink()
    assert logged_to.read(directory) is None


def test_what_others_have_written_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hosts")
    for said in (b"", b"\0", b"relative", b"/dev/null", str(tmp_path / "link").encode(), b"/" + b"x" * 9000):
        (tmp_path / logged_to.FILE).write_bytes(said + b"\n")
        assert logged_to.read(tmp_path) is None, said
