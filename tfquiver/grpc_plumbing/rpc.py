"""gRPC plumbing: channels, servers, the error mapping, retries with a deadline, who calls.

Only this module and the servicers import grpc.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import inspect
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import grpc
import grpc.aio
from absl import logging

from tfquiver import closed_streams, errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.grpc_plumbing.interruptible import Interruptible
from tfquiver.grpc_plumbing.unary_call import TOKEN_KEY
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.plain_text import plain
from tfquiver.roles_and_tokens.identity import ANYBODYS, EVERYBODY, Authority, Identity, Open, check_call
from tfquiver.version import VERSION

T = TypeVar("T")
MAX_MESSAGE_BYTES = 8 << 20
_LONGEST_NAME = 200
_FAULTS_EVERY_S = 5.0  # of one kind and method: who is answered so may ask again at once
RETRYABLE = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
)
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 400),
    ("grpc.enable_http_proxy", 0),
    ("grpc.so_reuseport", 0),
]
# Where another server stands by: a machine that is gone says nothing, and the kernel would wait a quarter of an hour.
# After fifteen to twenty seconds of silence the connection is given up, and the next address tried.
_NOTICES_SILENCE: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # else it is a minute, whatever the line above says
    ("grpc.http2.max_pings_without_data", 0),  # as many as it takes
]
# Of callers: a machine that is gone ends none of its streams, which servers would keep for ever. Only who waits for an
# answer is asked: with no call under way a Python client may have nobody who reads. Such connections end after an hour.
_NOTICES_SILENT_CALLERS: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_connection_idle_ms", 3_600_000),
]
_LEAST_BETWEEN_PINGS_MS = 1000  # else servers hang up on who asks more than twice in five minutes
# Of more than a thousand calls that a busy loop has not come to yet gRPC refuses some at random, of more than three
# thousand all: nodes and jobs by the thousand may ask at one moment, of a server that plans or restores then. These
# are four and nine seconds' work: of many more none would be answered in the ten that calls have.
_PENDING_REFUSED_AT_RANDOM, _MOST_PENDING = 1 << 13, 1 << 14
_SERVER_OPTIONS: list[tuple[str, Any]] = [
    *_OPTIONS,
    ("grpc.http2.min_ping_interval_without_data_ms", _LEAST_BETWEEN_PINGS_MS),
    ("grpc.server.max_pending_requests", _PENDING_REFUSED_AT_RANDOM),
    ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING),
]


def metadata(token: str) -> list[tuple[str, str]]:
    """What a call carries when the servers ask for a token."""
    return [(TOKEN_KEY, token)] if token else []


def aio_channel(address: str) -> grpc.aio.Channel:
    """`address`: host:port, several of them (`a:1,b:1`), or unix:/path."""
    return grpc.aio.insecure_channel(_target(address), options=_options(address))


def channel(address: str, connect_s: float = 0.0, own_connection: bool = False) -> grpc.Channel:
    """
    Args:
      connect_s: an attempt to connect may take so long; 0: a tenth of a second, and then another one is made.
      own_connection: not one that another channel of this process has to that address, or had until just now.
    """
    closed_streams.numbers_taken()
    longer = [("grpc.min_reconnect_backoff_ms", int(1000 * connect_s))] if connect_s else []
    longer += [("grpc.use_local_subchannel_pool", 1)] if own_connection else []
    named = {name for name, _ in longer}
    options = [*longer, *(one for one in _options(address) if one[0] not in named)]
    return Interruptible(grpc.insecure_channel(_target(address), options=options))


def _options(address: str) -> list[tuple[str, Any]]:
    return [*_OPTIONS, *(_NOTICES_SILENCE if addresses.each(address)[1:] else [])]


def _target(address: str) -> str:
    """As gRPC wants it, which tries several addresses in turn where they are numbers of one kind; names are looked up
    once, here."""
    several = addresses.each(address)
    if not several[1:]:
        return addresses.of_socket(address) if address.startswith("unix:") else address
    for family, scheme in ((socket.AF_INET, "ipv4"), (socket.AF_INET6, "ipv6")):
        known = {one: addresses.numbers(one, family) for one in several}
        if found := [number for one in several for number in known[one]]:
            for left_out in (one for one in several if not known[one]):
                logging.warning("%s: %s has no %s address here now: it will not be tried", address, left_out, scheme)
            return f"{scheme}:{','.join(found)}"
    return several[0]  # which gRPC looks up again and again


def from_rpc_error(error: grpc.RpcError, what: str) -> errors.TfquiverError:
    """The typed exception for a failed call; `what` says what was tried and on whom."""
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.UNIMPLEMENTED and _UNKNOWN in (details or ""):
        details = f"{details}; this is tfquiver {VERSION}: {_ONE_VERSION}"
    elif code is grpc.StatusCode.UNIMPLEMENTED and details in _NOT_FOUND:
        details = (
            "what answers there is a server of another kind (tf.data service's dispatcher, say), or of an older "
            f"version, that does not say which, than this, tfquiver {VERSION}: {_ONE_VERSION}"
        )
    return errors.from_code(code, f"{what}: {details or code.name}")


_UNKNOWN = "which answers here, has no call"
_NOT_FOUND = ("", None, "Method not found!")  # as gRPC says it itself
_ONE_VERSION = "upgrade the older of the two (`tfquiver doctor` says what runs where)"


class _Unknown(grpc.GenericRpcHandler):
    """For calls that no service here has, of a version to come, or that was: says of which version this one is."""

    def service(self, handler_call_details: Any) -> Any:
        name = plain(handler_call_details.method, _LONGEST_NAME)

        async def refuse(_requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"tfquiver {VERSION}, {_UNKNOWN} {name}")
            yield None

        handler: Any = grpc.stream_stream_rpc_method_handler(refuse)
        handler.is_unknown = True
        return handler


class _Gate(grpc.aio.ServerInterceptor):
    """Every call goes through here: who is it, and may they?"""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method in ANYBODYS:
            return handler
        try:
            caller = await self._authority.identify(_among(handler_call_details.invocation_metadata))
            if getattr(handler, "is_unknown", False):
                return handler
            check_call(caller, handler_call_details.method)
        except errors.TfquiverError as error:
            return _refusal(handler, error)
        return handler if caller is EVERYBODY else _called_by(caller, handler)


def caller() -> Identity:
    """Whose call is being served."""
    return _CALLER.get()


def set_caller(who: Identity) -> None:
    """Of what is served from here on in this task, and in those that it makes: for calls that come over a stream."""
    _CALLER.set(who)


def token_of(context: Any) -> str:
    """What a call that is being served showed; empty: nothing."""
    return _among(context.invocation_metadata())


_CALLER: ContextVar[Identity] = ContextVar("caller", default=EVERYBODY)
_HANDLERS = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}


def _among(metadata: Any) -> str:
    for key, value in metadata or ():
        if key == TOKEN_KEY:
            return str(value)
    return ""


def _called_by(who: Identity, handler: Any) -> Any:
    method = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

    async def behaviour(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        _CALLER.set(who)
        return await method(request, context)

    async def stream_behaviour(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        _CALLER.set(who)
        async for reply in method(request, context):
            yield reply

    return _remade(handler, behaviour, stream_behaviour)


def _refusal(handler: Any, error: errors.TfquiverError) -> Any:
    async def refuse(_request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        await context.abort(error.code, str(error))

    async def refuse_stream(_request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        await context.abort(error.code, str(error))
        yield None

    return _remade(handler, refuse, refuse_stream)


def _remade(handler: Any, behaviour: Any, stream_behaviour: Any) -> Any:
    make = _HANDLERS[bool(handler.request_streaming), bool(handler.response_streaming)]
    writes_itself = inspect.iscoroutinefunction(handler.stream_stream)  # what it replies it does not yield
    chosen = stream_behaviour if handler.response_streaming and not writes_itself else behaviour
    return make(chosen, handler.request_deserializer, handler.response_serializer)


def new_server(authority: Authority) -> grpc.aio.Server:
    # A gate costs about a tenth of a call for 32 leases (tests/bench/coordinator.py): where everybody may do everything
    # there is none.
    interceptors = [] if isinstance(authority, Open) else [_Gate(authority)]
    return grpc.aio.server(options=[*_SERVER_OPTIONS, *_NOTICES_SILENT_CALLERS], interceptors=interceptors)


def listen(server: grpc.aio.Server, address: str) -> int:
    """Has it, once it has all its services, listen on host:port (0: a free one), at all of the host's addresses or at
    none, or on unix:/path.

    Left to gRPC, one address of several is enough, and whoever calls the host may reach another server at the others.

    Returns the port, of unix:/path none that means anything. Raises UnavailableError.
    """
    server.add_generic_rpc_handlers((_Unknown(),))  # last: whoever is asked first answers
    try:
        if address.startswith("unix:"):
            return int(server.add_insecure_port(addresses.of_socket(address)))
        host, port = addresses.split(address)
        numbers = addresses.to_bind(host)
        if len(numbers) > 1 or port:  # tried before: a server cannot take back what it has opened, and says no cause
            port = addresses.free_port(numbers, port)
        for number in numbers:
            port = int(server.add_insecure_port(addresses.joined(number, port)))
        return port
    except (RuntimeError, OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE and not address.startswith("unix:"):
            why = "another program has that port: stop it, or take another one (--port=0: any that is free)"
            raise errors.UnavailableError(f"--port, --bind_host: cannot listen on {address}: {why}") from error
        flags = "" if address.startswith("unix:") else "--port, --bind_host: "
        what = f"{flags}cannot listen on {address}: {error}{addresses.below_1024(error, address)}"
        raise errors.UnavailableError(what) from error


def on_served(observe: Callable[[str, str, float], None] | None) -> None:
    """From now on told of each call that this process has served, of those with streamed replies only where they fail
    for a fault of this server: method, status code, seconds. None: nobody."""
    global _observe
    _observe = observe


_observe: Callable[[str, str, float], None] | None = None


def handled_methods() -> list[str]:
    """The calls that the modules which this process has loaded can serve."""
    return sorted(_methods)


_methods: set[str] = set()


def _served(method: str, code: grpc.StatusCode, began_s: float) -> None:
    if _observe is not None:
        _observe(method, code.name, time.perf_counter() - began_s)


def _about(request: Any) -> dict[str, Any]:
    """What a call asks about, where its request says so."""
    job, digest = getattr(request, "job", ""), getattr(request, "digest_id", b"")
    return about(job=job if isinstance(job, str) else "", digest=digest if isinstance(digest, bytes) else b"")


def _log_fault(method: Callable[..., Any], request: Any, error: Exception) -> None:
    """With its traceback: what the caller is told, INTERNAL and a line, does not say where the defect is."""
    every_n_seconds(
        logging.ERROR, "%s failed", _FAULTS_EVERY_S, method.__qualname__,
        extra=_about(request), exc_info=True, apart=f"{method.__qualname__} {type(error).__name__}",
    )  # fmt: skip


def handled(method: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Wraps a unary servicer method: TfquiverErrors become their status, anything else INTERNAL, which is logged."""
    _methods.add(method.__name__)

    @functools.wraps(method)
    async def wrapper(self: Any, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> T:
        code, began_s = grpc.StatusCode.OK, time.perf_counter()
        try:
            return await method(self, request, context)
        except errors.TfquiverError as error:
            code = error.code
            if code is grpc.StatusCode.INTERNAL:
                _log_fault(method, request, error)
            await context.abort(code, str(error))
        except (grpc.aio.AbortError, asyncio.CancelledError):
            code = grpc.StatusCode.CANCELLED
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the server lives on
            code = grpc.StatusCode.INTERNAL
            _log_fault(method, request, error)
            await context.abort(code, f"{type(error).__name__}: {error}")
        finally:
            _served(method.__name__, code, began_s)
        raise AssertionError("abort returned")

    return wrapper


def handled_stream(method: Callable[..., AsyncIterator[T]]) -> Callable[..., AsyncIterator[T]]:
    """As `handled`, for methods that stream their reply."""
    _methods.add(method.__name__)

    @functools.wraps(method)
    async def wrapper(self: Any, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[T]:
        began_s = time.perf_counter()
        try:
            async for reply in method(self, request, context):
                yield reply
        except errors.TfquiverError as error:
            if error.code is grpc.StatusCode.INTERNAL:
                _log_fault(method, request, error)
                _served(method.__name__, error.code, began_s)
            await context.abort(error.code, str(error))
        except (grpc.aio.AbortError, asyncio.CancelledError, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 - as above
            _log_fault(method, request, error)
            _served(method.__name__, grpc.StatusCode.INTERNAL, began_s)
            await context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")

    return wrapper


def failed(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    """What a call that did not go by itself ends with, as if it had."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


def code_of(number: int) -> grpc.StatusCode:
    """UNKNOWN, as gRPC has it, for one that it does not have."""
    return _CODES.get(number, grpc.StatusCode.UNKNOWN)


_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def _answer_is_lost(error: grpc.RpcError) -> bool:
    """gRPC's asyncio calls end so where the server ended them while something was being sent, whatever it had said."""
    return error.code() is grpc.StatusCode.INTERNAL and error.details() == "Internal error from Core"


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
            if not (error.code() in retryable or _answer_is_lost(error)) or left_s <= 0:
                raise from_rpc_error(error, what) from error
            await asyncio.sleep(min(left_s, pause_s * random.uniform(0.5, 1.0)))
            pause_s = min(pause_s * 2, 1.0)
