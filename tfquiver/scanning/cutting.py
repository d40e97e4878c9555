"""Where shards begin and end (pure).

A shard ends after a record when it has reached the minimum size and the record itself says so: its CRC, well mixed,
falls under a threshold in proportion to its length. So one record in `(target - min) / length` ends a shard, whatever
the records' sizes, and the decision depends on nothing but the records since the last cut. Two copies of the same
records therefore fall into step again at the first cut they share, however they were packed into files (I-1).
"""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver import errors
from tfquiver.digests import formats

_MIX = 0x9E3779B1  # 2**32 / golden ratio: CRCs of similar records differ in few, structured bits
_SHIFT = 0x7F4A7C15  # takes the CRC of the empty record, 0, to the middle: it must not end every shard
_MASK = 0xFFFFFFFF
_OF_BYTES = (("min_bytes", 64, 1 << 20), ("target_bytes", 256, 4 << 20), ("max_bytes", 1024, 16 << 20))  # FastCDC's
SHARD_LIMIT_BYTES = 1 << 31  # a shard always ends here, so that with its last record it stays under 4 GiB


@dataclass(frozen=True, slots=True)
class CutPolicy:
    """Sizes are raw TFRecord bytes, framing included.

    A shard has at least `min_bytes` (except at a file's end), about `target_bytes` on average, and ends with the record
    that takes it to `max_bytes` or beyond. All three 1: one record a shard. `target_bytes` and `max_bytes` of 2**62: a
    whole file is one shard, up to SHARD_LIMIT_BYTES.

    With `format` "bytes" files of any kind are cut, by FastCDC (scanning/bytes_cut.py); sizes have narrower limits.
    """

    min_bytes: int = 512 << 10
    target_bytes: int = 2 << 20
    max_bytes: int = 8 << 20
    format: str = formats.TFRECORD

    def __post_init__(self) -> None:
        if self.format not in formats.FORMATS:
            raise errors.InvalidArgumentError(f"format={self.format!r}: must be one of {', '.join(formats.FORMATS)}")
        if not 1 <= self.min_bytes <= self.target_bytes <= self.max_bytes < 1 << 63:
            raise errors.InvalidArgumentError(
                "shard sizes must satisfy 1 <= min <= target <= max: "
                f"min={self.min_bytes}, target={self.target_bytes}, max={self.max_bytes}"
            )
        if self.format == formats.BYTES:
            for name, least, most in _OF_BYTES:
                if not least <= getattr(self, name) <= most:
                    raise errors.InvalidArgumentError(
                        f"{name}={getattr(self, name)}: for format={formats.BYTES} it is {least} to {most}"
                    )


class Cutter:
    """Told of each record of one file in turn; says after which ones a shard ends."""

    def __init__(self, policy: CutPolicy) -> None:
        self._min = policy.min_bytes
        self._max = min(policy.max_bytes, SHARD_LIMIT_BYTES)
        self._spread = policy.target_bytes - policy.min_bytes
        self._size = 0

    def feed(self, record_bytes: int, crc: int) -> bool:
        """Whether the shard ends after this record.

        Args:
          record_bytes: length of the record with its framing (payload + 16).
          crc: plain (unmasked) CRC-32C of the payload.
        """
        size = self._size + record_bytes
        if size >= self._min and (
            size >= self._max or (((crc * _MIX + _SHIFT) & _MASK) + 1) * self._spread < record_bytes << 32
        ):
            self._size = 0
            return True
        self._size = size
        return False
