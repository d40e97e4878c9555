"""The greeting that clients import by itself is the reader socket's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.errors import ProtocolError
from tfquiver.messages_and_binary_formats import greeting_frames, reader_frames


@given(st.integers(0, 4), st.integers(0, (1 << 32) - 1), st.text(max_size=100))
def test_hello_is_one_frame_to_both(role: int, pid: int, label: str) -> None:
    hello = greeting_frames.Hello(role, pid, label)
    assert greeting_frames.encode(hello) == reader_frames.encode(hello)
    assert reader_frames.decode(greeting_frames.encode(hello)) == hello


@given(st.text(max_size=100))
def test_welcome_is_one_frame_to_both(node_id: str) -> None:
    welcome = reader_frames.Welcome(node_id)
    assert greeting_frames.decode(reader_frames.encode(welcome)) == welcome


@pytest.mark.parametrize(
    "message",
    [b"", b"x" * 8, reader_frames.encode(reader_frames.End()), reader_frames.encode(reader_frames.Welcome("a")) + b"b",
     reader_frames.encode(reader_frames.Welcome("abc"))[:-1], reader_frames.encode(reader_frames.Error(1, True, "no"))],
)  # fmt: skip
def test_anything_else_is_refused(message: bytes) -> None:
    with pytest.raises(ProtocolError):
        greeting_frames.decode(message)
