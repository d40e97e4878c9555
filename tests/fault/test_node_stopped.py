"""A node that is stopped (SIGSTOP) keeps its connections: its readers say so, go on when it does, or fail in time."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

import tfquiver
import tfquiver.reader
from tests.support import numbered
from tests.support.cluster import wait_until
from tests.support.daemons import cache_dir_fixture, daemons
from tests.support.log_lines import capture_log
from tfquiver import errors
from tfquiver.reader import Records

pytestmark = pytest.mark.long  # 7 s of silence are said, 20 s are too much

FILES, RECORDS, RECORD_BYTES = 3, 600, 300
TOTAL = FILES * RECORDS
AWAY_S = 15.0  # less than that is not given up: nodes may be busy
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)
cache_dir = cache_dir_fixture(stopped=True)


def records(paths: list[Path], cache_dir: Path) -> Records:
    return tfquiver.reader.records(
        [str(path) for path in paths], cache_dir=cache_dir, batch_size=8,
        order=tfquiver.Shuffled(shuffle_bytes=20_000),
        first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(5_000, 10_000, 20_000)),
        reading=tfquiver.Reading(readahead_bytes=20_000),
        connection=tfquiver.Connection(reconnect_timeout_s=AWAY_S),
    )  # fmt: skip


def stopped(cache_dir: Path) -> psutil.Process:
    (node,) = daemons(cache_dir)
    node.suspend()
    return node


def test_a_reader_says_so_and_goes_on_where_it_was(paths: list[Path], cache_dir: Path) -> None:
    read: list[int] = []
    with capture_log() as lines, records(paths, cache_dir).epoch() as epoch:

        def said(what: str) -> bool:
            epoch._warn()
            return any(what in line for line in lines)

        read += [int.from_bytes(record[:8], "little") for record in next(epoch)]
        node = stopped(cache_dir)
        wait_until(lambda: said(" s: it is stopped, or hangs; waiting for it"), "it is said", 30)
        node.resume()
        wait_until(lambda: said("answers again"), "that it is back, too", 30)
        for batch in epoch:
            read += [int.from_bytes(record[:8], "little") for record in batch]
    assert sorted(read) == list(range(TOTAL)), "nothing is lost, nothing comes twice"


def test_a_reader_of_one_that_stays_so_fails(paths: list[Path], cache_dir: Path) -> None:
    """It waited for as long as the node stood, without a word."""
    with records(paths, cache_dir).epoch() as epoch:
        next(epoch)
        stopped(cache_dir)
        began_s = time.monotonic()
        with pytest.raises(errors.UnavailableError, match="answer"):
            for _ in epoch:
                pass
        assert 15 < time.monotonic() - began_s < 45
