"""What a shard's records have become, as shards of their own. Pure.

The records stay in their order; a part is full when the next record would take it beyond `MOST_PART_BYTES`. So whoever
computes a shard again gets the same parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.scanning import tfrecord
from tfquiver.sizes_durations_amounts.amounts import many

MOST_PART_BYTES = 8 << 20  # of several records
MOST_ELEMENT_BYTES = (1 << 30) - tfrecord.FRAMING_BYTES  # a node takes no larger shard


@dataclass(frozen=True, slots=True)
class MadeShard:
    """`data`: TFRecord framing included; `hash`: its SHA-256."""

    hash: bytes
    data: bytes
    records: int


def cut(payloads: Iterable[bytes]) -> Iterator[MadeShard]:
    """Raises InvalidArgumentError: one that is too large to be kept."""
    part: list[bytes] = []
    size_bytes = 0
    for number, payload in enumerate(payloads):
        if len(payload) > MOST_ELEMENT_BYTES:
            raise errors.InvalidArgumentError(
                f"record {number} becomes {len(payload)} bytes; 1 GiB is the most that is kept of one: make less of "
                "it, or do this behind materialize"
            )
        framed = tfrecord.frame(payload)
        if part and size_bytes + len(framed) > MOST_PART_BYTES:
            yield _made(part)
            part, size_bytes = [], 0
        part.append(framed)
        size_bytes += len(framed)
    if part:
        yield _made(part)


def payloads(data: bytes, records: int, where: str) -> list[bytes]:
    """Of a shard whose hash has been checked. Raises DataLossError naming `where`."""
    found: list[bytes] = []
    at = 0
    while at + tfrecord.FRAMING_BYTES <= len(data):
        end = at + tfrecord.HEADER_BYTES + int.from_bytes(data[at : at + 8], "little")
        found.append(data[at + tfrecord.HEADER_BYTES : end])
        at = end + tfrecord.FOOTER_BYTES
    if at != len(data) or len(found) != records:
        raise errors.DataLossError(
            f"{where}: {many(len(found), 'record')} in {many(at, 'byte')}; the digest says {records}"
        )
    return found


def _made(part: list[bytes]) -> MadeShard:
    data = b"".join(part)
    return MadeShard(hashlib.sha256(data).digest(), data, len(part))
