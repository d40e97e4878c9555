"""What goes so that another data set has room: never what somebody reads."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.contract.test_names_of_same_content import made, refreshed
from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, read_first, started
from tests.support.digests import numbered_digest
from tests.support.named_here import OTHER, of, until_done
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY

WANTED = numbered_digest(50, "wanted")


@pytest.mark.parametrize("when_full", ["dataset_lru", "manual"])
@on_loop
async def test_what_is_read_of_a_version_before_the_newest_stays(tmp_path: Path, when_full: str) -> None:
    """It went with the newest one, which nobody read yet."""
    async with started(tmp_path) as coordinator:
        named = coordinator.named
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        await coordinator.catalogue.register("", b"", None, parts(WANTED))
        await made(coordinator, "train")
        await read_first(coordinator, "reader")
        await refreshed(coordinator, "train")
        assert named.find(EVERYBODY, "train").old_versions == 1
        await named.create(EVERYBODY, of("wanted", WANTED))
        await until_done(coordinator, "wanted")
        named._when_full = when_full
        beat(coordinator, quota_bytes=4096)
        beat(coordinator, "m", quota_bytes=4096, holds=DIGEST)  # which has all of the newest one, too
        assert await named.resident_bytes(OTHER.digest_id)
        with pytest.raises(errors.ResourceExhaustedError, match="nothing can be evicted: all else is pinned, or read"):
            await named.prefetch(EVERYBODY, "wanted")
        assert named.find(EVERYBODY, "train").state == pb.NamedDataset.STATE_READY


@on_loop
async def test_who_asks_twice_has_no_more_evicted(tmp_path: Path) -> None:
    """As somebody does whose answer was lost: each time another data set went, though room was made already."""
    others = [numbered_digest(60, name) for name in ("a", "b")]
    async with started(tmp_path) as coordinator:
        for digest in (*others, WANTED):
            await coordinator.catalogue.register("", b"", None, parts(digest))
        for name, digest in zip(("a", "b", "wanted"), (*others, WANTED), strict=True):
            await coordinator.named.create(EVERYBODY, of(name, digest))
            await until_done(coordinator, name)
        room_bytes = coordinator.caching.placement.whole_bytes(WANTED) - 5000
        beat(coordinator, quota_bytes=room_bytes)
        for node, digest in zip("mo", others, strict=True):
            beat(coordinator, node, quota_bytes=1, holds=digest)
        coordinator.named._when_full = "dataset_lru"
        for _ in range(2):
            await asyncio.gather(*(coordinator.named.prefetch(EVERYBODY, "wanted") for _ in range(2)))
            states = {name: coordinator.named.find(EVERYBODY, name).state for name in ("a", "b", "wanted")}
            assert states == {
                "a": pb.NamedDataset.STATE_EVICTING, "b": pb.NamedDataset.STATE_READY,
                "wanted": pb.NamedDataset.STATE_WARMING,
            }  # fmt: skip
