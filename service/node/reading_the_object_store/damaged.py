"""Bytes that are not what the digest says: damaged on the way, in the store, or the object is another."""

from __future__ import annotations

from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.stores import ObjectStore
from tfquiver.stores.attempts import Transient

_LOCAL_S = 1.0  # a disk of this machine does not damage what it reads for a while only


class Damaged(Transient):
    """Another attempt may bring the right bytes."""


def patience_s(store: ObjectStore, deadline_s: float) -> float:
    """How long damaged bytes are read again before anybody is told."""
    return deadline_s if store.remote else min(deadline_s, _LOCAL_S)


def stale(trouble: Exception, file: FileEntry) -> errors.StaleDigestError:
    """What is said in the end, with what to do."""
    if not file.generation:
        return errors.StaleDigestError(f"{trouble}: the object has changed; make the data set (or its digest) again")
    return errors.StaleDigestError(
        f"{trouble}: these are not the bytes that the digest was built from, though the object's version still is "
        f"{file.generation}: either something between the store and here damages them (a proxy, a disk), or the object "
        "was changed in a way that its store does not tell. `tfquiver digest build` reads it again and checks every "
        "record; if it finds nothing wrong, use the new digest"
    )
