"""A call made by hand, to gRPC's own server and to what is none."""

from __future__ import annotations

import concurrent.futures
import socket
import threading
import time
from collections.abc import Iterator

import grpc
import pytest

from tests.support.one_answer import answering
from tfquiver import errors
from tfquiver.grpc_plumbing.unary_call import unary_call

MOST_BYTES = 1 << 20


class Handlers(grpc.GenericRpcHandler):
    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if call.method == "/echo/Say":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: request[::-1])
        if call.method == "/echo/Shown":
            shown = dict(call.invocation_metadata)  # type: ignore[arg-type]
            return grpc.unary_unary_rpc_method_handler(lambda request, context: str(shown["x-name"]).encode())
        if call.method == "/echo/Fail":
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: context.abort(grpc.StatusCode.INTERNAL, "no")
            )
        return None


@pytest.fixture
def server() -> Iterator[str]:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = grpc.server(pool, handlers=[Handlers()])
        port = running.add_insecure_port("localhost:0")
        running.start()
        try:
            yield f"localhost:{port}"
        finally:
            running.stop(None).wait()


@pytest.mark.parametrize("size", [0, 1, 10_000])
def test_what_the_server_answers(server: str, size: int) -> None:
    message = bytes(number % 251 for number in range(size))
    assert unary_call(server, "/echo/Say", message, 10.0, MOST_BYTES) == message[::-1]


def test_what_is_shown_with_it(server: str) -> None:
    shown = "x" * 100
    assert unary_call(server, "/echo/Shown", b"", 10.0, MOST_BYTES, [("x-name", shown)]) == shown.encode()
    with pytest.raises(errors.ProtocolError, match="127 bytes are too many"):
        unary_call(server, "/echo/Shown", b"", 10.0, MOST_BYTES, [("x-name", "x" * 127)])


def test_an_answer_of_many_frames() -> None:
    whole = bytes(3_000_000)
    handler = grpc.unary_unary_rpc_method_handler(lambda request, context: whole)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = grpc.server(pool, handlers=[grpc.method_handlers_generic_handler("echo", {"Long": handler})])
        port = running.add_insecure_port("localhost:0")
        running.start()
        try:
            assert unary_call(f"localhost:{port}", "/echo/Long", b"", 10.0, 4 << 20) == whole
            with pytest.raises(errors.ProtocolError, match="of 3000000 bytes, more than 1000000"):
                unary_call(f"localhost:{port}", "/echo/Long", b"", 10.0, 1_000_000)
        finally:
            running.stop(None).wait()


@pytest.mark.parametrize("method", ["/echo/Fail", "/echo/Unknown", "/none/Such"])
def test_an_error_is_one(server: str, method: str) -> None:
    with pytest.raises(errors.ProtocolError, match=f"{method} at {server}: the answer is an error"):
        unary_call(server, method, b"", 10.0, MOST_BYTES)


@pytest.mark.parametrize("said", [
    b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(100),
    b"\xff\xff\xff\0\0\0\0\0\1" + bytes(1000),
    bytes((0, 0, 5, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0)),  # compressed
    bytes((0, 0, 5, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0)),  # padded
    bytes((0, 0, 0, 1, 1, 0, 0, 0, 1)),  # headers that end the answer
    bytes((0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8)),  # the call is refused
    bytes((0, 0, 8, 7, 0, 0, 0, 0, 0)) + bytes(8),  # the connection is
    b"",
])  # fmt: skip
def test_what_is_no_answer_is_an_error_at_once(said: bytes) -> None:
    with (
        socket.create_server(("localhost", 0)) as listening,
        answering(listening, said),
        pytest.raises((OSError, errors.ProtocolError)),
    ):
        unary_call(f"localhost:{listening.getsockname()[1]}", "/echo/Say", b"", 10.0, MOST_BYTES)


def test_frames_that_are_no_answer_are_not_read_for_ever() -> None:
    with socket.create_server(("localhost", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                try:
                    while True:
                        connection.sendall(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        began_s = time.monotonic()
        with pytest.raises(TimeoutError):
            unary_call(f"localhost:{listening.getsockname()[1]}", "/echo/Say", b"", 0.3, MOST_BYTES)
        assert time.monotonic() - began_s < 5
        thread.join()
