"""Frames of the data port, as bytes and as values (pure; docs/protocol.md, "Data port"). Bodies travel beside them.

What comes in is trusted in nothing: a frame that is not exactly what the protocol says raises ProtocolError naming what
is off, before anything is allocated for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.errors import ProtocolError, TfquiverError
from tfquiver.messages_and_binary_formats import frame_header
from tfquiver.messages_and_binary_formats.frame_fields import Fields, text
from tfquiver.messages_and_binary_formats.frame_fields import clipped as clipped
from tfquiver.messages_and_binary_formats.frame_header import HEADER_BYTES as HEADER_BYTES
from tfquiver.messages_and_binary_formats.frame_header import MAGIC as MAGIC
from tfquiver.service.node.disk import entry
from tfquiver.service.node.shards_from_disk_other_nodes_or_store import reach
from tfquiver.sizes_durations_amounts.amounts import many

VERSION = 2
MAX_PAYLOAD_BYTES = 1 << 20
MAX_ITEMS = 1024
_MAX_SMALL_BYTES = 32 << 10

HERE = 0
NOT_HERE = 1
NOT_THAT_SHARD = 2

_WANT = struct.Struct("<I32s")
_BODY = struct.Struct("<BQQII")
_FIRST_TYPE = 32
_UNKNOWN = "the data port has no frame type {}"  # peers go by these words: they stay as they are
_NOBODY = "nobody computes it here: "  # and by these
_LEFT_THE_STORE = "it left the store"  # and these; who is older does not look


@dataclass(frozen=True, slots=True)
class Hello:
    """`nonce` is new each time; WELCOME's proof is over it."""

    token: str
    node_id: str
    nonce: bytes = bytes(32)


@dataclass(frozen=True, slots=True)
class Welcome:
    """`proof`: see peer_proof.py."""

    node_id: str
    proof: bytes = bytes(32)


@dataclass(frozen=True, slots=True)
class Get:
    digest_id: bytes
    request: int
    wants: tuple[tuple[int, bytes], ...]  # shard, its hash


@dataclass(frozen=True, slots=True)
class Item:
    """`body` follows the frame when `status` is HERE; else it says nothing and is zero all over."""

    request: int
    shard: int
    status: int
    body: entry.Header | None
    message: str


@dataclass(frozen=True, slots=True)
class Put:
    """`body.stored_length` bytes follow."""

    body: entry.Header


@dataclass(frozen=True, slots=True)
class PutReply:
    hash: bytes
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Error:
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Working:
    """The server is still about the client's GETs."""


@dataclass(frozen=True, slots=True)
class Bad:
    """The shard's body did not have its checksum when it came."""

    digest_id: bytes
    shard: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class GetWithin:
    """As GET, of what can be had so: `reach` is ON_DISK or STORE."""

    digest_id: bytes
    request: int
    reach: int
    wants: tuple[tuple[int, bytes], ...]


Frame = Hello | Welcome | Get | Item | Put | PutReply | Error | Working | Bad | GetWithin
_TYPES: tuple[type[Frame], ...] = (Hello, Welcome, Get, Item, Put, PutReply, Error, Working, Bad, GetWithin)
_NUMBERS: dict[type[Frame], int] = {cls: number for number, cls in enumerate(_TYPES, start=_FIRST_TYPE)}


def _body_fields(fields: Fields, hash: bytes) -> entry.Header:
    body = entry.Header(
        fields.u8("codec", 255), fields.u64("raw_length"), fields.u64("stored_length"), fields.u32("crc32c_raw"),
        fields.u32("crc32c_stored"), hash,
    )  # fmt: skip
    if trouble := entry.check_lengths(body.codec, body.raw_length, body.stored_length):
        raise ProtocolError(f"{fields.frame} frame: {trouble}")
    return body


def _get(fields: Fields) -> Get:
    digest_id, request = fields.id("digest_id"), fields.u32("request")
    return Get(digest_id, request, _wants(fields))


def _get_within(fields: Fields) -> GetWithin:
    digest_id, request, its_reach = fields.id("digest_id"), fields.u32("request"), fields.u8("reach", reach.STORE)
    return GetWithin(digest_id, request, its_reach, _wants(fields))


def _wants(fields: Fields) -> tuple[tuple[int, bytes], ...]:
    count = fields.u32("n")
    if not 1 <= count <= MAX_ITEMS:
        raise ProtocolError(f"{fields.frame} frame: {many(count, 'shard')} asked for; 1 to {MAX_ITEMS} can be")
    return tuple((fields.u32("shard"), fields.id("hash")) for _ in range(count))


def _item(fields: Fields) -> Item:
    request, shard, status = fields.u32("request"), fields.u32("shard"), fields.u8("status", NOT_THAT_SHARD)
    if status == HERE:
        body: entry.Header | None = _body_fields(fields, bytes(32))
    else:
        body = None
        for field in ("codec", *["lengths and checksums"] * (_BODY.size - 1)):
            fields.u8(field, 0)
    return Item(request, shard, status, body, fields.text("message"))


def _put(fields: Fields) -> Put:
    hash = fields.id("hash")
    return Put(_body_fields(fields, hash))


_READ: dict[type[Frame], Callable[[Fields], Frame]] = {
    Hello: lambda f: Hello(f.text("token"), f.text("node_id"), f.id("nonce")),
    Welcome: lambda f: Welcome(f.text("node_id"), f.id("proof")),
    Get: _get,
    Item: _item,
    Put: _put,
    PutReply: lambda f: PutReply(f.id("hash"), f.u16("code"), f.text("message")),
    Error: lambda f: Error(f.u16("code"), f.text("message")),
    Working: lambda f: Working(),
    Bad: lambda f: Bad(f.id("digest_id"), f.u32("shard"), f.id("hash")),
    GetWithin: _get_within,
}


def _pack_body(body: entry.Header | None) -> bytes:
    if body is None:
        return bytes(_BODY.size)
    return _BODY.pack(body.codec, body.raw_length, body.stored_length, body.crc32c_raw, body.crc32c_stored)


def _payload(frame: Frame) -> bytes:
    match frame:
        case Hello():
            return text(frame.token) + text(frame.node_id) + frame.nonce
        case Welcome():
            return text(frame.node_id) + frame.proof
        case Get():
            head = frame.digest_id + struct.pack("<II", frame.request, len(frame.wants))
            return head + b"".join(_WANT.pack(*want) for want in frame.wants)
        case GetWithin():
            head = frame.digest_id + struct.pack("<IBI", frame.request, frame.reach, len(frame.wants))
            return head + b"".join(_WANT.pack(*want) for want in frame.wants)
        case Item():
            head = struct.pack("<IIB", frame.request, frame.shard, frame.status)
            return head + _pack_body(frame.body) + text(frame.message)
        case Put():
            return frame.body.hash + _pack_body(frame.body)
        case PutReply():
            return frame.hash + struct.pack("<H", frame.code) + text(frame.message)
        case Error():
            return struct.pack("<H", frame.code) + text(frame.message)
        case Working():
            return b""
        case Bad():
            return frame.digest_id + struct.pack("<I", frame.shard) + frame.hash


def encode(frame: Frame) -> bytes:
    """Header and payload."""
    payload = _payload(frame)
    return frame_header.packed(VERSION, _NUMBERS[type(frame)], len(payload)) + payload


def decode_header(header: bytes) -> tuple[type[Frame], int]:
    """(type, bytes of payload that follow) of HEADER_BYTES bytes."""
    number, length = frame_header.unpacked(header, VERSION, "node")
    if number - _FIRST_TYPE not in range(len(_TYPES)):
        raise ProtocolError(_UNKNOWN.format(number))
    cls = _TYPES[number - _FIRST_TYPE]
    limit = MAX_PAYLOAD_BYTES if cls in (Get, GetWithin) else _MAX_SMALL_BYTES
    if length > limit:
        raise ProtocolError(f"{cls.__name__} frame: {length} bytes of payload, more than {limit}")
    return cls, length


def is_unknown(error: TfquiverError, cls: type[Frame]) -> bool:
    """Whether a peer's ERROR says that it has no such frame: it is older."""
    return str(error).endswith(_UNKNOWN.format(_NUMBERS[cls]))


def no_item(request: int, shard: int, status: int, error: Exception) -> Item:
    """Says why there is none."""
    nobody = isinstance(error, errors.NobodyComputesError)
    return Item(request, shard, status, None, clipped(f"{_NOBODY}{error}" if nobody else error))


def here(request: int, shard: int, body: entry.Header, left_the_store: bool = False) -> Item:
    """`left_the_store`: to answer; who asked has found it in no cache."""
    return Item(request, shard, HERE, body, _LEFT_THE_STORE if left_the_store else "")


def has_left_the_store(item: Item) -> bool:
    return item.message == _LEFT_THE_STORE


def trouble(item: Item) -> type[errors.UnavailableError]:
    """What an item is that is none."""
    return errors.NobodyComputesError if item.message.startswith(_NOBODY) else errors.UnavailableError


def decode_payload(cls: type[Frame], payload: bytes | bytearray) -> Frame:
    fields = Fields(cls.__name__, memoryview(payload))
    frame = _READ[cls](fields)
    fields.end()
    return frame


def put_reply(hash: bytes, error: TfquiverError | None) -> PutReply:
    return PutReply(hash, errors.code_number(error), clipped(error)) if error else PutReply(hash, 0, "")
