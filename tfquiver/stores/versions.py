"""Reads of one version, where a store cannot pin them to it: what came is checked against what is there afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tfquiver import errors
from tfquiver.stores.attempts import Transient
from tfquiver.stores.object_store import ObjectInfo


def check(uri: str, what: str, generation: str, now: str) -> None:
    """`what` it is, for people. Raises StaleDigestError when it is `now` of another generation than asked for."""
    if generation and now != generation:
        raise errors.StaleDigestError(
            f"{uri}: the {what} has changed since the digest was built (it was {generation}, it is {now}); "
            "call tfquiver.dataset again, which lists the files anew; a .tfqd file must be built again"
        )


def check_end(uri: str, offset: int, length: int, size_bytes: int) -> None:
    """Raises StaleDigestError when it is not so long."""
    if offset + length > size_bytes:
        raise errors.StaleDigestError(
            f"{uri}: bytes {offset} to {offset + length} were asked for; it ends at {size_bytes}"
        )


def checked(uri: str, data: bytes, offset: int, length: int, generation: str, now: ObjectInfo) -> bytes:
    """What a read gave, after which the object was `now`. Raises StaleDigestError, Transient."""
    check(uri, "object", generation, now.generation)
    check_end(uri, offset, length, now.size_bytes)
    check_length(data, offset, length)
    return data


def check_length(data: bytes, offset: int, length: int) -> None:
    """Raises Transient when something else came than was asked for, though it is there."""
    if len(data) != length:
        raise Transient(f"{len(data)} bytes came where {length} were asked for at offset {offset}")


@contextlib.contextmanager
def stale_when_gone(uri: str, generation: str) -> Iterator[None]:
    """NotFoundError of an object that was there with a generation becomes StaleDigestError."""
    try:
        yield
    except errors.NotFoundError as error:
        if generation:
            raise errors.StaleDigestError(f"{uri}: the object is gone since the digest was built") from error
        raise
