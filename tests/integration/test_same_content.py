"""Two data sets of the same content, cached in different ways on one node."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support import node_calls, rotating
from tests.support.cluster import Server
from tests.support.rotating import ENTRY_BYTES, Job
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.coordinator.chunk_rotation.dry import PAST_THE_CACHE_AFTER_S

SHARDS = 400
ENDS_S = 60.0  # a job that finds all of it cached needs less than a second, when it has found out that it may


@pytest.mark.long
@pytest.mark.parametrize("rotation", ["relevance", "cyclic"])
def test_where_one_keeps_all_of_it_the_others_job_reads_on(tmp_path: Path, rotation: str) -> None:
    """What the rotation told to go stayed, for the other data set, and its room was waited for to the end of time."""
    flags = [f"--cache_dir={tmp_path / 'cache'}", f"--quota={2 * SHARDS * ENTRY_BYTES}"]
    node = Server("tfquiver.service.node.main", flags, tmp_path / "node.log").start()
    try:
        coordinator, control = node.ready["coordinator"], node.ready["control"]
        datasets = []
        for name in ("whole", "rotates"):
            made = Counter(rotating.write(tmp_path / name, SHARDS))
            datasets.append(node_calls.ensure(control, tmp_path / name / "part-*", CutPolicy(1, 1, 1)))
        whole, rotates = datasets
        assert whole.digest_id != rotates.digest_id
        rotating.set_cache(coordinator, whole, "uniform")
        first = Job(node.ready["socket"], whole, "first", 1)
        first.start()
        assert first.finish() == [made]
        room_bytes = SHARDS * ENTRY_BYTES // 10
        rotating.set_cache(
            coordinator, rotates, "cooperative", rotation=rotation, allocation_bytes=room_bytes, chunks=40
        )
        second = Job(node.ready["socket"], rotates, "second", 2)
        second.start()
        assert second.finish(ENDS_S) == [made, made]
        began_s = time.monotonic()
        third = Job(node.ready["socket"], rotates, "third", 2)
        third.start()
        assert third.finish(ENDS_S) == [made, made]
        assert time.monotonic() - began_s < PAST_THE_CACHE_AFTER_S, "the others need not find it out again"
    finally:
        code = node.stop()
    assert code in (0, -signal.SIGKILL), node.log_tail()
