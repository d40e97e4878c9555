"""The first two frames on a reader socket: all that a process sends and takes which only looks for its node (pure).

Apart from the others (`reader_frames`, which has them, too), because it is imported wherever a data set is made.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tfquiver.errors import ProtocolError
from tfquiver.messages_and_binary_formats import frame_header
from tfquiver.messages_and_binary_formats.frame_fields import Fields, text

VERSION = 1
MAX_FRAME_BYTES = 65536
ROLE_READER = 0
HELLO, WELCOME = 1, 2  # types of frames


@dataclass(frozen=True, slots=True)
class Hello:
    role: int
    pid: int
    label: str


@dataclass(frozen=True, slots=True)
class Welcome:
    node_id: str


def hello_payload(hello: Hello) -> bytes:
    return struct.pack("<BI", hello.role, hello.pid) + text(hello.label)


def encode(hello: Hello) -> bytes:
    """The frame as one message. Raises ProtocolError when the label is too long for one."""
    payload = hello_payload(hello)
    return frame_header.packed(VERSION, HELLO, len(payload)) + payload


def read_welcome(fields: Fields) -> Welcome:
    return Welcome(fields.text("node_id"))


def decode(message: bytes) -> Welcome:
    """The answer. Raises ProtocolError when it is anything but one well-formed WELCOME."""
    view = memoryview(message)
    if not frame_header.HEADER_BYTES <= len(view) <= MAX_FRAME_BYTES:
        raise ProtocolError(f"a message of {len(view)} bytes is not a frame")
    number, length = frame_header.unpacked(view, VERSION, "op")
    if number != WELCOME or length != len(view) - frame_header.HEADER_BYTES:
        raise ProtocolError(f"frame of type {number}, {len(view)} bytes: a Welcome was expected")
    fields = Fields("Welcome", view[frame_header.HEADER_BYTES :])
    welcome = read_welcome(fields)
    fields.end()
    return welcome
