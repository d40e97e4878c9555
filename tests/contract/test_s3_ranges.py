"""An S3 store, or a proxy before it, that does not know of ranges: no more is taken into memory than was asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import fsspec.asyn
import pytest

from tests.support.range_server import MOST_BYTES, RangeServer
from tfquiver import errors
from tfquiver.stores.fsspec import FsspecStore

_TAKEN_BYTES = 64 << 20  # buffers of kernel and client, for some attempts


@pytest.fixture(scope="module", autouse=True)
def loop() -> None:
    """fsspec's one, with its thread and wake-up sockets, is there for good."""
    fsspec.asyn.get_loop()


@pytest.fixture
def server() -> Iterator[RangeServer]:
    running = RangeServer()
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def store(server: RangeServer) -> Iterator[FsspecStore]:
    url = f"http://127.0.0.1:{server.server_port}"
    opened = FsspecStore.open("s3", {"endpoint_url": url, "key": "k", "secret": "s"})
    assert opened
    yield opened
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((200, {}, MOST_BYTES), "1099511627776 bytes come where 10 bytes at offset 10 were asked for"),
        ((206, {"Content-Range": "bytes 10-19/1000"}, None), "more bytes came than the 10 that were asked for"),
        ((206, {"Content-Range": "bytes 0-9/1000"}, 10), "bytes 0-9/1000 comes where 10 bytes at offset 10"),
        ((200, {}, 10), "the whole object comes where 10 bytes at offset 10"),
    ],
)
def test_what_is_not_the_range_is_asked_for_again_and_not_taken(
    server: RangeServer, store: FsspecStore, answer: tuple[int, dict[str, str], int | None], complaint: str
) -> None:
    """Ten bytes were asked for; gigabytes came, as many as the deadline let."""
    server.answer = answer
    for deadline_s in (2.0, 20.0):  # where all else runs too, the first may do for one attempt only
        with pytest.raises(errors.UnavailableError) as refused:
            store.read("s3://bucket/f", 10, 10, "v", deadline_s)
        if server.asked > 1:
            break
    assert complaint in str(refused.value)
    assert server.asked > 1 and server.sent_bytes < _TAKEN_BYTES
