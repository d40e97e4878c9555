from __future__ import annotations

import struct
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_entry import headers
from tfquiver.errors import ProtocolError
from tfquiver.service.node.connections_between_nodes import data_frames as frames
from tfquiver.service.node.disk import entry

ID = st.binary(min_size=32, max_size=32)
U16, U32 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1)
TEXT = st.text(max_size=200)
BODY = st.builds(lambda header: entry.Header(*([getattr(header, f) for f in FIELDS] + [bytes(32)])), headers())
FIELDS = ("codec", "raw_length", "stored_length", "crc32c_raw", "crc32c_stored")
ITEM = st.builds(frames.Item, U32, U32, st.just(frames.HERE), BODY, TEXT) | st.builds(
    frames.Item, U32, U32, st.sampled_from([frames.NOT_HERE, frames.NOT_THAT_SHARD]), st.none(), TEXT
)
FRAME = st.one_of(
    st.builds(frames.Hello, TEXT, TEXT, ID),
    st.builds(frames.Welcome, TEXT, ID),
    st.builds(frames.Get, ID, U32, st.lists(st.tuples(U32, ID), min_size=1, max_size=20).map(tuple)),
    ITEM,
    st.builds(frames.Put, headers()),
    st.builds(frames.PutReply, ID, U16, TEXT),
    st.builds(frames.Error, U16, TEXT),
    st.builds(frames.Working),
    st.builds(frames.Bad, ID, U32, ID),
    st.builds(
        frames.GetWithin, ID, U32, st.integers(0, 1), st.lists(st.tuples(U32, ID), min_size=1, max_size=20).map(tuple)
    ),
)


def decode(data: bytes) -> frames.Frame:
    cls, length = frames.decode_header(data[: frames.HEADER_BYTES])
    assert length == len(data) - frames.HEADER_BYTES
    return frames.decode_payload(cls, data[frames.HEADER_BYTES :])


@given(FRAME)
def test_frames_come_back_as_they_went(frame: frames.Frame) -> None:
    assert decode(frames.encode(frame)) == frame


def test_every_frame_type_is_drawn() -> None:
    assert {type(frame) for frame in EXAMPLES} == set(get_args(frames.Frame))


EXAMPLES: list[frames.Frame] = [
    frames.Hello("t", "n"), frames.Welcome("n"), frames.Get(bytes(32), 1, ((2, bytes(32)),)),
    frames.Item(1, 2, frames.NOT_HERE, None, "m"), frames.Put(entry.Header(0, 1, 1, 0, 0, bytes(32))),
    frames.PutReply(bytes(32), 0, ""), frames.Error(1, "m"), frames.Working(), frames.Bad(bytes(32), 1, bytes(32)),
    frames.GetWithin(bytes(32), 1, 0, ((2, bytes(32)),)),
]  # fmt: skip


@given(FRAME, st.integers(0, 400), st.booleans())
def test_a_payload_cut_short_or_with_more_behind_it_is_refused(frame: frames.Frame, at: int, longer: bool) -> None:
    payload = frames.encode(frame)[frames.HEADER_BYTES :]
    bad = payload + bytes(1 + at) if longer else payload[: min(at, len(payload) - 1)]
    if not longer and not payload:
        return
    with pytest.raises(ProtocolError):
        frames.decode_payload(type(frame), bad)


@given(st.sampled_from(get_args(frames.Frame)), st.binary(max_size=300))
def test_garbage_is_a_frame_or_an_error_and_nothing_else(cls: type[frames.Frame], payload: bytes) -> None:
    try:
        frame = frames.decode_payload(cls, payload)
    except ProtocolError:
        return
    assert frames.encode(frame)[frames.HEADER_BYTES :] == payload


@given(st.binary(min_size=8, max_size=8))
def test_any_header_is_bounded_or_refused(header: bytes) -> None:
    try:
        cls, length = frames.decode_header(header)
    except ProtocolError:
        return
    assert length <= (frames.MAX_PAYLOAD_BYTES if cls in (frames.Get, frames.GetWithin) else 32 << 10)


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (struct.pack("<HBBI", 0x5155, 1, 32, 0), "begins with 0x5155"),
        (struct.pack("<HBBI", 0x5154, 9, 32, 0), "version 9"),
        (struct.pack("<HBBI", 0x5154, frames.VERSION, 31, 0), "no frame type 31"),
        (struct.pack("<HBBI", 0x5154, frames.VERSION, 42, 0), "no frame type 42"),
        (struct.pack("<HBBI", 0x5154, frames.VERSION, 34, (1 << 20) + 1), "Get frame: 1048577 bytes"),
        (struct.pack("<HBBI", 0x5154, frames.VERSION, 32, 40_000), "Hello frame: 40000 bytes"),
    ],
)
def test_the_complaint_says_what_is_off(header: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        frames.decode_header(header)


@pytest.mark.parametrize("count", [0, 1025])
def test_a_get_of_none_or_too_many_is_refused(count: int) -> None:
    payload = bytes(32) + struct.pack("<II", 1, count) + bytes(36) * count
    with pytest.raises(ProtocolError, match=f"{count} shards"):
        frames.decode_payload(frames.Get, payload)


def test_a_body_that_cannot_be_is_refused_before_it_comes() -> None:
    payload = bytes(32) + struct.pack("<BQQII", 1, 1 << 40, 1 << 39, 0, 0)
    with pytest.raises(ProtocolError, match="Put frame: raw length"):
        frames.decode_payload(frames.Put, payload)


def test_a_long_message_is_cut_to_fit() -> None:
    assert len(frames.clipped("é" * 9000).encode()) <= 8192


def test_what_a_peer_says_that_does_not_know_a_frame_is_understood_and_stays_as_older_ones_say_it() -> None:
    number = struct.unpack_from("<HBBI", frames.encode(EXAMPLES[-1]))[2]
    said = ProtocolError(f"the data port has no frame type {number}")
    assert frames.is_unknown(said, frames.GetWithin)
    assert not frames.is_unknown(said, frames.Get)
    with pytest.raises(ProtocolError, match=r"^the data port has no frame type 99$"):
        frames.decode_header(struct.pack("<HBBI", 0x5154, frames.VERSION, 99, 0))
