"""Frames between a mount and the node of its machine, as values and payloads (pure; docs/protocol.md, "Mounts")."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tfquiver.errors import TfquiverError, code_number
from tfquiver.messages_and_binary_formats.frame_fields import Fields, clipped, text

_MAX_BYTES = 1 << 62
_GET = struct.Struct("<I32sI32sB")
_GOT = struct.Struct("<IBQQI")
_FAILED = struct.Struct("<IH")


@dataclass(frozen=True, slots=True)
class Get:
    """One shard, for who can name its content. `again`: what came before did not have its CRC."""

    request: int
    digest_id: bytes
    shard: int
    hash: bytes
    again: bool = False


@dataclass(frozen=True, slots=True)
class Got:
    """The answer to a GET; a descriptor rides along."""

    request: int
    kind: int
    offset: int
    length_bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The other answer to a GET or WHICH; `code` as in ERROR."""

    request: int
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Which:
    """Which shards of a data set are cached at the node."""

    request: int
    digest_id: bytes


@dataclass(frozen=True, slots=True)
class These:
    """The answer to a WHICH; a bitmap of so many shards rides along as memory."""

    request: int
    shards: int


def failure(request: int, error: TfquiverError) -> Failed:
    """A message too long for a frame is cut."""
    return Failed(request, code_number(error), clipped(error))


def get(f: Fields) -> Get:
    return Get(f.u32("request"), f.id("digest_id"), f.u32("shard"), f.id("hash"), f.flag("again"))


def got(f: Fields) -> Got:
    return Got(
        f.u32("request"), f.u8("kind", 1), f.u64("offset", _MAX_BYTES), f.u64("length", _MAX_BYTES), f.u32("crc32c")
    )


def failed(f: Fields) -> Failed:
    return Failed(f.u32("request"), f.u16("code"), f.text("message"))


def which(f: Fields) -> Which:
    return Which(f.u32("request"), f.id("digest_id"))


def these(f: Fields) -> These:
    return These(f.u32("request"), f.u32("shards"))


def payload(frame: Get | Got | Failed | Which | These) -> bytes:
    match frame:
        case Which():
            return struct.pack("<I", frame.request) + frame.digest_id
        case These():
            return struct.pack("<II", frame.request, frame.shards)
        case Get():
            return _GET.pack(frame.request, frame.digest_id, frame.shard, frame.hash, frame.again)
        case Got():
            return _GOT.pack(frame.request, frame.kind, frame.offset, frame.length_bytes, frame.crc32c)
        case Failed():
            return _FAILED.pack(frame.request, frame.code) + text(frame.message)
