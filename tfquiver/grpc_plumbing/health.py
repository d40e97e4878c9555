"""What a server says of itself to probes: the standard grpc.health.v1 service, on every port and socket of a server.

Kubernetes and load balancers speak it. Ready: of use now; live: whoever answers at all turns its loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from tfquiver.roles_and_tokens.identity import HEALTH_CHECK, HEALTH_WATCH

READY, LIVE = ("", "ready"), "live"
_LOOK_S = 0.5
_MOST_WATCHERS = 64  # no token is asked for

Why = Callable[[], str]


class HealthService:
    """Args:
    why_not: why the server is not ready; empty: it is. Called on the loop, and never waits.
    """

    def __init__(self, why_not: Why) -> None:
        self._why_not = why_not
        self._watchers = 0

    def add_to(self, server: grpc.aio.Server) -> None:
        """Before the server starts."""
        codec: dict[str, Any] = {
            "request_deserializer": HealthCheckRequest.FromString,
            "response_serializer": HealthCheckResponse.SerializeToString,
        }
        service, check = HEALTH_CHECK.strip("/").split("/")
        handlers = {
            check: grpc.unary_unary_rpc_method_handler(self._check, **codec),
            HEALTH_WATCH.rpartition("/")[2]: grpc.unary_stream_rpc_method_handler(self._watch, **codec),
        }
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])

    def _now(self, service: str) -> HealthCheckResponse | None:
        """None: no such service."""
        if service == LIVE:
            return HealthCheckResponse(status=HealthCheckResponse.SERVING)
        if service not in READY:
            return None
        why = self._why_not()
        status = HealthCheckResponse.NOT_SERVING if why else HealthCheckResponse.SERVING
        return HealthCheckResponse(status=status, reason=why)

    async def _check(self, request: HealthCheckRequest, context: Any) -> HealthCheckResponse:
        if (reply := self._now(request.service)) is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"service: {_UNKNOWN}")
        assert reply is not None
        return reply

    async def _watch(self, request: HealthCheckRequest, context: Any) -> AsyncIterator[HealthCheckResponse]:
        if self._watchers >= _MOST_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{_MOST_WATCHERS} watch already: use Check")
        self._watchers += 1
        try:
            told = None
            while True:
                now = self._now(request.service) or HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
                if told is None or now.status != told.status:
                    told = now
                    yield now
                await asyncio.sleep(_LOOK_S)
        finally:
            self._watchers -= 1


_UNKNOWN = 'servers know "" and "ready" (is it of use now?) and "live" (does it turn?)'


def ask(channel: grpc.Channel, service: str, timeout_s: float, what: str) -> HealthCheckResponse | None:
    """What a server says of itself; None: it speaks no health.

    Raises the typed error, beginning with `what`: it does not answer in time.
    """
    method: grpc.UnaryUnaryMultiCallable[HealthCheckRequest, HealthCheckResponse] = channel.unary_unary(
        HEALTH_CHECK,
        request_serializer=HealthCheckRequest.SerializeToString,
        response_deserializer=HealthCheckResponse.FromString,
    )
    try:
        return method(HealthCheckRequest(service=service), timeout=timeout_s, wait_for_ready=True)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return None
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise errors.UnavailableError(f"{what} does not answer within {timeout_s:g} s") from error
        raise rpc.from_rpc_error(error, what) from error
