"""Listings of an S3 store in many pages, some of which fail, and that may not end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import fsspec.asyn
import pytest

from tests.support.http_thread import s3_store, served
from tfquiver import errors
from tfquiver.stores import fsspec as fsspec_stores
from tfquiver.stores.fsspec import FsspecStore

Page = tuple[list[str], str]  # keys, the next token: "" at the end
_OBJECT = "<Contents><Key>{}</Key><Size>3</Size><ETag>&quot;v&quot;</ETag></Contents>"


class Server(ThreadingHTTPServer):
    """`page` gives what a token asks for, "" for the first one; None: that request fails."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page: Callable[[str], Page | None] = lambda token: ([], "")
        self.asked: list[dict[str, list[str]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        asked = parse_qs(urlparse(self.path).query)
        self.server.asked.append(asked)
        found = self.server.page(asked.get("continuation-token", [""])[0])
        body = b""
        if found is not None:
            keys, token = found
            more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
            objects = "".join(map(_OBJECT.format, keys))
            listing = f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}{objects}"
            body = f"<ListBucketResult><Name>bucket</Name>{listing}</ListBucketResult>".encode()
        self.send_response(200 if found is not None else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module", autouse=True)
def loop() -> None:
    """fsspec's one, with its thread and wake-up sockets, is there for good."""
    fsspec.asyn.get_loop()


@pytest.fixture
def server() -> Iterator[Server]:
    with served(Server()) as running:
        yield running


@pytest.fixture
def store(server: Server) -> Iterator[FsspecStore]:
    with s3_store(server) as opened:
        yield opened


@pytest.mark.parametrize("tokens", [{"": "a", "a": "a"}, {"": "a", "a": "b", "b": "a"}])
def test_one_whose_pages_come_again_ends(
    server: Server, store: FsspecStore, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took memory for a minute, and was then begun again."""
    monkeypatch.setattr(fsspec_stores, "_LIST_DEADLINE_S", 5.0)
    server.page = lambda token: (["d/train-1"], tokens[token])
    with pytest.raises(errors.UnavailableError, match=r"s3://bucket/d/train-\*: its listing does not end"):
        store.list("s3://bucket/d/train-*")
    assert len(server.asked) <= 3


@pytest.mark.slow
def test_each_page_has_the_deadline_of_its_own(
    server: Server, store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a million objects took longer than all of it might; one page that failed began it anew."""
    monkeypatch.setattr(fsspec_stores, "_LIST_DEADLINE_S", 4.0)
    pages, slow = 8, threading.Event()
    failed: set[str] = set()

    def page(token: str) -> Page | None:
        slow.wait(0.6)  # a seventh of the deadline: on a busy machine a page takes seconds
        number = int(token or 0)
        if number == 5 and token not in failed:
            failed.add(token)
            return None
        return [f"d/train-{number}", f"d/train-{number}/", "d/other"], str(number + 1) if number + 1 < pages else ""

    server.page = page
    found = store.list("s3://bucket/d/train-*")
    assert [info.uri for info in found] == [f"s3://bucket/d/train-{number}" for number in range(pages)]
    assert {(info.size_bytes, info.generation) for info in found} == {(3, "v")}
    assert len(server.asked) == pages + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "prefix", "delimiter"),
    [("d/train-*", "d/train-", ["/"]), ("d/*/train-?", "d/", []), ("d/**", "d/", []), ("[ab]*", "", ["/"])],
)
def test_no_more_is_listed_than_may_match(
    server: Server, store: FsspecStore, pattern: str, prefix: str, delimiter: list[str]
) -> None:
    assert not store.list(f"s3://bucket/{pattern}")
    (asked,) = server.asked
    assert asked.get("prefix", [""]) == [prefix]
    assert asked.get("delimiter", []) == delimiter
