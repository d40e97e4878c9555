"""The reader socket's frames, made and taken apart by hand, so that the op is tested against the text of the
protocol and not against the codec of the node."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

HELLO, WELCOME, OPEN, OPENED, CREDIT, SHARD, ACK, BAD, DRAINING, END, CLOSE = range(1, 12)
PROVIDER, RESTORED_PROVIDER, LATE_READER = range(3)
TICKET, TICKET_REPLY, ERROR, PING, HELD, DROPPED, DELIVERED, WANT = range(12, 20)
DIGEST_ID = bytes(range(32))


def frame(kind: int, payload: bytes = b"") -> bytes:
    return struct.pack("<HBBI", 0x5154, 1, kind, len(payload)) + payload


def text(value: str) -> bytes:
    return struct.pack("<H", len(value.encode())) + value.encode()


@dataclass
class Opened:
    """An OPEN frame as it came."""

    digest_id: bytes
    session_id: str
    session_key: str
    job: str
    reader_id: str
    credit_bytes: int
    seed: int
    done: bytes | None
    held: list[int]
    order: int = 0
    homogeneous: bool = False
    order_seed: int = 0
    block_bytes: int = 0
    batch_records: int = 0


def opened_of(payload: bytes, fds: Sequence[int], held: Sequence[int]) -> Opened:
    """OPEN's payload; `held`: the shards of the HELD frames before it."""
    at = 0

    def take_text() -> str:
        nonlocal at
        size = struct.unpack_from("<H", payload, at)[0]
        at += 2 + size
        return payload[at - size : at].decode()

    session_id, session_key = take_text(), take_text()
    digest_id = payload[at : at + 32]
    at += 32
    job, reader_id = take_text(), take_text()
    credit, seed, *wish, has_state = struct.unpack_from("<QQBBQQIB", payload, at)
    assert at + 39 == len(payload)
    done = zlib.decompress(os.pread(fds[0], 1 << 24, 0)) if has_state else None
    return Opened(digest_id, session_id, session_key, job, reader_id, credit, seed, done, list(held), *wish)
