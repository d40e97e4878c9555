"""The object stores as this node's clients reach them: each data set is read with the credentials of those who use it.

A client says what it has over the control socket, and says it again before it runs out (UseStores). It is kept in
memory only. A read goes out with the credentials of a client that uses the data set, the one that spoke last first;
when the store refuses those, with the next one's. Only where no client has said anything are the node's own used: in a
cluster, where nodes read what they own for machines whose clients they do not see.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from absl import logging

from tfquiver import errors, stores
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.stores import ObjectInfo, ObjectStore, scheme_of
from tfquiver.stores.credentials.resolved import Access, place_in
from tfquiver.stores.object_store import Parts, ReadsInParts

MAX_CLIENTS = 4096
MAX_SCHEMES = 16
MAX_DATASETS = 4096  # of one client
_CLOSE_AFTER_S = 600.0  # reads that are under way with what was replaced come to their end
_REFUSALS = (errors.PermissionError_, errors.UnauthenticatedError)


@dataclass(slots=True)
class _Client:
    until_s: float
    said: int  # which of all calls was its last
    by_scheme: dict[str, Access]
    places: dict[str, str]  # by scheme
    digest_ids: frozenset[bytes]


@dataclass(slots=True)
class _Opened:
    """A store once it has been reached. `lock` may be held for as long as its library is imported."""

    open: Callable[[], ObjectStore]
    place: str
    unused_since_s: float | None = None
    refused: int = 0  # how often it was in vain: asked last then
    lock: threading.Lock = field(default_factory=threading.Lock)
    _store: ObjectStore | None = None
    _closed: bool = False

    def store(self) -> ObjectStore:
        """Blocks. Raises what opening it raises; it is tried again then."""
        with self.lock:
            if self._closed:
                raise errors.CancelledError_(f"{self.place or 'store'}: nobody uses it any more")
            if self._store is None:
                self._store = self.open()
            return self._store

    def close(self) -> None:
        with self.lock:
            self._closed = True
            if self._store is not None:
                self._store.close()


class ClientStores:
    """Thread-safe.

    Args:
      own: the node's own way to a URI's store.
      named: the way that a data set which has a name is read; None: it says of none.
      named_place: where that leads, without blocking.
      clock, now: monotonic seconds, and Unix time.
    """

    def __init__(
        self,
        own: Callable[[str], ObjectStore] = stores.for_uri,
        opened: Callable[[Access], ObjectStore] = stores.open_with,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        named: Callable[[str, bytes], ObjectStore | None] = lambda uri, digest_id: None,
        named_place: Callable[[str, bytes], str | None] = lambda uri, digest_id: None,
    ) -> None:
        self._own, self._open_store, self._clock, self._now, self._named = own, opened, clock, now, named
        self._named_place = named_place
        self._lock = threading.Lock()
        self._clients: dict[str, _Client] = {}
        self._stores: dict[Access, _Opened] = {}
        self._calls = 0

    def use(self, client_id: str, accesses: Sequence[Access], digest_ids: Sequence[bytes], ttl_s: float) -> None:
        """Replaces what this client said before; `ttl_s` 0 forgets it. Raises InvalidArgumentError naming the field."""
        if not client_id or len(client_id) > 128:
            raise errors.InvalidArgumentError("client_id: 1 to 128 characters")
        if len(accesses) > MAX_SCHEMES or len(digest_ids) > MAX_DATASETS:
            raise errors.InvalidArgumentError(f"stores, digest_ids: at most {MAX_SCHEMES} and {MAX_DATASETS}")
        places = {access.scheme: access.place for access in accesses}  # whether they can be read at all
        with self._lock:
            self._calls += 1
            if ttl_s:
                if client_id not in self._clients and len(self._clients) >= MAX_CLIENTS:
                    raise errors.ResourceExhaustedError(f"client_id: {MAX_CLIENTS} clients have said what they use")
                by_scheme = {access.scheme: access for access in accesses}
                until_s = self._clock() + ttl_s
                self._clients[client_id] = _Client(until_s, self._calls, by_scheme, places, frozenset(digest_ids))
            else:
                self._clients.pop(client_id, None)
            closing = self._swept()
        for opened in closing:
            opened.close()

    def of_dataset(self, uri: str, digest_id: bytes) -> ObjectStore:
        """The store of a URI as the users of a data set reach it."""
        scheme, now_s = scheme_of(uri), self._clock()
        if scheme == "file":
            return self._own(uri)
        if (store := self._named(uri, digest_id)) is not None:
            return store
        with self._lock:
            users = self._users(scheme, digest_id, now_s)
            found = list(dict.fromkeys(client.by_scheme[scheme] for client in users))
        return self._reached(uri, found) if found else self._own(uri)

    def place_of(self, uri: str, digest_id: bytes) -> str:
        """Where that store is, as Access.place; "": the public one, or the node's own. All of them, where its users
        reach it in several places. Does not block.
        """
        if (place := self._named_place(uri, digest_id)) is not None:
            return place
        scheme = scheme_of(uri)
        with self._lock:
            users = self._users(scheme, digest_id, self._clock())
        return ", ".join(sorted({client.places[scheme] for client in users} - {""}))

    def of_client(self, uri: str, client_id: str, place: str) -> ObjectStore:
        """The same as one client reaches it; "": the node's own.

        Raises (else what it serves would pass for the files of another store):
          InvalidArgumentError: that is not the store that `place`, of the listing, names.
          UnavailableError: the client has not said how it reaches that; it says so again to a node that was restarted.
        """
        scheme, now_s = scheme_of(uri), self._clock()
        if not client_id or scheme == "file":
            return self._own(uri)
        wanted = place_in(place, scheme)
        with self._lock:
            client = self._clients.get(client_id)
            access = client.by_scheme.get(scheme) if client and client.until_s > now_s else None
        if access is None and wanted:
            raise errors.UnavailableError(f"client_id: it has not said how it reaches {wanted}")
        if access is not None and access.place != wanted:
            raise errors.InvalidArgumentError(
                f"terms.place: the client reaches {access.place or f'the public {scheme}://'}, its listing is of "
                f"{wanted or f'the public {scheme}://'}"
            )
        return self._reached(uri, [access]) if access else self._own(uri)

    def close(self) -> None:
        with self._lock:
            closing = list(self._stores.values())
            self._stores.clear()
            self._clients.clear()
        for opened in closing:
            opened.close()

    def _reached(self, uri: str, found: Sequence[Access]) -> ObjectStore:
        usable = [access for access in found if not 0 < access.expires_at_s <= self._now()]
        return _Tried([self._opened(access) for access in usable]) if usable else _Refusing(uri)

    def _opened(self, access: Access) -> _Opened:
        with self._lock:
            opened = self._stores.get(access)
            if opened is None:
                opened = self._stores[access] = _Opened(lambda: self._open_store(access), access.place)
            opened.unused_since_s = None
            return opened

    def _users(self, scheme: str, digest_id: bytes, now_s: float) -> list[_Client]:
        """Those of a data set that have said how they reach that scheme; who spoke last is the first."""
        users = [
            client
            for client in self._clients.values()
            if client.until_s > now_s and digest_id in client.digest_ids and scheme in client.by_scheme
        ]
        return sorted(users, key=lambda client: -client.said)

    def _swept(self) -> list[_Opened]:
        """Forgets clients that are gone; the stores of nobody, which the caller closes."""
        now_s = self._clock()
        self._clients = {name: client for name, client in self._clients.items() if client.until_s > now_s}
        in_use = {access for client in self._clients.values() for access in client.by_scheme.values()}
        closing = []
        for access, opened in list(self._stores.items()):
            if access in in_use:
                opened.unused_since_s = None
            elif opened.unused_since_s is None:
                opened.unused_since_s = now_s
            elif now_s - opened.unused_since_s > _CLOSE_AFTER_S:
                closing.append(self._stores.pop(access))
        return closing


class _Tried(ReadsInParts):
    """A store reached in several ways: the next one is tried where the store refuses."""

    def __init__(self, ways: Sequence[_Opened]) -> None:
        self._ways = sorted(ways, key=lambda way: way.refused)

    @property
    def remote(self) -> bool:
        return self._ways[0].store().remote

    def list(self, pattern: str) -> list[ObjectInfo]:
        return self._ways[0].store().list(pattern)

    def stat(self, uri: str) -> ObjectInfo:
        return self._ways[0].store().stat(uri)

    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        """Where a store fails, those in other places are tried: each gets its part of the time."""
        come = 0

        def counted(part: bytes) -> None:
            nonlocal come
            come += 1
            take(part)

        give_up_at = time.monotonic() + deadline_s
        failed: dict[str, errors.TfquiverError] = {}  # by place
        refused: errors.TfquiverError | None = None
        for at, way in enumerate(self._ways):
            if way.place in failed:
                continue
            places = {left.place for left in self._ways[at:]} - failed.keys()
            try:
                left_s = max(give_up_at - time.monotonic(), 0.1)
                way.store().read_parts(parts.after(come), left_s / len(places), counted)
                return
            except errors.CancelledError_:
                raise
            except _REFUSALS as error:
                refused = refused or error
                trouble: errors.TfquiverError = error
            except errors.TfquiverError as error:
                failed[way.place] = trouble = error
            with way.lock:
                way.refused += 1
            if len(self._ways) > 1:
                every_n_seconds(logging.WARNING, "one client's way to the store: %s", 60, str(trouble))
        raise next(iter(failed.values()), refused or trouble)

    def close(self) -> None:
        """They are everybody's."""


class _Refusing:
    """All that is known has expired, and nobody has brought anything newer."""

    remote = True

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def _refuse(self) -> errors.TfquiverError:
        return errors.UnauthenticatedError(
            f"{self._uri}: the credentials of the clients that read it have expired and were not renewed; is the "
            "process that reads it alive, and can it renew them?"
        )

    def list(self, pattern: str) -> list[ObjectInfo]:
        raise self._refuse()

    def stat(self, uri: str) -> ObjectInfo:
        raise self._refuse()

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        raise self._refuse()

    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        raise self._refuse()

    def close(self) -> None:
        """Nothing is open."""
