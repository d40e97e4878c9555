"""Reader-socket frames: what is written is what is read, and nothing else is read at all."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.errors import ProtocolError
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats import stream_frames as stream

texts = st.text(max_size=200)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
sizes = st.integers(0, frames.MAX_BYTES)
batch_indexes = st.integers(0, stream.MOST_INDEX)
ids = st.binary(min_size=32, max_size=32)
indexes = st.lists(u32, max_size=300).map(tuple)
wishes = st.builds(frames.Wish, u64, st.integers(0, 2), st.booleans(), u64, sizes, u32)
places = st.builds(frames.Place, u32, sizes, u32, u32, u32)
any_frame = st.one_of(
    st.builds(frames.Hello, st.integers(0, 3), u32, texts),
    st.builds(frames.Welcome, texts),
    st.builds(frames.Open, texts, texts, ids, texts, texts, sizes, wishes, st.booleans()),
    st.builds(frames.Opened, texts, u64, u64, u64),
    st.builds(frames.Credit, sizes),
    st.builds(frames.Shard, u32, st.integers(0, 1), sizes, sizes, u32, u32, places),
    st.builds(frames.Picks, u32, st.integers(0, 1 << 21), st.integers(0, 1 << 21), st.binary(max_size=500)),
    st.builds(frames.Ack, indexes),
    st.builds(frames.Bad, u32),
    st.builds(frames.Draining, u64),
    st.builds(frames.End),
    st.builds(frames.Close, st.booleans()),
    st.builds(frames.Ticket, texts, texts, u64, st.integers(0, 2), ids, texts, wishes),
    st.builds(frames.TicketReply, st.booleans(), texts),
    st.builds(frames.Error, st.integers(0, 2**16 - 1), st.booleans(), texts),
    st.builds(frames.Ping),
    st.builds(frames.Held, indexes),
    st.builds(frames.Dropped, indexes),
    st.builds(frames.Delivered, texts, indexes),
    st.builds(frames.Want, indexes),
    st.builds(frames.Leaving),
    st.builds(frames.Pong, u32),
    st.builds(frames.Report, u64, u64, u64, u64),
    st.builds(frames.Get, u32, ids, u32, ids, st.booleans()),
    st.builds(frames.Got, u32, st.integers(0, 1), sizes, sizes, u32),
    st.builds(frames.Failed, u32, st.integers(0, 2**16 - 1), texts),
    st.builds(frames.Which, u32, ids),
    st.builds(frames.These, u32, u32),
    st.builds(stream.Follow, texts, ids, batch_indexes, st.booleans(), sizes, sizes),
    st.builds(stream.Next, batch_indexes, st.booleans(), u32, u32),
    st.builds(stream.Batch, batch_indexes, st.integers(0, 1), sizes, u32, u32),
    st.builds(stream.Behind, batch_indexes),
    st.builds(stream.Unmade, batch_indexes),
    st.builds(stream.Over, batch_indexes),
    st.builds(stream.Checkpoint, batch_indexes, u32),
    st.builds(stream.Make, st.booleans(), batch_indexes),
    st.builds(stream.Room, batch_indexes),
    st.builds(stream.Publish, batch_indexes, u32, u32),
)


@pytest.mark.slow
@given(any_frame)
def test_what_is_written_is_read(frame: frames.Frame) -> None:
    assert frames.decode(frames.encode(frame)) == frame


@given(any_frame, st.data())
def test_a_frame_cut_or_grown_is_refused(frame: frames.Frame, data: st.DataObject) -> None:
    message = frames.encode(frame)
    with pytest.raises(ProtocolError):
        frames.decode(message[: data.draw(st.integers(0, len(message) - 1))])
    with pytest.raises(ProtocolError):
        frames.decode(message + b"\0")


@given(any_frame, st.data())
def test_a_frame_whose_length_was_mended_after_a_cut_is_refused(frame: frames.Frame, data: st.DataObject) -> None:
    message = bytearray(frames.encode(frame))
    if len(message) == 8:
        return
    cut = message[: data.draw(st.integers(8, len(message) - 1))]
    struct.pack_into("<I", cut, 4, len(cut) - 8)
    with pytest.raises(ProtocolError):
        frames.decode(cut)


@given(st.binary(max_size=400), st.integers(0, 255))
def test_garbage_is_refused_or_means_exactly_itself(payload: bytes, number: int) -> None:
    message = struct.pack("<HBBI", frames.MAGIC, frames.VERSION, number, len(payload)) + payload
    try:
        frame = frames.decode(message)
    except ProtocolError:
        return
    assert frames.encode(frame) == message


@given(st.binary(max_size=64))
def test_noise_without_a_header_is_refused(noise: bytes) -> None:
    if noise[:3] != b"\x54\x51\x01":
        with pytest.raises(ProtocolError):
            frames.decode(noise)


def test_the_largest_lists_fit_one_message_and_larger_ones_are_refused() -> None:
    message = frames.encode(frames.Ack(tuple(range(frames.MAX_INDEXES))))
    assert len(message) <= frames.MAX_FRAME_BYTES
    with pytest.raises(ProtocolError, match="do not fit"):
        frames.encode(frames.Ack(tuple(range(frames.MAX_INDEXES + 1))))


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"", "not a frame"),
        (struct.pack("<HBBI", 0x1234, 1, 15, 0), "begins with"),
        (struct.pack("<HBBI", frames.MAGIC, 2, 15, 0), "version 2"),
        (struct.pack("<HBBI", frames.MAGIC, 1, 99, 0), "no frame type 99"),
        (struct.pack("<HBBI", frames.MAGIC, 1, 15, 5), "header says 5"),
        (struct.pack("<HBBIB", frames.MAGIC, 1, 11, 1, 7), "complete is 7"),
        (struct.pack("<HBBII", frames.MAGIC, 1, 7, 4, 2**32 - 1), "more than"),
        (struct.pack("<HBBIH2s", frames.MAGIC, 1, 2, 4, 2, b"\xff\xff"), "not UTF-8"),
        (b"\0" * 65537, "not a frame"),
    ],
)
def test_complaints_name_what_is_off(message: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        frames.decode(message)
