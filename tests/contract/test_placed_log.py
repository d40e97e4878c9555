"""What scans have placed, noted by many threads at the same time, and read by the next process."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from tfquiver.service.node.removed_and_leftover_data.placed_log import PlacedLog

HASHES = [hashlib.sha256(bytes([number % 256, number // 256])).digest() for number in range(2000)]


def after_a_kill(path: Path) -> Mapping[bytes, int]:
    """The file's own process goes on with it."""
    with closing(PlacedLog(Path(shutil.copy(path, path.with_suffix(".copy"))))) as log:
        return log.noted()


def test_what_was_noted_before_a_kill_is_known(tmp_path: Path) -> None:
    path = tmp_path / "placed.log"
    log = PlacedLog(path, lambda: 7.0)
    with ThreadPoolExecutor(16) as threads:
        for _ in threads.map(log.note, HASHES):
            pass
        assert after_a_kill(path) == dict.fromkeys(HASHES, 7)
        settled = threads.submit(log.settle, HASHES[:1500])
        for _ in threads.map(log.note, HASHES[1000:]):
            pass
        settled.result()
    assert set(HASHES[1500:]) <= after_a_kill(path).keys() <= set(HASHES)
    log.close()
