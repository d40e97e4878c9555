"""The draws of a sampled epoch: of which shard each of them is, as arrays and as a message. Pure."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.messages_and_binary_formats.record_picks import RecordPicks, record_picks
from tfquiver.plain_text import shortened
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.sizes_durations_amounts.amounts import many

KEY_MARK = "~"  # in a session key: its epochs are of draws, and are never to be read in another way
MOST_DRAWS = 1 << 23  # of a session that is read: 32 MiB, and some 10 MiB in one stage for who takes what is cached
MOST_DRAWS_EARLIER = 1 << 22  # of nodes that do not say how many they read
MOST_STAGES = 10_000
MOST_MESSAGE_BYTES = 6 << 20  # what a call takes is 8 MiB; draws in random order hardly shrink


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class DrawnShards:
    """Draw i is of shard `shards[i]`. In a stage the order is free, and draws are sorted by shard; stages come one
    after the other."""

    scheme: str
    shards: npt.NDArray[np.uint32]  # shape [draws]
    stage_ends: tuple[int, ...]  # rising; the last is the number of draws
    in_turn: bool  # draw 0, 1, 2 ...; there is one stage
    records: int  # of all draws together
    picks: RecordPicks | None = None  # None: each draw is of all records of its shard

    def message(self) -> types_pb2.DrawnShards:
        """Raises InvalidArgumentError: it is too large for one."""
        steps = np.diff(self.shards.astype(np.int64), prepend=0).astype("<i4")
        packed = zlib.compress(steps.tobytes(), 1)
        if len(packed) > MOST_MESSAGE_BYTES:
            raise errors.InvalidArgumentError(
                f"sampling scheme {shortened(self.scheme)}: {many(len(self.shards), 'draw')} in an order that takes "
                f"{len(packed)} bytes; the limit is {MOST_MESSAGE_BYTES}"
            )
        return types_pb2.DrawnShards(
            scheme=self.scheme,
            draws=len(self.shards),
            shards_zlib=packed,
            stage_ends=self.stage_ends,
            in_turn=self.in_turn,
            records=self.records,
            picks=self.picks.message() if self.picks else None,
        )


def drawn_shards(message: types_pb2.DrawnShards, shards: int) -> DrawnShards:
    """Of a data set of so many shards. Raises ProtocolError naming what is wrong."""
    if not 0 < message.draws <= MOST_DRAWS:
        raise errors.ProtocolError(f"drawn: {many(message.draws, 'draw')}; it must be from 1 to {MOST_DRAWS}")
    size_bytes, decoder = 4 * message.draws, zlib.decompressobj()
    try:
        raw = decoder.decompress(message.shards_zlib, size_bytes + 1)
    except zlib.error as error:
        raise errors.ProtocolError(f"drawn.shards_zlib: not zlib data: {error}") from error
    if len(raw) != size_bytes or not decoder.eof:
        raise errors.ProtocolError(f"drawn.shards_zlib: not the {size_bytes} bytes of {many(message.draws, 'draw')}")
    numbers = np.cumsum(np.frombuffer(raw, "<i4"), dtype=np.int64)
    wrong = np.flatnonzero((numbers < 0) | (numbers >= shards))
    if len(wrong):
        raise errors.ProtocolError(
            f"drawn: draw {wrong[0]} is of shard {numbers[wrong[0]]}; the data set has {many(shards, 'shard')}"
        )
    ends = tuple(message.stage_ends) or (message.draws,)
    if not are_stages(ends, message.draws) or (message.in_turn and len(ends) > 1):
        raise errors.ProtocolError(f"drawn.stage_ends: not rising to {message.draws}, or too many")
    picks = record_picks(message.picks) if message.HasField("picks") else None
    return DrawnShards(message.scheme, numbers.astype(np.uint32), ends, message.in_turn, message.records, picks)


def are_stages(ends: Sequence[int], draws: int) -> bool:
    """Whether each stage has some draws, and all of them have all."""
    return (
        0 < len(ends) <= MOST_STAGES
        and ends[0] > 0
        and ends[-1] == draws
        and all(one < other for one, other in itertools.pairwise(ends))
    )
