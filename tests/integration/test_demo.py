"""The demo as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.demo_process import start

pytest.importorskip("gcp_storage_emulator")
pytest.importorskip("mlxtend")

pytestmark = pytest.mark.long


def test_every_trial_sees_everything_each_byte_leaves_the_store_once_and_it_is_no_slower(tmp_path: Path) -> None:
    figures = tmp_path / "demo.json"
    with start(tmp_path, f"--json={figures}") as demo:
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert all(len(line) <= 80 for line in said.splitlines())
    result = json.loads(figures.read_text())
    cached, direct = result["rounds"]
    everything = [result["records"]] * result["epochs"]
    for trial in cached["trials"] + direct["trials"]:
        assert trial["records_per_epoch"] == trial["distinct_per_epoch"] == everything
        assert trial["accuracy"] > 0.2
    assert cached["traffic"]["payload_bytes"] <= 1.02 * result["dataset_bytes"]
    assert direct["traffic"]["payload_bytes"] == 3 * result["epochs"] * result["dataset_bytes"]
    assert cached["hit_ratio"] == 1.0
    assert cached["wall_s"] < direct["wall_s"]
    for one in (cached, direct):
        times, left = zip(*one["left_store"], strict=True)
        assert list(times) == sorted(times) and list(left) == sorted(left)
        assert left[-1] == one["traffic"]["payload_bytes"]
    assert "fewer bytes left the store" in said
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "scratch").iterdir()) == []
