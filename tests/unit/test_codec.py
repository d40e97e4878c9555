from __future__ import annotations

import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.node.disk import codec, entry

NOISE = random.Random(5).randbytes(1 << 20)
TEXT = b"".join(b'{"id": %d, "label": %d}\n' % (i, i % 10) for i in range(40_000))


@given(st.binary(min_size=1, max_size=4000) | st.sampled_from([NOISE, TEXT]), st.sampled_from(["auto", "raw", "zstd"]))
def test_bytes_come_back_and_never_grow(raw: bytes, mode: codec.Mode) -> None:
    kind, stored = codec.compress(raw, mode)
    assert len(stored) <= len(raw)
    assert (stored if kind == entry.RAW else codec.decompress(stored, len(raw), "x")) == raw


def test_zstd_where_it_pays_and_raw_where_it_does_not() -> None:
    assert codec.compress(NOISE, "auto") == (entry.RAW, NOISE)
    assert codec.compress(TEXT, "auto")[0] == entry.ZSTD
    assert codec.compress(TEXT, "raw") == (entry.RAW, TEXT)
    mostly_noise = NOISE + TEXT[:20_000]  # shrinks by less than 5 %
    assert codec.compress(mostly_noise, "auto")[0] == entry.RAW
    assert codec.compress(mostly_noise, "zstd")[0] == entry.ZSTD


def test_what_saves_no_page_of_the_disk_stays_raw() -> None:
    assert codec.compress(TEXT[:3000], "auto")[0] == codec.compress(TEXT[:3000], "zstd")[0] == entry.RAW
    assert codec.compress(TEXT[:5000], "auto")[0] == entry.ZSTD


def test_noise_is_given_up_after_a_look_at_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = []
    real = zstandard.ZstdCompressor

    class Counting:
        def __init__(self, level: int) -> None:
            self._inner = real(level=level)

        def compress(self, data: bytes) -> bytes:
            fed.append(len(data))
            return self._inner.compress(data)

    monkeypatch.setattr(zstandard, "ZstdCompressor", Counting)
    codec.compress(NOISE, "auto")
    assert sum(fed) <= len(NOISE) // 8


@given(st.binary(max_size=200), st.integers(1, 1000))
def test_garbage_is_damage(stored: bytes, raw_length: int) -> None:
    with pytest.raises(errors.DataLossError, match="the-entry"):
        codec.decompress(stored, raw_length, "the-entry")


@pytest.mark.parametrize("length", [len(TEXT) - 1, len(TEXT) + 1, 1 << 40])
def test_a_frame_of_another_size_is_damage_before_it_is_allocated(length: int) -> None:
    frame = codec.compress(TEXT, "zstd")[1]
    with pytest.raises(errors.DataLossError, match=f"not {length}"):
        codec.decompress(frame, length, "x")


def test_a_frame_that_lies_about_its_size_is_damage() -> None:
    frame = zstandard.ZstdCompressor(level=1, write_content_size=False).compress(TEXT)
    with pytest.raises(errors.DataLossError):
        codec.decompress(frame, len(TEXT), "x")
    good = codec.compress(TEXT, "zstd")[1]
    for bad in (good[:-1], good + b"\0", good + good):
        with pytest.raises(errors.DataLossError):
            codec.decompress(bad, len(TEXT), "x")
