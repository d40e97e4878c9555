"""What scans have placed, noted by many threads at the same time, and read by the next process."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import in_the_way
from tfquiver import errors
from tfquiver.service.node.evicting_emptying_removing_leftovers.placed_log import PlacedLog

HASHES = [hashlib.sha256(bytes([number % 256, number // 256])).digest() for number in range(2000)]


def after_a_kill(path: Path) -> Mapping[bytes, float]:
    """The file's own process goes on with it."""
    with closing(PlacedLog(Path(shutil.copy(path, path.with_suffix(".copy"))), lambda: 7.0, lambda: 7.0)) as log:
        return log.noted()


def test_what_was_noted_before_a_kill_is_known(tmp_path: Path) -> None:
    path = tmp_path / "placed.log"
    log = PlacedLog(path, lambda: 7.0, lambda: 7.0)
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


def test_who_notes_what_another_is_noting_waits_until_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "placed.log"
    log = PlacedLog(path, lambda: 7.0, lambda: 7.0)
    with ThreadPoolExecutor(2) as threads:
        with log._writing:
            both = [threads.submit(log.note, HASHES[0]) for _ in range(2)]
            assert not wait(both, 0.2).done
        assert wait(both, 60).done == set(both)
        assert after_a_kill(path).keys() == {HASHES[0]}
    log.close()


def test_what_the_disk_refused_is_written_when_it_takes_something_again(tmp_path: Path) -> None:
    path = tmp_path / "mounted" / "placed.log"
    log = PlacedLog(path, lambda: 7.0, lambda: 7.0)  # it is not there yet
    log.note(HASHES[0])
    path.parent.mkdir()
    noted = set(HASHES[:1])
    deadline_s = time.monotonic() + 30
    for hash in HASHES[1:]:
        log.note(hash)
        noted.add(hash)
        if path.exists() or time.monotonic() > deadline_s:
            break
        time.sleep(0.001)
    assert after_a_kill(path).keys() == noted
    log.close()


@pytest.mark.parametrize("what", in_the_way.KINDS)
def test_what_is_no_file_is_refused_at_once_by_its_name(tmp_path: Path, what: str) -> None:
    """A node that read a pipe waited for who writes it, for ever."""
    in_the_way.put(path := tmp_path / "placed.log", what)
    with pytest.raises(errors.InvalidArgumentError, match=f"^{path}: {what} is there, and no file: move it away$"):
        PlacedLog(path)
