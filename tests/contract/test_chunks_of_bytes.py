"""Data sets without records that were set cooperative when that was not refused: nothing of them was cached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import COOPERATIVE, DIGEST, parts, started
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CacheSet, CommitRecord


@on_loop
async def test_they_are_so_no_more_when_the_coordinator_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    columns = DIGEST.hashes, DIGEST.file_index, DIGEST.offsets, DIGEST.lengths
    images = Digest.build("images", DIGEST.files, *columns, [0] * DIGEST.num_shards, formats.BYTES)
    async with started(tmp_path) as coordinator:
        await coordinator.catalogue.register("images", b"", None, parts(images))
        for digest in (DIGEST, images):
            set_ = CommitRecord(cache_set=CacheSet(digest_id=digest.digest_id, setting=COOPERATIVE))
            coordinator._log.append(set_)
        await coordinator._log.synced()
    for told in (1, 0):
        caplog.clear()
        async with started(tmp_path) as coordinator:
            assert coordinator.catalogue.cache(images.digest_id) == types_pb2.CacheSetting()
            assert coordinator.catalogue.cache(DIGEST.digest_id).mode == types_pb2.CACHE_MODE_COOPERATIVE
            assert caplog.text.count("data set images is cooperative no more") == told
    caplog.clear()
