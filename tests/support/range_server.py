"""A web server that says of each object that it is huge, and answers each GET as it is told to: with more, often."""

from __future__ import annotations

import contextlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PIECE = b"x" * (1 << 20)
MOST_BYTES = 1 << 40  # says that it has as many


class RangeServer(ThreadingHTTPServer):
    """`answer`: status, and headers beside the length, which is left out where it is None."""

    daemon_threads = False  # server_close joins them

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, dict[str, str], int | None] = (200, {}, MOST_BYTES)
        self.sent_bytes = self.asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: RangeServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._head(200, {}, MOST_BYTES)

    def do_GET(self) -> None:
        status, headers, length = self.server.answer
        self.server.asked += 1
        self.close_connection = True
        with contextlib.suppress(OSError):  # who asked has left
            self._head(status, headers, length)
            left = MOST_BYTES if length is None else length
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
