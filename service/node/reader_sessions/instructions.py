"""What a reader's session asks its shell to do, and what a lease came to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tfquiver.errors import TfquiverError


@dataclass(frozen=True, slots=True)
class Lease:
    """Ask the coordinator for shards; replaces the Lease under way, if any (same sequence, other terms)."""

    sequence: int
    max_shards: int
    max_bytes: int
    draining: bool
    wait_ms: int
    wanted: tuple[int, ...] = ()  # these, in this order, and no others
    acked: tuple[int, ...] = ()  # acknowledged by the same call


@dataclass(frozen=True, slots=True)
class Fetch:
    shard: int
    owner: str
    after_s: float = 0.0
    drop_first: bool = False  # the reader found its bytes bad: drop the entry before getting it again


@dataclass(frozen=True, slots=True)
class Send:
    shard: int


@dataclass(frozen=True, slots=True)
class Discard:
    """The shard is no longer the reader's: stop fetching it, close what was fetched."""

    shard: int


@dataclass(frozen=True, slots=True)
class AcksWaiting:
    """Call `flush_acks` soon."""


@dataclass(frozen=True, slots=True)
class SendAcks:
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SendDropped:
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SendEnd:
    pass


@dataclass(frozen=True, slots=True)
class Tell:
    """An ERROR frame; a fatal one is the last thing the reader hears."""

    error: TfquiverError
    fatal: bool


Instruction = Lease | Fetch | Send | Discard | AcksWaiting | SendAcks | SendDropped | SendEnd | Tell


class LeaseState(Enum):
    LEASED = 1
    WAIT = 2
    END = 3
