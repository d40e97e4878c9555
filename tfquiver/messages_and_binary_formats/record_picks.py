"""How the draws of an epoch pick records: as a value and as a message. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2

MOST_PLANES = 64
MOST_PICK_BYTES = 2 << 20  # of a draw: 16 million records, in one plane


@dataclass(frozen=True, slots=True)
class RecordPicks:
    """As the message of that name."""

    weights_id: bytes
    seed: int
    planes: int
    most_key: float
    records: int

    def pick_bytes(self, records: int) -> int:
        """Of a draw of a shard of so many."""
        return self.planes * (-(-records // 8))

    def message(self) -> types_pb2.RecordPicks:
        return types_pb2.RecordPicks(
            weights_id=self.weights_id, seed=self.seed, planes=self.planes, most_key=self.most_key, records=self.records
        )


def record_picks(message: types_pb2.RecordPicks) -> RecordPicks:
    """Raises ProtocolError naming what is wrong."""
    if len(message.weights_id) != 32:
        raise errors.ProtocolError(f"picks.weights_id: {len(message.weights_id)} bytes, not 32")
    if not 0 < message.planes <= MOST_PLANES:
        raise errors.ProtocolError(f"picks.planes: {message.planes}; it must be from 1 to {MOST_PLANES}")
    if not 0 <= message.most_key < math.inf or (message.most_key and message.planes > 1):
        raise errors.ProtocolError(f"picks.most_key: {message.most_key}, in {message.planes} planes")
    return RecordPicks(message.weights_id, message.seed, message.planes, message.most_key, message.records)
