"""A test's own HTTP server in a thread of this process, and a store of S3 that takes it for one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from typing import TypeVar

from tfquiver.stores.fsspec import FsspecStore

Server = TypeVar("Server", bound=HTTPServer)


@contextmanager
def served(server: Server) -> Iterator[Server]:
    """Whoever asks it closes its connections before the end, which waits for them."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def s3_store(server: HTTPServer) -> Iterator[FsspecStore]:
    url = f"http://127.0.0.1:{server.server_port}"
    opened = FsspecStore.open("s3", {"endpoint_url": url, "key": "k", "secret": "s"})
    assert opened
    yield opened
    opened.close()
