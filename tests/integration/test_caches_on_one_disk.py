"""Two caches on one disk that both count on its room: who starts the second one is told so, here and in its log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import die_with_parent, first_line, tensorflow_env, wait_until

pytestmark = pytest.mark.slow
READY_S = 120.0
MORE_THAN_THERE_IS = "--quota=900TB"


def started(command: list[str], said: Path) -> subprocess.Popen[bytes]:
    """As a person starts it: what runs here is found by the command lines of processes."""
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=stderr, env=tensorflow_env(),
            preexec_fn=die_with_parent,
        )  # fmt: skip
    json.loads(first_line(process, READY_S))
    return process


def test_who_starts_another_cache_on_a_disk_is_told_that_both_count_on_its_room(tmp_path: Path) -> None:
    old, new, said = tmp_path / "old", tmp_path / "new", tmp_path / "said"
    node = ["tfquiver.service.node.main", f"--cache_dir={old}", MORE_THAN_THERE_IS]
    up = ["tfquiver", "up", str(new), "--workers=0", "--port=0", "--json", MORE_THAN_THERE_IS]
    with started(node, tmp_path / "node.log") as first:
        try:
            with started(up, said) as second:
                try:
                    for told in said, new / "log" / "node.log":
                        wait_until(lambda told=told: "caches on one disk: " in told.read_text(), str(told), READY_S)  # type: ignore[misc]
                        [line] = [one for one in told.read_text().splitlines() if "caches on one disk: " in one]
                        assert f"{old} 900 TB" in line and f"{new} 900 TB" in line and "give each a quota" in line
                finally:
                    second.terminate()
        finally:
            first.terminate()
