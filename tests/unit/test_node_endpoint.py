"""What is said where no node runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint


def test_how_a_node_is_started_there(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match=r"^no node runs in .*; a process that calls tfquiver\.dataset with"):
        read_endpoint(tmp_path)
    up_file.write(tmp_path, up_file.Ports(coordinator=5040))
    with pytest.raises(errors.NotFoundError, match=f"`tfquiver up {tmp_path}` starts again what ran there"):
        read_endpoint(tmp_path)
