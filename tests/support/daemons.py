"""The node that a cache directory's first user has started: found, and ended with a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest


def daemons(directory: Path) -> list[psutil.Process]:
    """The nodes that keep it: one, or none."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if f"--cache_dir={directory}" in line and "tfquiver.service.node.main" in line:
            found.append(process)
    return found


def end_daemons(directory: Path) -> None:
    """Raises AssertionError when one stays."""
    ending = daemons(directory)
    for process in ending:
        process.terminate()
    _, alive = psutil.wait_procs(ending, timeout=60)
    assert not alive


def cache_dir_fixture(stopped: bool = False) -> Any:
    """`cache_dir = cache_dir_fixture()`: a directory, without the node that a test has started there when that is over.
    `stopped`: the node may be (SIGSTOP)."""

    from tfquiver.node_daemon_and_notes_in_directories import (
        endpoints,  # who ends daemons only has nothing of ours imported
    )

    @pytest.fixture(name="cache_dir")
    def cache_dir(tmp_path: Path) -> Iterator[Path]:
        directory = tmp_path / "cache"
        yield directory
        if stopped:
            for node in daemons(directory):
                node.resume()
        endpoints.close_all()
        end_daemons(directory)

    return cache_dir
