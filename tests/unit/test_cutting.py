from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.records import SMALL_SHARDS, cut, stream
from tfquiver import errors
from tfquiver.scanning.cutting import SHARD_LIMIT_BYTES, CutPolicy, Cutter


def payloads_of(seed: int, count: int, longest: int = 200) -> list[bytes]:
    source = random.Random(seed)
    return [source.randbytes(source.randrange(longest)) for _ in range(count)]


@given(st.lists(st.binary(max_size=300), max_size=200), st.integers(1, 5000))
@example([b"" for _ in range(500)], 100)
def test_shards_are_whole_records_within_the_sizes(payloads: list[bytes], chunk_bytes: int) -> None:
    data = stream(payloads)
    shards = cut(data, chunk_bytes=chunk_bytes)
    assert b"".join(shard.data for shard in shards) == data
    assert sum(shard.records for shard in shards) == len(payloads)
    at = 0
    for shard in shards:
        assert (shard.offset, shard.length_bytes) == (at, len(shard.data))
        at += shard.length_bytes
        assert shard.length_bytes < SMALL_SHARDS.max_bytes + 316
    assert all(shard.length_bytes >= SMALL_SHARDS.min_bytes for shard in shards[:-1])


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 5000), st.integers(1, 5000))
def test_cuts_do_not_depend_on_how_the_stream_comes(seed: int, count: int, one: int, other: int) -> None:
    data = stream(payloads_of(seed, count))
    assert cut(data, chunk_bytes=one) == cut(data, chunk_bytes=other)


@given(st.integers(0, 2**32), st.lists(st.integers(0, 600), max_size=4))
def test_repacked_records_share_nearly_all_shards(seed: int, file_ends: list[int]) -> None:
    """I-1. Each file end may cost the shards around it, until the cuts fall into step again."""
    payloads = payloads_of(seed, 600)
    whole = {shard.hash for shard in cut(stream(payloads))}
    edges = [0, *sorted(file_ends), 600]
    repacked = {shard.hash for a, b in pairwise(edges) for shard in cut(stream(payloads[a:b]))}
    assert len(whole - repacked) <= 12 * len(file_ends)
    if not file_ends:
        assert whole == repacked


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(0, 600), st.lists(st.binary(max_size=100), max_size=20))
def test_added_records_leave_the_other_shards_alone(seed: int, at: int, added: list[bytes]) -> None:
    payloads = payloads_of(seed, 600)
    before = {shard.hash for shard in cut(stream(payloads))}
    after = {shard.hash for shard in cut(stream(payloads[:at] + added + payloads[at:]))}
    assert len(before - after) <= 12


def test_appended_records_change_the_last_shard_only() -> None:
    payloads = payloads_of(1, 1000)
    before, after = cut(stream(payloads)), cut(stream(payloads + payloads_of(2, 50)))
    assert before[:-1] == after[: len(before) - 1]


@pytest.mark.slow
@pytest.mark.parametrize("record_bytes", [272, 110_016])
def test_the_mean_is_near_the_target_whatever_the_records_size(record_bytes: int) -> None:
    source, cutter, policy = random.Random(3), Cutter(CutPolicy()), CutPolicy()
    count = 400 * policy.target_bytes // record_bytes
    cuts = sum(cutter.feed(record_bytes, source.getrandbits(32)) for _ in range(count))
    assert 0.85 < count * record_bytes / cuts / policy.target_bytes < 1.15


def test_equal_records_are_cut_at_the_maximum_at_the_latest() -> None:
    payloads = [b""] * 1000  # their CRC is 0 and ends no shard by itself
    assert {shard.records for shard in cut(stream(payloads), CutPolicy(32, 16000, 16000))} == {1000}
    assert {shard.records for shard in cut(stream(payloads), CutPolicy(32, 1600, 1600))} == {100}


def test_one_record_a_shard() -> None:
    payloads = [b"a", b"", b"bcd"]
    assert [shard.data for shard in cut(stream(payloads), CutPolicy(1, 1, 1))] == [stream([p]) for p in payloads]


def test_a_whole_file_is_one_shard() -> None:
    data = stream(payloads_of(5, 300))
    assert [shard.data for shard in cut(data, CutPolicy(1, 1 << 62, 1 << 62), 777)] == [data]


def test_no_shard_can_grow_past_what_the_data_port_carries() -> None:
    cutter = Cutter(CutPolicy(1, 1 << 62, 1 << 62))
    assert not cutter.feed(SHARD_LIMIT_BYTES - 1, 12345)
    assert cutter.feed(1, 12345)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (2, 1, 3), (1, 3, 2), (1, 1, 1 << 63)])
def test_sizes_out_of_order_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"min={sizes[0]}, target={sizes[1]}, max={sizes[2]}"):
        CutPolicy(*sizes)
