"""Frames of the reader socket, as bytes and as values (pure; docs/protocol.md, "Reader socket").

`decode` trusts nothing: a frame that is not exactly what the protocol says raises ProtocolError naming what is off.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from tfquiver.errors import ProtocolError, TfquiverError, code_number
from tfquiver.messages_and_binary_formats import (
    frame_header,
    greeting_frames,
    mount_frames,
    pick_frames,
    stream_frames,
)
from tfquiver.messages_and_binary_formats.frame_fields import MAX_INDEXES as MAX_INDEXES
from tfquiver.messages_and_binary_formats.frame_fields import MAX_STRING_BYTES as MAX_STRING_BYTES
from tfquiver.messages_and_binary_formats.frame_fields import Fields, clipped, text
from tfquiver.messages_and_binary_formats.frame_header import HEADER_BYTES
from tfquiver.messages_and_binary_formats.frame_header import MAGIC as MAGIC
from tfquiver.messages_and_binary_formats.greeting_frames import MAX_FRAME_BYTES as MAX_FRAME_BYTES
from tfquiver.messages_and_binary_formats.greeting_frames import ROLE_READER as ROLE_READER
from tfquiver.messages_and_binary_formats.greeting_frames import VERSION as VERSION
from tfquiver.messages_and_binary_formats.greeting_frames import Hello as Hello
from tfquiver.messages_and_binary_formats.greeting_frames import Welcome as Welcome
from tfquiver.messages_and_binary_formats.mount_frames import Failed as Failed
from tfquiver.messages_and_binary_formats.mount_frames import Get as Get
from tfquiver.messages_and_binary_formats.mount_frames import Got as Got
from tfquiver.messages_and_binary_formats.mount_frames import These as These
from tfquiver.messages_and_binary_formats.mount_frames import Which as Which
from tfquiver.messages_and_binary_formats.pick_frames import Picks as Picks
from tfquiver.messages_and_binary_formats.pick_frames import picks_of as picks_of
from tfquiver.sizes_durations_amounts.amounts import many

MAX_BYTES = 1 << 62

ROLE_TICKETS = 1
ROLE_DELIVERIES = 2
ROLE_MOUNT = 3
ROLE_READER_IN_TURN = 4  # of several whose records are taken by turns
ROLE_STREAM = 7  # a trainer of a stream
# Who asks for a ticket.
PROVIDER, RESTORED_PROVIDER, LATE_READER, JOINER = range(4)
KIND_FILE = 0
KIND_MEMORY = 1

_SHARD = struct.Struct("<HBBIIBQQIIIQIII")
_U8 = struct.Struct("<B")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SHARD_BYTES = _SHARD.size - HEADER_BYTES


ORDER_ANY = 0
ORDER_DETERMINISTIC = 1
ORDER_WANTED = 2
ORDER_FILES = 3


@dataclass(frozen=True, slots=True)
class Wish:
    """What a session is to be like, but for its data set."""

    seed: int = 0
    order: int = ORDER_ANY
    homogeneous: bool = False
    order_seed: int = 0  # deterministic sessions; 0: made of the seed and the epoch
    block_bytes: int = 0  # of a block, or of a stripe unit of a homogeneous session, about
    batch_records: int = 0  # 0: not known


@dataclass(frozen=True, slots=True)
class Place:
    """Where a shard stands in the order of its session; all zero where the session has none."""

    unit: int = 0
    position: int = 0
    offset: int = 0
    block_records: int = 0
    block_shards: int = 0


NO_PLACE = Place()


@dataclass(frozen=True, slots=True)
class Open:
    session_id: str
    session_key: str
    digest_id: bytes
    job: str
    reader_id: str
    credit_bytes: int
    wish: Wish
    has_state: bool


@dataclass(frozen=True, slots=True)
class Opened:
    session_id: str
    epoch: int
    shards: int
    records: int


@dataclass(frozen=True, slots=True)
class Credit:
    credit_bytes: int


@dataclass(frozen=True, slots=True)
class Shard:
    shard: int
    kind: int
    offset: int
    length_bytes: int
    crc32c: int
    records: int
    place: Place = NO_PLACE


@dataclass(frozen=True, slots=True)
class Ack:
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bad:
    shard: int


@dataclass(frozen=True, slots=True)
class Draining:
    shards_received: int


@dataclass(frozen=True, slots=True)
class End:
    pass


@dataclass(frozen=True, slots=True)
class Close:
    complete: bool


@dataclass(frozen=True, slots=True)
class Ticket:
    session_key: str
    provider_id: str
    repetition: int
    asker: int
    digest_id: bytes
    job: str
    wish: Wish = Wish()


@dataclass(frozen=True, slots=True)
class TicketReply:
    end: bool
    session_id: str


@dataclass(frozen=True, slots=True)
class Error:
    code: int
    fatal: bool
    message: str


@dataclass(frozen=True, slots=True)
class Ping:
    pass


@dataclass(frozen=True, slots=True)
class Held:
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dropped:
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Delivered:
    session_id: str
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Want:
    """Shards in the order in which the reader wants them (ORDER_WANTED); none: those before were all."""

    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leaving:
    """What is acknowledged from here on was emitted, but buffers behind the reader may not have delivered it."""


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to PING: the node takes a REPORT so often; 0: never."""

    report_ms: int


@dataclass(frozen=True, slots=True)
class Report:
    """What the reader has given to the pipeline behind it, and how long that waited; all since its first draw."""

    records: int
    size_bytes: int
    waited_us: int
    elapsed_us: int


Frame = (
    Hello | Welcome | Open | Opened | Credit | Shard | Ack | Bad | Draining | End | Close
    | Ticket | TicketReply | Error | Ping | Held | Dropped | Delivered | Want | Leaving | Pong
    | Report | Get | Got | Failed | Which | These | Picks
    | stream_frames.StreamFrame
)  # fmt: skip
_TYPES: tuple[type[Frame], ...] = (
    Hello, Welcome, Open, Opened, Credit, Shard, Ack, Bad, Draining, End, Close,
    Ticket, TicketReply, Error, Ping, Held, Dropped, Delivered, Want, Leaving, Pong,
    Report, Get, Got, Failed, Which, These, Picks,
)  # fmt: skip
_NUMBERS: dict[type[Frame], int] = {
    **{cls: number for number, cls in enumerate(_TYPES, start=1)},
    **{cls: number for number, cls in enumerate(stream_frames.TYPES, start=stream_frames.FIRST_NUMBER)},
}
_BY_NUMBER = {number: cls for cls, number in _NUMBERS.items()}


def _wish(f: Fields) -> Wish:
    return Wish(
        f.u64("seed"), f.u8("order", ORDER_FILES), f.flag("homogeneous"), f.u64("order_seed"),
        f.u64("block_bytes", MAX_BYTES), f.u32("batch_records"),
    )  # fmt: skip


def _place(f: Fields) -> Place:
    return Place(
        f.u32("unit"), f.u64("position", MAX_BYTES), f.u32("offset"), f.u32("block_records"), f.u32("block_shards")
    )


_READ: dict[type[Frame], Callable[[Fields], Frame]] = {
    Hello: lambda f: Hello(f.u8("role", ROLE_STREAM), f.u32("pid"), f.text("label")),
    Welcome: greeting_frames.read_welcome,
    Open: lambda f: Open(
        f.text("session_id"), f.text("session_key"), f.id("digest_id"), f.text("job"), f.text("reader_id"),
        f.u64("credit_bytes", MAX_BYTES), _wish(f), f.flag("has_state"),
    ),
    Opened: lambda f: Opened(f.text("session_id"), f.u64("epoch"), f.u64("shards"), f.u64("records")),
    Credit: lambda f: Credit(f.u64("bytes", MAX_BYTES)),
    Shard: lambda f: Shard(
        f.u32("shard"), f.u8("kind", 1), f.u64("offset", MAX_BYTES), f.u64("length", MAX_BYTES), f.u32("crc32c"),
        f.u32("records"), _place(f),
    ),
    Ack: lambda f: Ack(f.indexes("shards")),
    Bad: lambda f: Bad(f.u32("shard")),
    Draining: lambda f: Draining(f.u64("shards_received")),
    End: lambda f: End(),
    Close: lambda f: Close(f.flag("complete")),
    Ticket: lambda f: Ticket(
        f.text("session_key"), f.text("provider_id"), f.u64("repetition"), f.u8("asker", JOINER),
        f.id("digest_id"), f.text("job"), _wish(f),
    ),
    TicketReply: lambda f: TicketReply(f.flag("end"), f.text("session_id")),
    Error: lambda f: Error(f.u16("code"), f.flag("fatal"), f.text("message")),
    Ping: lambda f: Ping(),
    Held: lambda f: Held(f.indexes("shards")),
    Dropped: lambda f: Dropped(f.indexes("shards")),
    Delivered: lambda f: Delivered(f.text("session_id"), f.indexes("shards")),
    Want: lambda f: Want(f.indexes("shards")),
    Leaving: lambda f: Leaving(),
    Pong: lambda f: Pong(f.u32("report_ms")),
    Report: lambda f: Report(f.u64("records"), f.u64("bytes"), f.u64("waited_us"), f.u64("elapsed_us")),
    Get: mount_frames.get,
    Got: mount_frames.got,
    Failed: mount_frames.failed,
    Which: mount_frames.which,
    These: mount_frames.these,
    Picks: pick_frames.read,
}  # fmt: skip


_READ.update(stream_frames.READ.items())


def _indexes(shards: tuple[int, ...]) -> bytes:
    if len(shards) > MAX_INDEXES:
        raise ProtocolError(f"{many(len(shards), 'shard does', 'shards do')} not fit a frame (at most {MAX_INDEXES})")
    return struct.pack(f"<I{len(shards)}I", len(shards), *shards)


def _wish_bytes(wish: Wish) -> bytes:
    numbers = wish.order, wish.homogeneous, wish.order_seed, wish.block_bytes, wish.batch_records
    return struct.pack("<QBBQQI", wish.seed, *numbers)


def _payload(frame: Frame) -> bytes:
    match frame:
        case Hello():
            return greeting_frames.hello_payload(frame)
        case Welcome():
            return text(frame.node_id)
        case Open():
            names = text(frame.session_id) + text(frame.session_key) + frame.digest_id
            names += text(frame.job) + text(frame.reader_id)
            return names + _U64.pack(frame.credit_bytes) + _wish_bytes(frame.wish) + _U8.pack(frame.has_state)
        case Opened():
            return text(frame.session_id) + struct.pack("<QQQ", frame.epoch, frame.shards, frame.records)
        case Credit():
            return _U64.pack(frame.credit_bytes)
        case Shard():
            raise AssertionError("encoded in one piece")
        case Ack() | Held() | Dropped() | Want():
            return _indexes(frame.shards)
        case Delivered():
            return text(frame.session_id) + _indexes(frame.shards)
        case Bad():
            return _U32.pack(frame.shard)
        case Draining():
            return _U64.pack(frame.shards_received)
        case Close():
            return _U8.pack(frame.complete)
        case Ticket():
            head = text(frame.session_key) + text(frame.provider_id)
            head += struct.pack("<QB", frame.repetition, frame.asker) + frame.digest_id + text(frame.job)
            return head + _wish_bytes(frame.wish)
        case TicketReply():
            return _U8.pack(frame.end) + text(frame.session_id)
        case Error():
            return struct.pack("<HB", frame.code, frame.fatal) + text(frame.message)
        case Pong():
            return _U32.pack(frame.report_ms)
        case Report():
            return struct.pack("<QQQQ", frame.records, frame.size_bytes, frame.waited_us, frame.elapsed_us)
        case Picks():
            return pick_frames.payload(frame)
        case Get() | Got() | Failed() | Which() | These():
            return mount_frames.payload(frame)
        case stream_frames.Follow() | stream_frames.Next() | stream_frames.Batch() | stream_frames.Behind():
            return stream_frames.payload(frame)
        case stream_frames.Unmade() | stream_frames.Over() | stream_frames.Checkpoint() | stream_frames.Make():
            return stream_frames.payload(frame)
        case stream_frames.Room() | stream_frames.Publish():
            return stream_frames.payload(frame)
        case End() | Ping() | Leaving():
            return b""


def error(error: TfquiverError, fatal: bool) -> Error:
    """The ERROR frame for an exception; a message too long for a frame is cut."""
    return Error(code_number(error), fatal, clipped(error))


def encode(frame: Frame) -> bytes:
    """The frame as one message. Raises ProtocolError when a string or list is too long for one."""
    if isinstance(frame, Shard):
        place = frame.place
        return _SHARD.pack(
            MAGIC, VERSION, 6, _SHARD_BYTES,
            frame.shard, frame.kind, frame.offset, frame.length_bytes, frame.crc32c, frame.records,
            place.unit, place.position, place.offset, place.block_records, place.block_shards,
        )  # fmt: skip
    payload = _payload(frame)
    return frame_header.packed(VERSION, _NUMBERS[type(frame)], len(payload)) + payload


def decode(message: bytes | bytearray | memoryview) -> Frame:
    """The value of one whole message. Raises ProtocolError when it is anything but one well-formed frame."""
    view = memoryview(message)
    if not HEADER_BYTES <= len(view) <= MAX_FRAME_BYTES:
        raise ProtocolError(f"a message of {len(view)} bytes is not a frame ({HEADER_BYTES} to {MAX_FRAME_BYTES})")
    number, length = frame_header.unpacked(view, VERSION, "op")
    cls = _BY_NUMBER.get(number)
    if cls is None:
        raise ProtocolError(f"there is no frame type {number}")
    if length != len(view) - HEADER_BYTES:
        raise ProtocolError(f"{cls.__name__} frame: its header says {length} bytes, {len(view) - HEADER_BYTES} came")
    fields = Fields(cls.__name__, view[HEADER_BYTES:])
    frame = _READ[cls](fields)
    fields.end()
    return frame
