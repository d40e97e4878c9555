"""An S3 store, or a proxy before it, that does not know of ranges: no more is taken into memory than was asked for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fsspec.asyn
import pytest

from tfquiver import errors
from tfquiver.stores.fsspec import FsspecStore

_PIECE = b"x" * (1 << 20)
_MOST_BYTES = 1 << 40  # says that it has as many
_TAKEN_BYTES = 64 << 20  # buffers of kernel and client, for some attempts


class Server(ThreadingHTTPServer):
    """`answer`: status, and headers beside the length, which is left out where it is None."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, dict[str, str], int | None] = (200, {}, _MOST_BYTES)
        self.sent_bytes = self.asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._head(200, {}, _MOST_BYTES)

    def do_GET(self) -> None:
        status, headers, length = self.server.answer
        self.server.asked += 1
        self.close_connection = True
        with contextlib.suppress(OSError):  # who asked has left
            self._head(status, headers, length)
            left = _MOST_BYTES if length is None else length
            while left:
                part = _PIECE[:left]
                self.wfile.write(part)
                left -= len(part)
                self.server.sent_bytes += len(part)

    def _head(self, status: int, headers: dict[str, str], length: int | None) -> None:
        self.send_response(status)
        named = {"ETag": '"v"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT", **headers}
        for name, value in (named | ({} if length is None else {"Content-Length": str(length)})).items():
            self.send_header(name, value)
        self.end_headers()


@pytest.fixture(scope="module", autouse=True)
def loop() -> None:
    """fsspec's one, with its thread and wake-up sockets, is there for good."""
    fsspec.asyn.get_loop()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def store(server: Server) -> Iterator[FsspecStore]:
    url = f"http://127.0.0.1:{server.server_port}"
    opened = FsspecStore.open("s3", {"endpoint_url": url, "key": "k", "secret": "s"})
    assert opened
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((200, {}, _MOST_BYTES), "1099511627776 bytes come where 10 bytes at offset 10 were asked for"),
        ((206, {"Content-Range": "bytes 10-19/1000"}, None), "more bytes came than the 10 that were asked for"),
        ((206, {"Content-Range": "bytes 0-9/1000"}, 10), "bytes 0-9/1000 comes where 10 bytes at offset 10"),
        ((200, {}, 10), "the whole object comes where 10 bytes at offset 10"),
    ],
)
def test_what_is_not_the_range_is_asked_for_again_and_not_taken(
    server: Server, store: FsspecStore, answer: tuple[int, dict[str, str], int | None], complaint: str
) -> None:
    """Ten bytes were asked for; gigabytes came, as many as the deadline let."""
    server.answer = answer
    with pytest.raises(errors.UnavailableError, match=complaint):
        store.read("s3://bucket/f", 10, 10, "v", 2.0)
    assert server.asked > 1 and server.sent_bytes < _TAKEN_BYTES
