"""What an outside scheduler says again and again: decided once, told to nodes once, and not a line of the log each."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from absl import logging

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, read_first, started
from tests.support.digests import numbered_digest
from tests.support.log_lines import capture_log
from tfquiver.log_files_and_lines import rare_lines
from tfquiver.proto.tfquiver.v1 import types_pb2


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
@on_loop
async def test_the_same_is_no_other_decision(tmp_path: Path, part: float, is_read: bool) -> None:
    async with started(tmp_path) as coordinator:
        catalogue, digest_id = coordinator.catalogue, DIGEST.digest_id
        if is_read:
            await read_first(coordinator, "r")
        rule, size_bytes = types_pb2.PlacementRule(stripe=1), coordinator.caching.placement.whole_bytes(DIGEST)

        async def say() -> None:
            await coordinator.allocate_remote_io("job", 1e6)
            await catalogue.allocate_cache(digest_id, int(part * size_bytes))
            await catalogue.set_placement(digest_id, rule)

        await say()
        setting = catalogue.cache(digest_id)
        before = coordinator._log.appended, coordinator.node_orders.version
        for _ in range(3):
            await say()
        assert (coordinator._log.appended, coordinator.node_orders.version) == before
        assert catalogue.cache(digest_id) == setting


@on_loop
async def test_a_rule_that_is_taken_away_and_set_again_stays(tmp_path: Path) -> None:
    """One that ends is to be found as a single copy: who asks for that meanwhile wants it to stay."""
    async with started(tmp_path) as coordinator:
        beat(coordinator, "second")
        rules, digest_id = coordinator.caching.placed.rules, DIGEST.digest_id
        await coordinator.catalogue.set_placement(digest_id, types_pb2.PlacementRule(replicas=2))
        await coordinator.catalogue.set_placement(digest_id, None)
        assert digest_id in rules.ending
        await coordinator.catalogue.set_placement(digest_id, types_pb2.PlacementRule(replicas=1))
        assert digest_id not in rules.ending


@on_loop
async def test_of_what_is_said_of_a_thousand_jobs_some_lines_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(rare_lines, "_rarely", rare_lines._Rarely())
    request.addfinalizer(partial(logging.set_verbosity, logging.get_verbosity()))
    logging.set_verbosity(logging.INFO)
    digests = [numbered_digest(10, f"data {number}") for number in range(30)]
    async with started(tmp_path) as coordinator:
        for digest in digests:
            await coordinator.catalogue.register(digest.name, b"", None, parts(digest))
        with capture_log() as lines:
            for number in range(100):
                await coordinator.allocate_remote_io(f"job {number}", 1e6)
            for digest in digests:
                await coordinator.catalogue.allocate_cache(digest.digest_id, 1 << 20)
                await coordinator.catalogue.set_placement(digest.digest_id, types_pb2.PlacementRule(stripe=1))
            for what in ("may read", "is cached so", "is kept so"):
                assert sum(what in line for line in lines) == 20
            now = time.monotonic()
            monkeypatch.setattr(time, "monotonic", lambda: now + 11)
            await coordinator.allocate_remote_io("job 0", 2e6)
        assert lines[-1].endswith("may read 2000000 bytes/s from the store (0: any) (80 more of these were left out)")
