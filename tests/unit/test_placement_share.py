"""What data sets can have of their allocations when nodes are gone."""

from __future__ import annotations

import pytest

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
