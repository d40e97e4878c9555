"""How this node reaches the stores of data sets that have names: with what their credentials refer to, or with its own.

A reference is looked up here, where the secret is; what it says is kept in memory only, and looked up again now and
then, and before it expires. Errors name the reference and the data set, never what it says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tfquiver import errors, stores
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.stores import ObjectInfo, ObjectStore
from tfquiver.stores.credentials import references, resolved
from tfquiver.stores.credentials.resolved import Access
from tfquiver.stores.object_store import AroundStore, Parts

T = TypeVar("T")
LOOK_AGAIN_S = 30.0
_BEFORE_EXPIRY_S = 120.0


class Way:
    """One data set's. Thread-safe."""

    def __init__(self, name: str, reference: str, ways: _References) -> None:
        self._name, self._reference, self._ways = name, reference, ways

    def store_for(self, uri: str) -> ObjectStore:
        """Raises UnauthenticatedError, PermissionError_, NotFoundError, InvalidArgumentError."""
        scheme = stores.scheme_of(uri)
        if not self._reference or scheme == "file":
            return _Saying(stores.for_uri(uri), self)
        return _Saying(self.explained(lambda: self._ways.store(self._reference, scheme)), self)

    def place(self, uris: Iterable[str]) -> str:
        """Of the listing: see ListingTerms."""
        schemes = sorted({stores.scheme_of(uri) for uri in uris})
        if not self._reference:
            own = (resolved.resolve(scheme) for scheme in schemes)
            return resolved.place_of(access for access in own if access is not None)
        return resolved.place_of(self._ways.access(self._reference, one) for one in schemes if one != "file")

    def known_place(self, uri: str) -> str:
        scheme = stores.scheme_of(uri)
        return "" if not self._reference or scheme == "file" else self._ways.known_place(self._reference, scheme)

    def explained(self, call: Callable[[], T]) -> T:
        """What `call` gives. Raises what it raises; where the store refuses it says whose credentials those were."""
        try:
            return call()
        except (errors.PermissionError_, errors.UnauthenticatedError) as error:
            whose = f"the credentials {self._reference} of" if self._reference else "this node's own credentials, for"
            raise type(error)(f"{error} (with {whose} data set {self._name})") from None


class NamedAccess:
    """Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._references = _References(clock)
        self._ways: dict[bytes, Way] = {}

    def use(self, named: Sequence[pb.NamedDigest]) -> None:
        """The data sets that there are now."""
        self._ways = {one.digest_id: self.way(one.credentials, one.name) for one in named if one.credentials}

    def way(self, reference: str, name: str) -> Way:
        return Way(name, reference, self._references)

    def of_digest(self, uri: str, digest_id: bytes) -> ObjectStore | None:
        """None: no credentials are said of it. Raises as Way.store_for."""
        way = self._ways.get(digest_id)
        return way.store_for(uri) if way else None

    def place_of(self, uri: str, digest_id: bytes) -> str | None:
        """Of that store, as Access.place; where nobody has read it yet, which credentials it is of. Does not block."""
        way = self._ways.get(digest_id)
        return way.known_place(uri) if way else None


class _References:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], tuple[str, float, Access, ObjectStore]] = {}  # by reference and scheme

    def store(self, reference: str, scheme: str) -> ObjectStore:
        return self._find(reference, scheme)[3]

    def access(self, reference: str, scheme: str) -> Access:
        return self._find(reference, scheme)[2]

    def known_place(self, reference: str, scheme: str) -> str:
        found = self._found.get((reference, scheme))  # without the lock, which is held while a store is opened
        return f"credentials {reference}" if found is None else found[2].place

    def _find(self, reference: str, scheme: str) -> tuple[str, float, Access, ObjectStore]:
        """What was found is used until it is time to look again; another store is opened where it says otherwise."""
        with self._lock:
            found = self._found.get((reference, scheme))
            if found is not None and self._clock() < found[1]:
                return found
            text = references.read(reference)
            due_s = self._clock() + LOOK_AGAIN_S
            lasts = found is not None and not (0 < found[2].expires_at_s <= time.time() + _BEFORE_EXPIRY_S)
            if found is not None and found[0] == text and lasts:
                found = (text, due_s, found[2], found[3])
            else:
                access = references.access(reference, text, scheme)
                same = found is not None and found[2] == access
                store = found[3] if found is not None and same else stores.open_with(access)
                found = (text, due_s, access, store)  # reads that are under way keep the store that they have
            self._found[reference, scheme] = found
            return found


class _Saying(AroundStore):
    """A store whose refusals say whose credentials they are of."""

    def __init__(self, store: ObjectStore, way: Way) -> None:
        super().__init__(store)
        self._way = way

    def list(self, pattern: str) -> list[ObjectInfo]:
        return self._way.explained(lambda: self._store.list(pattern))

    def stat(self, uri: str) -> ObjectInfo:
        return self._way.explained(lambda: self._store.stat(uri))

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        return self._way.explained(lambda: self._store.read(uri, offset, length, generation, deadline_s))

    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        self._way.explained(lambda: self._store.read_parts(parts, deadline_s, take))
