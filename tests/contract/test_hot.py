from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.store_node import raw_of
from tfquiver.service.node.ready_shard import ReadyShard
from tfquiver.service.node.store.hot import HotSet


def shard(size: int) -> ReadyShard:
    return ReadyShard.from_bytes(bytes(size), 0, "store")


def keep(hot: HotSet, name: bytes, size: int) -> None:
    ready = shard(size)
    hot.put(name, ready)
    ready.close()


def has(hot: HotSet, name: bytes) -> bool:
    got = hot.get(name)
    if got:
        got.close()
    return got is not None


def test_the_least_recently_used_goes_first() -> None:
    hot = HotSet(100)
    for name in (b"a", b"b"):
        keep(hot, name, 40)
    assert has(hot, b"a")
    keep(hot, b"c", 40)
    assert [has(hot, name) for name in (b"a", b"b", b"c")] == [True, False, True]
    hot.close()


def test_what_a_reader_holds_outlives_eviction() -> None:
    hot = HotSet(100)
    keep(hot, b"a", 100)
    held = hot.get(b"a")
    assert held
    assert held.source == "hot"
    hot.drop(b"a")
    hot.close()
    assert raw_of(held) == bytes(100)


@settings(max_examples=50)
@given(st.integers(0, 100), st.lists(st.tuples(st.binary(min_size=1, max_size=1), st.integers(1, 120)), max_size=30))
def test_it_never_holds_more_than_its_limit_nor_leaves_descriptors(limit: int, puts: list[tuple[bytes, int]]) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    hot = HotSet(limit)
    for name, size in puts:
        keep(hot, name, size)
        assert hot.size_bytes <= limit
    hot.close()
    assert hot.size_bytes == 0
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
