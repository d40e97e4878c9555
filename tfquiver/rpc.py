"""gRPC plumbing: channels, servers, the error mapping, retries with a deadline, the shared token.

Only this module and the servicers import grpc.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc
import grpc.aio
from absl import logging

from tfquiver import errors

T = TypeVar("T")
TOKEN_KEY = "x-tfquiver-token"
MAX_MESSAGE_BYTES = 8 << 20
RETRYABLE = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
)
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.so_reuseport", 0),
]


def metadata(token: str) -> list[tuple[str, str]]:
    """What a call carries when the servers ask for a token."""
    return [(TOKEN_KEY, token)] if token else []


def aio_channel(address: str) -> grpc.aio.Channel:
    """`address`: host:port or unix:/path."""
    return grpc.aio.insecure_channel(address, options=_OPTIONS)


def channel(address: str) -> grpc.Channel:
    return grpc.insecure_channel(address, options=_OPTIONS)


def from_rpc_error(error: grpc.RpcError, what: str) -> errors.TfquiverError:
    """The typed exception for a failed call; `what` says what was tried and on whom."""
    code, details = error.code(), error.details()
    return errors.from_code(code, f"{what}: {details}")


class _TokenInterceptor(grpc.aio.ServerInterceptor):
    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        for key, value in handler_call_details.invocation_metadata or ():
            if key == TOKEN_KEY and hmac.compare_digest(value.encode(), self._token):
                return await continuation(handler_call_details)
        handler = await continuation(handler_call_details)
        return handler and _refusal(handler)


_HANDLERS = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}


def _refusal(handler: Any) -> Any:
    async def refuse(_request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong or missing token: see --auth_token_file")

    async def refuse_stream(_request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong or missing token: see --auth_token_file")
        yield None

    make = _HANDLERS[bool(handler.request_streaming), bool(handler.response_streaming)]
    behaviour = refuse_stream if handler.response_streaming else refuse
    return make(behaviour, handler.request_deserializer, handler.response_serializer)


def new_server(token: str = "") -> grpc.aio.Server:
    interceptors: Sequence[grpc.aio.ServerInterceptor] = [_TokenInterceptor(token)] if token else []
    return grpc.aio.server(options=_OPTIONS, interceptors=interceptors)


def handled(method: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Wraps a unary servicer method: TfquiverErrors become their status, anything else is logged and INTERNAL."""

    @functools.wraps(method)
    async def wrapper(self: Any, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> T:
        try:
            return await method(self, request, context)
        except errors.TfquiverError as error:
            await context.abort(error.code, str(error))
        except (grpc.aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the server lives on
            logging.exception("%s failed", method.__qualname__)
            await context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        raise AssertionError("abort returned")

    return wrapper


def handled_stream(method: Callable[..., AsyncIterator[T]]) -> Callable[..., AsyncIterator[T]]:
    """As `handled`, for methods that stream their reply."""

    @functools.wraps(method)
    async def wrapper(self: Any, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[T]:
        try:
            async for reply in method(self, request, context):
                yield reply
        except errors.TfquiverError as error:
            await context.abort(error.code, str(error))
        except (grpc.aio.AbortError, asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 - as above
            logging.exception("%s failed", method.__qualname__)
            await context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")

    return wrapper


async def retry(
    call: Callable[[], Awaitable[T]], what: str, deadline_s: float, retryable: frozenset[grpc.StatusCode] = RETRYABLE
) -> T:
    """Awaits `call()` until it succeeds, fails for good, or `deadline_s` seconds are over.

    Raises the typed exception of the last failure; its message begins with `what`.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + deadline_s
    pause_s = 0.05
    while True:
        try:
            return await call()
        except grpc.RpcError as error:
            left_s = give_up_at - loop.time()
            if error.code() not in retryable or left_s <= 0:
                raise from_rpc_error(error, what) from error
            await asyncio.sleep(min(left_s, pause_s * random.uniform(0.5, 1.0)))
            pause_s = min(pause_s * 2, 1.0)
