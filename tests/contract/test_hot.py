from __future__ import annotations

import os
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.store_node import raw_of
from tfquiver.disk_space_of_shards.entry_size import PAGE_BYTES
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.sealed_memory import NoMemoryError


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
    hot = HotSet(3 * PAGE_BYTES)
    for name in (b"a", b"b"):
        keep(hot, name, PAGE_BYTES + 1 if name == b"a" else 1)
    assert has(hot, b"a")
    keep(hot, b"c", 1)
    assert [has(hot, name) for name in (b"a", b"b", b"c")] == [True, False, True]
    hot.close()


def test_what_a_reader_holds_outlives_eviction() -> None:
    hot = HotSet(PAGE_BYTES)
    keep(hot, b"a", 100)
    held = hot.get(b"a")
    assert held
    assert held.source == "hot"
    hot.drop(b"a")
    hot.close()
    assert raw_of(held) == bytes(100)


@settings(max_examples=50)
@given(
    st.integers(0, 5 * PAGE_BYTES),
    st.integers(0, 4),
    st.lists(st.tuples(st.binary(min_size=1, max_size=1), st.integers(1, 6 * PAGE_BYTES)), max_size=30),
)
def test_it_never_holds_more_than_its_limit_nor_leaves_descriptors(
    limit: int, shards: int, puts: list[tuple[bytes, int]]
) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    hot = HotSet(limit, shards)
    for name, size in puts:
        keep(hot, name, size)
        assert hot.size_bytes <= limit
        assert len(hot) <= shards
        assert len(os.listdir("/proc/self/fd")) == before + len(hot)  # noqa: PTH208
    hot.close()
    assert hot.size_bytes == 0
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_small_shards_are_counted_in_pages_and_descriptors() -> None:
    """A thousand of a few bytes each are neither a few kilobytes nor few descriptors."""
    hot = HotSet(1 << 20, limit_shards=100)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for number in range(1000):
        keep(hot, number.to_bytes(2, "big"), 10)
    assert len(os.listdir("/proc/self/fd")) - before == len(hot) == 100  # noqa: PTH208
    assert hot.size_bytes == 100 * PAGE_BYTES
    assert hot.give_up_half() == 50
    assert has(hot, (999).to_bytes(2, "big"))
    hot.close()


def test_one_that_gets_no_descriptor_is_told_so() -> None:
    """Not an OSError, which would be taken for a peer's or the disk's trouble."""
    ready = shard(10)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(NoMemoryError):
            shard(10)
        with pytest.raises(NoMemoryError):
            ready.share()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    ready.close()
