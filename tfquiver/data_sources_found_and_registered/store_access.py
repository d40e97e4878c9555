"""Tells this machine's node how this process reaches object stores, for as long as it reads there.

A node reads each data set with the credentials of those who use it. They are resolved here, in the user's environment
(stores/credentials/resolved.py), told over the node's Unix socket, told again while they are in use and before they
expire, and told anew to a node that was restarted before any reader comes back to it.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import nullcontext, suppress

import grpc
from absl import logging

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc
from tfquiver.stores.credentials.resolved import Access, resolve

_TTL_S = 900  # a trainer may be stopped, or hold the interpreter, for minutes
_EVERY_S = 30.0
_BEFORE_EXPIRY_S = 300.0
_CALL_S = 5.0
_GOOD_BYE_S = 1.0
_MAX_DATASETS = 1024


class StoreAccess:
    """What one process says to one node. Thread-safe.

    Args:
      token: the cluster's, "" for none.
    """

    def __init__(self, token: str) -> None:
        self.client_id, self._pid = uuid.uuid4().hex, os.getpid()
        self._metadata = tuple(rpc.metadata(token))
        self._lock = threading.Lock()
        self._saying = threading.Lock()  # one after the other: what comes last is all that the node knows
        self._accesses: dict[str, Access] = {}
        self._datasets: dict[bytes, None] = {}  # the last one comes last
        self._control = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def use(self, accesses: Iterable[Access], endpoint: NodeEndpoint) -> None:
        """From now on, these too. Raises UnavailableError, PermissionError_."""
        with self._lock:
            self._accesses |= {access.scheme: access for access in accesses}
            self._control = endpoint.local_control
        self._say()
        with self._lock:
            if self._thread is None and self._accesses:
                self._thread = threading.Thread(target=self._keep, name="tfquiver store access", daemon=True)
                self._thread.start()

    def reads(self, digest_id: bytes) -> None:
        """This process reads that data set, for as long as it lives: iterators outlive data sets. Raises as `use`."""
        with self._lock:
            self._datasets.pop(digest_id, None)
            self._datasets[digest_id] = None
            while len(self._datasets) > _MAX_DATASETS:
                del self._datasets[next(iter(self._datasets))]
        self._say()

    def found(self, endpoint: NodeEndpoint) -> None:
        """The node was found again, or another one was started: it knows nothing yet.

        Raises UnavailableError, DeadlineError: it did not answer. Readers that came to it would fail for lack of
        credentials; what it refuses they may do without, and for a forked child its parent says the same.
        """
        with self._lock:
            self._control = endpoint.local_control
        try:
            self._say()
        except errors.TfquiverError as error:
            if isinstance(error, errors.UnavailableError | errors.DeadlineError) and self._pid == os.getpid():
                raise
            logging.warning("store credentials: %s; telling it again soon", str(error))

    def close(self) -> None:
        """Asks the node to forget it all, and ends the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            control, said = self._control, bool(self._accesses)
        if said:
            with suppress(grpc.RpcError), rpc.channel(control) as channel:  # it is gone, or forgets by itself
                request = node_pb2.UseStoresRequest(client_id=self.client_id)
                node_pb2_grpc.NodeStub(channel).UseStores(request, metadata=self._metadata, timeout=_GOOD_BYE_S)

    def _say(self) -> None:
        # A child may have been forked while its parent was saying something: nobody would ever release that lock.
        with self._saying if self._pid == os.getpid() else nullcontext():
            self._say_now()

    def _say_now(self) -> None:
        with self._lock:
            if not self._accesses:
                return
            request = node_pb2.UseStoresRequest(
                client_id=self.client_id,
                digest_ids=list(self._datasets),
                ttl_s=_TTL_S,
                stores=[
                    node_pb2.StoreAccess(scheme=one.scheme, options=one.options, expires_at_s=int(one.expires_at_s))
                    for one in self._accesses.values()
                ],
            )
            control = self._control
        try:
            with rpc.channel(control) as channel:
                node_pb2_grpc.NodeStub(channel).UseStores(request, metadata=self._metadata, timeout=_CALL_S)
        except grpc.RpcError as error:
            raise rpc.from_rpc_error(error, f"telling the node at {control} how to reach the store") from error

    def _keep(self) -> None:
        while not self._stop.wait(_EVERY_S):
            try:
                self._renew()
                self._say()
            except errors.TfquiverError as error:
                every_n_seconds(logging.WARNING, "store credentials: %s", 300, str(error))

    def _renew(self) -> None:
        """Resolves again what runs out soon; and what the environment may have changed without a word (files)."""
        with self._lock:
            old = list(self._accesses.values())
        for one in old:
            if not is_due(one, time.time()):
                continue
            fresh = resolve(one.scheme)
            if fresh is not None and fresh != one:
                with self._lock:
                    self._accesses[one.scheme] = fresh


def is_due(known: Access, now_s: float) -> bool:
    """Whether to resolve it again: it ends soon, or it has no end, and the files it comes from may have changed."""
    return not known.expires_at_s or known.expires_at_s - now_s <= _BEFORE_EXPIRY_S


_lock = threading.Lock()
_by_endpoint: dict[tuple[str, str], StoreAccess] = {}


def of(endpoint_name: str, token: str) -> StoreAccess:
    """This process's, to the node of that name (endpoints.name_of)."""
    with _lock:
        if (endpoint_name, token) not in _by_endpoint:
            _by_endpoint[endpoint_name, token] = StoreAccess(token)
        return _by_endpoint[endpoint_name, token]


def found(endpoint_name: str, endpoint: NodeEndpoint) -> None:
    """Called whenever the node of that name was found, before readers are told where it is. Raises as
    StoreAccess.found."""
    with _lock:
        known = [one for (name, _), one in _by_endpoint.items() if name == endpoint_name]
    for one in known:
        one.found(endpoint)


def close_all() -> None:
    """Asks every node to forget what this process has told it. Returns when the threads have ended."""
    with _lock:
        known = list(_by_endpoint.values())
        _by_endpoint.clear()
    for one in known:
        one.close()


endpoints.tell(found, close_all)
