"""What is said where no node runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

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


_WHOLE = {"version": 1, "node_id": "n", "socket": "/c/r.sock", "control": "unix:/c/c.sock", "coordinator": "head:5040"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"socket": ""},
        {"socket": "reader.sock"},
        {"socket": "/c/\0"},
        {"socket": "/c/\ud800"},
        {"control": "nowhere"},
        {"coordinator": ""},
        {"coordinator": None},
        {"coordinator": "head:99999"},
    ],
)
def test_what_cannot_be_reached_is_damaged(tmp_path: Path, wrong: dict[str, Any]) -> None:
    file = tmp_path / "node.json"
    file.write_text(json.dumps(_WHOLE))
    assert read_endpoint(tmp_path).coordinator == "head:5040"
    file.write_text(json.dumps(_WHOLE | wrong))
    with pytest.raises(errors.DataLossError, match=r"node\.json is damaged"):
        read_endpoint(tmp_path)


def test_a_pipe_is_not_waited_for_and_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    os.mkfifo(file)
    with pytest.raises(errors.DataLossError):
        read_endpoint(tmp_path)
    file.unlink()
    with file.open("wb") as large:
        large.truncate(1 << 40)
    with pytest.raises(errors.DataLossError):
        read_endpoint(tmp_path)
