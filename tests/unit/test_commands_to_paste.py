"""Commands in messages can be pasted, whatever directories and data sets are called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tfquiver import errors, plain_text
from tfquiver.cli import mount
from tfquiver.cli.status_asked_watched_explained import explained_names
from tfquiver.cli.status_tables_and_warnings import mounts_view
from tfquiver.mounting import mount_points
from tfquiver.node_daemon_and_notes_in_directories import up_file


def test_words_for_a_shell() -> None:
    assert plain_text.for_shell(Path("/ssd/cache")) == "/ssd/cache"
    assert plain_text.for_shell("my data") == "'my data'"
    assert plain_text.for_shell("a\nb") == "'a\\nb'"


def test_directories_and_names_are_in_quotes(tmp_path: Path) -> None:
    at = tmp_path / "my data"
    stale: list[dict[str, Any]] = [{"path": str(at), "dataset": "x", "trouble": "stale"}]
    assert mount._said("x", 1, 1, at).endswith(f"`tfquiver unmount '{at}'` takes it away")
    assert explained_names.nothing("my data").endswith("`tfquiver dataset show 'my data'` says how it is cached")
    assert f"`tfquiver unmount '{at}'`" in mounts_view.problems(stale, [{"name": "x", "digest_id": "0" * 64}])[0]
    if os.geteuid() == 0 and mount_points.DEVICE.exists():  # looked for first
        with pytest.raises(errors.InvalidArgumentError, match=f"no such directory; `mkdir -p '{at}'` makes it"):
            mount_points.prepare(at, tmp_path / "cache")
    at.mkdir()
    with pytest.raises(errors.TfquiverError, match=f"start `tfquiver up '{at}'`"):
        up_file.dispatcher_address(at)
