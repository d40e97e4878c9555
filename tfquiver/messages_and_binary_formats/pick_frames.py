"""PICKS: which records of a shard are emitted, as value and payload (pure; docs/protocol.md, "Reader socket")."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tfquiver.messages_and_binary_formats.frame_fields import Fields
from tfquiver.messages_and_binary_formats.record_picks import MOST_PICK_BYTES

_PART_BYTES = 60_000


@dataclass(frozen=True, slots=True)
class Picks:
    """A part of which records of the shard that comes next are emitted, and how often (docs/protocol.md)."""

    shard: int
    all_bytes: int
    at: int  # bytes that came before
    part: bytes


def picks_of(shard: int, picks: bytes) -> Iterator[Picks]:
    """The frames that say it."""
    for at in range(0, len(picks), _PART_BYTES):
        yield Picks(shard, len(picks), at, picks[at : at + _PART_BYTES])


def read(f: Fields) -> Picks:
    return Picks(
        f.u32("shard"), f.u64("bytes of all parts", MOST_PICK_BYTES), f.u64("bytes before", MOST_PICK_BYTES),
        f.blob("picks"),
    )  # fmt: skip


def payload(frame: Picks) -> bytes:
    return struct.pack("<IQQI", frame.shard, frame.all_bytes, frame.at, len(frame.part)) + frame.part
