"""A web server that does not know of ranges, as Python's own, or one before an S3 store: no more is taken into memory
than was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import fsspec.asyn
import pytest

from tests.support.http_thread import s3_store, served
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
    with served(RangeServer()) as running:
        yield running


@pytest.fixture
def store(server: RangeServer) -> Iterator[FsspecStore]:
    """Closed before the server, which waits for its connections."""
    opened = FsspecStore.open("http")
    assert opened
    yield opened
    opened.close()


@pytest.fixture
def s3(server: RangeServer) -> Iterator[FsspecStore]:
    with s3_store(server) as opened:
        yield opened


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((200, {}, MOST_BYTES), "the whole file comes where 10 bytes at offset 10 were asked for"),
        ((200, {}, None), "the whole file comes where 10 bytes at offset 10 were asked for"),
        ((206, {"Content-Range": "bytes 10-19/1000"}, None), "more bytes came than the 10 that were asked for"),
        ((206, {"Content-Range": "bytes 0-9/1000"}, 10), "bytes 0-9/1000 comes where 10 bytes at offset 10"),
        ((206, {"Content-Range": "bytes 10-19/1000"}, 9), "9 bytes came where 10 were asked for at offset 10"),
        ((500, {}, 10), "500"),
    ],
)
def test_what_is_not_the_range_is_asked_for_again_and_not_taken(
    server: RangeServer, store: FsspecStore, answer: tuple[int, dict[str, str], int | None], complaint: str
) -> None:
    """Ten bytes were asked for; gigabytes came, as many as the deadline let."""
    server.answer = answer
    with pytest.raises(errors.UnavailableError, match=complaint):
        store.read(f"http://127.0.0.1:{server.server_port}/f", 10, 10, "", 1.5)
    assert server.asked > 1
    assert server.sent_bytes < _TAKEN_BYTES


@pytest.mark.parametrize(
    ("answer", "offset"), [((200, {}, MOST_BYTES), 0), ((206, {"Content-Range": "bytes 10-19/1000"}, 10), 10)]
)
def test_what_is_the_range_is_taken(
    server: RangeServer, store: FsspecStore, answer: tuple[int, dict[str, str], int | None], offset: int
) -> None:
    server.answer = answer
    uri = f"http://127.0.0.1:{server.server_port}/f"
    assert store.read(uri, offset, 10, store.stat(uri).generation, 20.0) == b"x" * 10
    assert server.sent_bytes < _TAKEN_BYTES


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
def test_what_is_not_the_range_of_an_s3_object_is_asked_for_again_and_not_taken(
    server: RangeServer, s3: FsspecStore, answer: tuple[int, dict[str, str], int | None], complaint: str
) -> None:
    server.answer = answer
    for deadline_s in (2.0, 20.0):  # where all else runs too, the first may do for one attempt only
        with pytest.raises(errors.UnavailableError) as refused:
            s3.read("s3://bucket/f", 10, 10, "v", deadline_s)
        if server.asked > 1:
            break
    assert complaint in str(refused.value)
    assert server.asked > 1 and server.sent_bytes < _TAKEN_BYTES
