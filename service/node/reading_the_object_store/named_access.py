"""How this node reaches the stores of data sets that have names: with what their credentials refer to, or with its own.

A reference is looked up here, where the secret is; what it says is kept in memory only, and looked up again now and
then, before it expires, and where the store refuses it. Errors name the reference and the data set, never what it says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from absl import logging

from tfquiver import errors, stores
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.stores import ObjectInfo, ObjectStore
from tfquiver.stores.credentials import references, resolved
from tfquiver.stores.credentials.resolved import Access
from tfquiver.stores.object_store import AroundStore, Parts

T = TypeVar("T")
LOOK_AGAIN_S = 30.0
_BEFORE_EXPIRY_S = 120.0
# What is being written just now is not whole, and not everybody renames: what stood there before is used meanwhile.
_AGAIN_S, _GRACE_S = 5.0, 60.0
_CLOSE_AFTER_S = 600.0  # reads that are under way with what was replaced come to their end
_REFUSALS = (errors.PermissionError_, errors.UnauthenticatedError)


class Way:
    """One data set's. Thread-safe."""

    def __init__(self, name: str, reference: str, ways: _References) -> None:
        self._name, self._reference, self._ways = name, reference, ways

    def store_for(self, uri: str) -> ObjectStore:
        """Raises UnauthenticatedError, PermissionError_, NotFoundError, InvalidArgumentError."""
        scheme = stores.scheme_of(uri)
        if not self._reference or scheme == "file":
            return _Saying(stores.for_uri(uri), self, "")
        return _Saying(self.explained(lambda: self._ways.store(self._reference, scheme)), self, scheme)

    def renewed(self, scheme: str, refused: ObjectStore) -> ObjectStore | None:
        """Where the reference says something else by now than what `refused` was opened with."""
        return self._ways.renewed(self._reference, scheme, refused) if scheme else None

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
        except _REFUSALS as error:
            whose = f"with this node's own credentials, for data set {self._name}"
            if self._reference:  # stores say what to set in an environment
                not_set = "not those of an environment: put right what stands there"
                whose = f"with the credentials {self._reference} of data set {self._name}, {not_set}"
            raise type(error)(f"{error} ({whose})") from None


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

    def close(self) -> None:
        """Nobody reads any more."""
        self._references.close()


@dataclass(slots=True)
class _Found:
    """`text`: what stood there, `good_s`: when last; `due_s`: when to look again."""

    text: str
    access: Access
    store: ObjectStore
    good_s: float
    due_s: float

    def lasts(self, more_s: float = 0.0) -> bool:
        return not 0 < self.access.expires_at_s <= time.time() + more_s


class _References:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], _Found] = {}  # by reference and scheme
        self._replaced: list[tuple[float, ObjectStore]] = []  # and when

    def close(self) -> None:
        with self._lock:
            closing = [found.store for found in self._found.values()] + [store for _, store in self._replaced]
            self._found.clear()
            self._replaced.clear()
        for store in closing:
            store.close()

    def store(self, reference: str, scheme: str) -> ObjectStore:
        return self._find(reference, scheme).store

    def access(self, reference: str, scheme: str) -> Access:
        return self._find(reference, scheme).access

    def known_place(self, reference: str, scheme: str) -> str:
        found = self._found.get((reference, scheme))  # without the lock, which is held while a store is opened
        return f"credentials {reference}" if found is None else found.access.place

    def renewed(self, reference: str, scheme: str, refused: ObjectStore) -> ObjectStore | None:
        with self._lock:
            found = self._found.get((reference, scheme))
            if found is None or found.store is refused:
                try:
                    found = self._looked_up(reference, scheme)
                except errors.TfquiverError:  # whoever looks next is told
                    return None
            return None if found.store is refused else found.store

    def _find(self, reference: str, scheme: str) -> _Found:
        """What was found is used until it is time to look again; another store is opened where it says otherwise."""
        with self._lock:
            found = self._found.get((reference, scheme))
            if found is not None and self._clock() < found.due_s:
                return found
            try:
                return self._looked_up(reference, scheme)
            except errors.TfquiverError as error:
                if found is None or not found.lasts() or self._clock() - found.good_s >= LOOK_AGAIN_S + _GRACE_S:
                    raise
                every_n_seconds(logging.WARNING, "%s; what stood there before is used meanwhile", 30, str(error))
                found.due_s = self._clock() + _AGAIN_S
                return found

    def _looked_up(self, reference: str, scheme: str) -> _Found:
        """With the lock."""
        found, text = self._found.get((reference, scheme)), references.read(reference)
        now_s = self._clock()
        if found is not None and found.text == text and found.lasts(_BEFORE_EXPIRY_S):
            found.good_s, found.due_s = now_s, now_s + LOOK_AGAIN_S
            return found
        access = references.access(reference, text, scheme)
        same = found is not None and found.access == access
        store = found.store if found is not None and same else stores.open_with(access)
        if found is not None and not same:
            self._replaced.append((now_s, found.store))
        while self._replaced and now_s - self._replaced[0][0] > _CLOSE_AFTER_S:
            self._replaced.pop(0)[1].close()
        made = self._found[reference, scheme] = _Found(text, access, store, now_s, now_s + LOOK_AGAIN_S)
        return made


class _Saying(AroundStore):
    """A store whose refusals say whose credentials they are of; what these have been renewed to is tried before.

    Args:
      scheme: of it, where it was opened with credentials by reference.
    """

    def __init__(self, store: ObjectStore, way: Way, scheme: str) -> None:
        super().__init__(store)
        self._way, self._scheme = way, scheme

    def list(self, pattern: str) -> list[ObjectInfo]:
        return self._asked(lambda store: store.list(pattern))

    def stat(self, uri: str) -> ObjectInfo:
        return self._asked(lambda store: store.stat(uri))

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        return self._asked(lambda store: store.read(uri, offset, length, generation, deadline_s))

    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        come = 0

        def counted(part: bytes) -> None:
            nonlocal come
            come += 1
            take(part)

        self._asked(lambda store: store.read_parts(parts.after(come), deadline_s, counted))

    def _asked(self, call: Callable[[ObjectStore], T]) -> T:
        def tried() -> T:
            store = self._store
            try:
                return call(store)
            except _REFUSALS:
                if (renewed := self._way.renewed(self._scheme, store)) is None:
                    raise
                self._store = renewed
                return call(renewed)

        return self._way.explained(tried)
