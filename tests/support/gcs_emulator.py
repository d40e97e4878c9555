"""gcp-storage-emulator in this process, on a free port.

The emulator ignores `generation` on downloads and `ifGenerationMatch` on uploads, keeps connections for one request
only, and answers one request at a time. Here downloads check the generation as GCS does (404 for one that is not the
live one), uploads of what must not be there are refused as GCS does (412, when they begin and with each chunk),
requests are served side by side, and a test can make downloads fail and be told of chunks.
"""

from __future__ import annotations

import io
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlparse

from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage

Fault = Callable[["_Handler"], bool]  # True: the request has been dealt with


class GcsEmulator:
    def __init__(self, listener: socket.socket | None = None) -> None:
        """`listener`: a listening socket; its address is this one's. Without one: a free port of this machine."""
        self.storage = Storage(use_memory_fs=True)
        self.faults: list[Fault] = []  # one for each download to come
        self.weather: Callable[[], Fault | None] = lambda: None  # asked for each download that is not in `faults`
        self.downloads: list[str] = []
        self.on_chunk: Callable[[str], None] = lambda span: None  # told the Content-Range, before it is answered
        self.connections: set[socket.socket] = set()
        listener = listener or socket.create_server(("127.0.0.1", 0))
        self._server = _Server(listener, partial(_Handler, self.storage, self))
        self._server.daemon_threads = False  # server_close joins them
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="gcs-emulator")

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def next_fault(self) -> Fault | None:
        return self.faults.pop(0) if self.faults else self.weather()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        for connection in list(self.connections):  # clients keep idle ones, and their handlers would wait
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, listener: socket.socket, handler: Callable[..., RequestHandler]) -> None:
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_address = listener.getsockname()
        host, port = listener.getsockname()[:2]
        self.server_name, self.server_port = str(host), int(port)


class _Handler(RequestHandler):
    protocol_version = "HTTP/1.1"
    rfile: io.BufferedIOBase

    def __init__(self, storage: Storage, emulator: GcsEmulator, *args: object) -> None:
        self.emulator = emulator
        super().__init__(storage, *args)

    def setup(self) -> None:
        self.emulator.connections.add(self.request)
        super().setup()

    def finish(self) -> None:
        super().finish()
        self.emulator.connections.discard(self.request)

    def do_POST(self) -> None:
        body = self._body()
        named = re.search(rb'"name": ("[^"]+")', body)
        if not named or not self._refused(json.loads(named[1])):
            self._with(body, super().do_POST)

    def do_PUT(self) -> None:
        upload = parse_qs(urlparse(self.path).query).get("upload_id", [""])[0]
        body = self._body()
        self.emulator.on_chunk(self.headers.get("Content-Range", ""))
        if not self._refused(self.storage.resumable.get(upload, {}).get("name", "")):
            self._with(body, super().do_PUT)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _with(self, body: bytes, deal: Callable[[], object]) -> None:
        connection: io.BufferedIOBase = self.rfile
        self.rfile = io.BytesIO(body)
        try:
            deal()
        except ConnectionError:  # who asked is gone
            self.close_connection = True
        finally:
            self.rfile = connection

    def _refused(self, name: str) -> bool:
        """Whether an object is there that must not be: it is told so."""
        url = urlparse(self.path)
        bucket = url.path.partition("/b/")[2].partition("/")[0]
        there = name in self.storage.objects.get(bucket, {})
        if parse_qs(url.query).get("ifGenerationMatch") != ["0"] or not there:
            return False
        answer(self, 412, b"conditionNotMet")
        return True

    def do_GET(self) -> None:
        url = urlparse(self.path)
        if not url.path.startswith("/download/"):
            super().do_GET()
            return
        self.emulator.downloads.append(f"{self.path} {self.headers.get('Range')}")
        fault = self.emulator.next_fault()
        if fault is not None and fault(self):
            return
        bucket, name = url.path.removeprefix("/download/storage/v1/b/").split("/o/", 1)
        asked = parse_qs(url.query).get("generation")
        live = self.storage.objects.get(bucket, {}).get(unquote(name), {}).get("generation")
        if asked and asked[0] != live:
            answer(self, 404, b"No such object")
            return
        super().do_GET()


def answer(handler: _Handler, status: int, body: bytes, claimed_bytes: int | None = None, span: str = "") -> None:
    """An answer; with `claimed_bytes`, one whose body is shorter than it says, after which the connection closes.
    `span`: its Content-Range."""
    handler.send_response(status)
    if span:
        handler.send_header("Content-Range", span)
    handler.send_header("Content-Length", str(len(body) if claimed_bytes is None else claimed_bytes))
    if claimed_bytes is not None:
        handler.close_connection = True
    handler.end_headers()
    handler.wfile.write(body)


def status(code: int) -> Fault:
    def fault(handler: _Handler) -> bool:
        answer(handler, code, b"made to fail")
        return True

    return fault


def reset(handler: _Handler) -> bool:
    """Closes the connection without an answer."""
    handler.close_connection = True
    return True


def cut_off(handler: _Handler) -> bool:
    """Half an answer, then the connection closes."""
    answer(handler, 206, b"x" * 5, claimed_bytes=10)
    return True


def whole_object(handler: _Handler) -> bool:
    """An answer that ignores the range and never ends."""
    answer(handler, 200, b"x" * 100_000, claimed_bytes=1 << 40)
    return True


def another_range(handler: _Handler) -> bool:
    """As many bytes as were asked for, of elsewhere: it says so."""
    answer(handler, 206, b"y" * _asked_bytes(handler), span=f"bytes 0-{_asked_bytes(handler) - 1}/1000")
    return True


def range_ignored(handler: _Handler) -> bool:
    """The beginning of the object, and no more of it than was asked for."""
    answer(handler, 200, b"z" * _asked_bytes(handler))
    return True


def _asked_bytes(handler: _Handler) -> int:
    first, last = re.findall(r"\d+", handler.headers["Range"])
    return int(last) - int(first) + 1


@contextmanager
def gcs_emulator(bucket: str = "bucket", listener: socket.socket | None = None) -> Iterator[GcsEmulator]:
    emulator = GcsEmulator(listener)
    emulator.storage.create_bucket(bucket, {"name": bucket})
    emulator.start()
    try:
        yield emulator
    finally:
        emulator.stop()
