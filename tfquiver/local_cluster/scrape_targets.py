"""`tfquiver up --prometheus FILE`: where Prometheus finds the metrics of each server, as it takes them from a file
(`file_sd_configs`). Written again whenever a server is, for its port may be another one then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfquiver import durable, named_files

_READABLE = 0o644  # Prometheus is another user, as a rule


def write(path: Path, directory: Path, metrics: Mapping[str, str]) -> None:
    """Raises the typed error of a failed write: no file is there then, if the disk lets that be.

    Args:
      directory: in which `up` runs.
      metrics: name of a server -> host:port.
    """
    try:
        durable.write_or_forget(path, json.dumps(groups(directory, metrics), indent=1).encode() + b"\n", _READABLE)
    except (OSError, ValueError) as error:
        raise named_files.not_written(error, f"--prometheus={path}", path) from error


def groups(directory: Path, metrics: Mapping[str, str]) -> list[dict[str, Any]]:
    """`instance` is the same whatever port a server has: its counters go on, and alerts name it as people do."""
    return [
        {"targets": [address], "labels": {"instance": f"{name} in {directory}"}}
        for name, address in metrics.items()
        if address
    ]
