"""The node that a cache directory's first user has started: found, and ended with a test."""

from __future__ import annotations

from pathlib import Path

import psutil


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
