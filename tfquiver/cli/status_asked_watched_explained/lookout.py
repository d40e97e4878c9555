"""Looks at a cluster again and again, and asks it for everything only when something has changed.

A call waits at the coordinator meanwhile (AwaitChange): in a cluster in which nothing happens that is nearly all there
is to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

import grpc

from tfquiver import errors
from tfquiver.cli.status_asked_watched_explained import up_away
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.grpc_plumbing import rpc
from tfquiver.grpc_plumbing.kept_channels import KeptChannels
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc

# What only time changes is shown so late; and that a node or the coordinator hangs.
AT_LEAST_S = 10.0
_WAIT_MS = 10_000
_SLACK_S = 5.0


class Lookout:
    """One cluster, by one thread at a time. Use as a context manager."""

    def __init__(self, where: str, token: str, kept: KeptChannels) -> None:
        """`kept`: over which everything else is asked, too."""
        self._where, self._metadata, self._kept = where, rpc.metadata(token), kept
        self._asked: Any = None  # the call that waits
        self._version = 0
        self._up = up_away.collect(where)
        self._looked_s = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()

    def look(self, collect: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """What `collect` gives; None: it would give what it gave last, as far as anybody knows. Raises as `collect`."""
        if not self._changed():
            return None
        told = None
        try:
            told = collect()
            return told
        finally:
            self._looked(told)

    def _changed(self) -> bool:
        """Never waits."""
        if (up := up_away.collect(self._where)) != self._up:  # the coordinator misses a node only later
            self._up = up
            return True
        if time.monotonic() >= self._looked_s + AT_LEAST_S or self._asked is None:
            return True
        if not self._asked.done():
            return False
        if self._asked.code() is not grpc.StatusCode.OK:  # an older coordinator, or one that is gone
            return True
        version, before = self._asked.result().version, self._version
        self._version = version
        if version != before:
            return True
        self._await()
        return False

    def _looked(self, told: dict[str, Any] | None) -> None:
        """While somebody reads there is news each time, and nobody is asked whether there is."""
        self._looked_s = time.monotonic()
        if told is None or any(one.get("bytes_per_s") is not None for one in told.get("sessions", ())):
            self._forget()
        elif self._asked is None or self._asked.done():
            self._await()

    def _forget(self) -> None:
        if self._asked is not None:
            self._asked.cancel()
        self._asked = None

    def _await(self) -> None:
        self._asked = None
        try:
            address = coordinator_address(self._where)
        except errors.TfquiverError:
            return  # who looks next is told so
        with self._kept.channel(address) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            request = coordinator_pb2.AwaitChangeRequest(version=self._version, wait_ms=_WAIT_MS)
            self._asked = stub.AwaitChange.future(
                request, timeout=_WAIT_MS / 1000 + _SLACK_S, metadata=self._metadata, wait_for_ready=False
            )
