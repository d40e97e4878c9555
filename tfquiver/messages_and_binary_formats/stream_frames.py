"""Frames between a trainer of a stream and the node of its machine (pure; docs/protocol.md, "Streams")."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from tfquiver.messages_and_binary_formats.frame_fields import Fields, text

_MAX_BYTES = 1 << 62
MOST_INDEX = 1 << 40
MOST_BATCH_BYTES = (1 << 32) - 1
_NEXT = struct.Struct("<QBIQ")
_BATCH = struct.Struct("<QBQQI")
_PUBLISH = struct.Struct("<QQI")


# What a likeness is made of, and how many of its bytes are of it.
_LIKENESS = (
    ("other data", 6),
    ("another order of the data", 6),
    ("elements of another structure, shape or type", 6),
    ("other transformations or functions", 7),
    ("other constants (a batch size, a seed, what a function captures)", 7),
)


def likeness(data: bytes, order: bytes, elements: bytes, transformations: bytes, constants: bytes) -> bytes:
    """Of hashes, the same for all who share a stream. 2^-48 is little enough: who differs means no harm."""
    parts = (data, order, elements, transformations, constants)
    return b"".join(part[:length] for part, (_, length) in zip(parts, _LIKENESS, strict=True))


def refusal(stream: str, there: bytes, comes: bytes) -> str:
    """Of one that comes with another likeness than those who are there: what it is told."""
    found, at = [], 0
    for what, length in _LIKENESS:
        if there[at : at + length] != comes[at : at + length]:
            found.append(what)
        at += length
    # An older trainer's is one hash of all.
    differs = ", ".join(found) if len(found) < len(_LIKENESS) else "all of it, or their versions of tfquiver, differ"
    return (
        f"stream {stream!r}: it has another pipeline here: {differs}. All who share a stream need the same pipeline: "
        "give this one another name, or end the others first"
    )


@dataclass(frozen=True, slots=True)
class Follow:
    """Which pass of which stream. `makes`: of one that would make its batches. `likeness`: as made above."""

    stream: str
    likeness: bytes
    pass_: int
    makes: bool
    window_bytes: int
    spill_bytes: int


@dataclass(frozen=True, slots=True)
class Next:
    """The batch that is wanted. `made`: the one before was made here, and came to this."""

    index: int
    made: bool = False
    crc32: int = 0
    length_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """A descriptor rides along."""

    index: int
    kind: int
    offset: int
    length_bytes: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Behind:
    """That batch has gone: make it."""

    index: int


@dataclass(frozen=True, slots=True)
class Unmade:
    """Nobody makes that batch."""

    index: int


@dataclass(frozen=True, slots=True)
class Over:
    """The pass has so many."""

    batches: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Of the pipeline, behind so many batches; memory rides along."""

    batches: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class Make:
    """The answer to a FOLLOW that makes: from which batch on, or, not `granted`, not at all."""

    granted: bool
    index: int


@dataclass(frozen=True, slots=True)
class Room:
    """So many batches may have been made by now."""

    batches: int


@dataclass(frozen=True, slots=True)
class Publish:
    """A batch; memory rides along where it is a new one."""

    index: int
    length_bytes: int
    crc32: int


StreamFrame = Follow | Next | Batch | Behind | Unmade | Over | Checkpoint | Make | Room | Publish
TYPES: tuple[type[StreamFrame], ...] = (Follow, Next, Batch, Behind, Unmade, Over, Checkpoint, Make, Room, Publish)
FIRST_NUMBER = 70


def _index(f: Fields, field: str = "index") -> int:
    return f.u64(field, MOST_INDEX)


READ: dict[type[StreamFrame], Callable[[Fields], StreamFrame]] = {
    Follow: lambda f: Follow(
        f.text("stream"), f.id("likeness"), f.u64("pass", MOST_INDEX), f.flag("makes"),
        f.u64("window_bytes", _MAX_BYTES), f.u64("spill_bytes", _MAX_BYTES),
    ),
    Next: lambda f: Next(_index(f), f.flag("made"), f.u32("crc32"), f.u64("length", MOST_BATCH_BYTES)),
    Batch: lambda f: Batch(
        _index(f), f.u8("kind", 1), f.u64("offset", _MAX_BYTES), f.u64("length", MOST_BATCH_BYTES), f.u32("crc32")
    ),
    Behind: lambda f: Behind(_index(f)),
    Unmade: lambda f: Unmade(_index(f)),
    Over: lambda f: Over(_index(f, "batches")),
    Checkpoint: lambda f: Checkpoint(_index(f, "batches"), f.u64("length", MOST_BATCH_BYTES)),
    Make: lambda f: Make(f.flag("granted"), _index(f)),
    Room: lambda f: Room(_index(f, "batches")),
    Publish: lambda f: Publish(_index(f), f.u64("length", MOST_BATCH_BYTES), f.u32("crc32")),
}  # fmt: skip


def payload(frame: StreamFrame) -> bytes:
    match frame:
        case Follow():
            numbers = struct.pack("<QBQQ", frame.pass_, frame.makes, frame.window_bytes, frame.spill_bytes)
            return text(frame.stream) + frame.likeness + numbers
        case Next():
            return _NEXT.pack(frame.index, frame.made, frame.crc32, frame.length_bytes)
        case Batch():
            return _BATCH.pack(frame.index, frame.kind, frame.offset, frame.length_bytes, frame.crc32)
        case Behind() | Unmade():
            return struct.pack("<Q", frame.index)
        case Over() | Room():
            return struct.pack("<Q", frame.batches)
        case Checkpoint():
            return struct.pack("<QQ", frame.batches, frame.length_bytes)
        case Make():
            return struct.pack("<BQ", frame.granted, frame.index)
        case Publish():
            return _PUBLISH.pack(frame.index, frame.length_bytes, frame.crc32)
