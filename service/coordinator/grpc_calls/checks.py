"""What a request may contain. Each check raises InvalidArgumentError naming the field."""

from __future__ import annotations

from collections.abc import Iterable

from tfquiver import errors

HASH_BYTES = 32
MAX_NAME_BYTES = 512
MAX_INVENTORY_HASHES = 16_384
MAX_LEASES = 1024
MAX_REPORTS = 1024
MAX_WAIT_MS = 10_000
MAX_PARTITIONS = 1 << 20
MAX_ASKED = 1 << 20
MAX_PREFIXES_BYTES = 4 << 20
MAX_BYTES = 1 << 62


def name(field: str, value: str, required: bool = True) -> None:
    if required and not value:
        raise errors.InvalidArgumentError(f"{field}: missing")
    if len(value.encode()) > MAX_NAME_BYTES:
        raise errors.InvalidArgumentError(f"{field}: longer than {MAX_NAME_BYTES} bytes")


def hash_(field: str, value: bytes, required: bool = True) -> None:
    if (required or value) and len(value) != HASH_BYTES:
        raise errors.InvalidArgumentError(f"{field}: {len(value)} bytes; it has {HASH_BYTES}")


def hashes(field: str, values: Iterable[bytes]) -> None:
    for value in values:
        hash_(field, value)


def rate(field: str, bytes_per_s: float) -> None:
    if not 0 <= bytes_per_s <= MAX_BYTES:  # nor is it, where it is not a number
        raise errors.InvalidArgumentError(f"{field}: {bytes_per_s}; it is bytes/s, 0 to {MAX_BYTES}; 0: no allocation")


def between(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise errors.InvalidArgumentError(f"{field}: {value}; it is {least} to {most}")
