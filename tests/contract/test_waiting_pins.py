"""Pins that wait for room, and those that need more of it than they had: asked for when there is a reason to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, started
from tests.support.digests import numbered_digest
from tests.support.named_here import of, until_done
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.placement import Placement

WHOLE_BYTES = Placement.whole_bytes(DIGEST)


def counted(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Of which data sets the room is asked for, from now on."""
    asked, take = list[bytes](), coordinator.named._room.take

    async def counting(digest_id: bytes) -> None:
        asked.append(digest_id)
        await take(digest_id)

    monkeypatch.setattr(coordinator.named._room, "take", counting)
    return asked


async def waiting(coordinator: Coordinator, count: int) -> None:
    """So many pins, each of more than there is room for."""
    beat(coordinator, quota_bytes=4096)
    for number in range(count):
        await coordinator.catalogue.register("", b"", None, parts(one := numbered_digest(200, f"d{number}")))
        await coordinator.named.create(EVERYBODY, of(f"n{number}", one, pin=True))


@on_loop
async def test_pins_that_wait_are_asked_for_when_there_may_be_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was every ten seconds: of ten thousand a look took tens of seconds."""
    clock = ManualClock()
    async with started(tmp_path, clock=clock, node_timeout_s=1e6) as coordinator:
        asked = counted(coordinator, monkeypatch)
        await waiting(coordinator, 3)
        await until_done(coordinator, "n0")
        asked.clear()
        for _ in range(5):
            clock.advance(11.0)
            told = await until_done(coordinator, "n0")
        assert not asked and told.reason.startswith("not pinned: ")
        clock.advance(300.0)
        await until_done(coordinator, "n0")
        assert len(set(asked)) == 3, "so that what is told of them has newer figures"
        asked.clear()
        clock.advance(11.0)
        beat(coordinator, quota_bytes=WHOLE_BYTES)
        await until_done(coordinator, "n0")
        assert 1 <= len(set(asked)) < 3, "there is room for one; of two looks at once each asks for one"
        lives = [coordinator.named_table.get(f"n{number}") for number in range(3)]
        assert sum(life is not None and life.pinned for life in lives) == 1


@on_loop
async def test_a_pin_is_as_large_as_the_copies_that_are_kept_from_now_on(tmp_path: Path) -> None:
    """After `place --replicas=2` it had the room of one copy, for good."""
    async with started(tmp_path) as coordinator:
        placement, catalogue = coordinator.caching.placement, coordinator.catalogue
        beat(coordinator, "m")
        await coordinator.named.create(EVERYBODY, of("train", pin=True))
        await until_done(coordinator, "train")
        assert placement.pinned_bytes(DIGEST.digest_id) == WHOLE_BYTES
        for replicas in (2, 1):
            await catalogue.set_placement(DIGEST.digest_id, types_pb2.PlacementRule(replicas=replicas))
            assert (await until_done(coordinator, "train")).pinned
            assert placement.pinned_bytes(DIGEST.digest_id) == replicas * WHOLE_BYTES
        for node in "nm":
            beat(coordinator, node, quota_bytes=WHOLE_BYTES * 3 // 4)
        await catalogue.set_placement(DIGEST.digest_id, types_pb2.PlacementRule(replicas=2))
        told = await until_done(coordinator, "train")
        assert not told.pinned and "(2 of each shard)" in told.reason, "it waits for that"
        assert placement.pinned_bytes(DIGEST.digest_id) == WHOLE_BYTES, "what it has it keeps"
