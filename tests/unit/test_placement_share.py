"""What data sets can have of their allocations when nodes are gone."""

from __future__ import annotations

import pytest

from tests.support.digests import numbered_digest
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.dataset_caching.placement import UNEVEN_SHARE, Placement


def test_all_of_it_unless_the_quotas_that_are_left_are_too_small() -> None:
    placement = Placement()
    assert placement.share([]) == 1.0
    for digest_id, allocation_bytes in ((b"a" * 32, 100), (b"b" * 32, 60)):
        setting = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_COOPERATIVE, allocation_bytes=allocation_bytes)
        placement.apply(log_pb2.CacheSet(digest_id=digest_id, setting=setting))
    assert placement.share([100, 100]) == 1.0
    assert placement.share([100, 60, 0]) == 1.0
    assert placement.share([80]) == pytest.approx((1 - UNEVEN_SHARE) / 2)
    assert placement.share([]) == 0.0


@pytest.mark.parametrize("quotas_bytes", [[(1 << 64) - 1], [(1 << 64) - 1] * 3, [1 << 62] * 100])
@pytest.mark.parametrize("mode", [types_pb2.CACHE_MODE_COOPERATIVE, types_pb2.CACHE_MODE_LRU])
def test_quotas_of_all_that_one_can_write_have_room_for_all_of_it(
    mode: types_pb2.CacheMode.ValueType, quotas_bytes: list[int]
) -> None:
    """Together they are more than a message has room for: who set a data set without a size was told of a fault."""
    digest = numbered_digest(50)
    fixed = Placement().fix(digest, types_pb2.CacheSetting(mode=mode), quotas_bytes)
    assert fixed.allocation_bytes == Placement.whole_bytes(digest)
