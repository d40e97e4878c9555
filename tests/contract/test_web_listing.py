"""Files of a web server: by their names, and by the index page that links to them; what goes wrong is said as it is."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fsspec.asyn
import pytest

from tests.support import fixed_ports
from tests.support.http_thread import served
from tfquiver import errors, stores
from tfquiver.listing.listing import expand
from tfquiver.stores import fsspec as fsspec_stores
from tfquiver.stores.fsspec import FsspecStore

INDEX = b'<a href="train-0">0</a> <a href="train-1">1</a> <a href="train-gone">-</a> <a href="../">up</a>'


class Web(ThreadingHTTPServer):
    """`files`: path -> what is there, or the status of what is not."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes | int] = {
            "/d/": INDEX, "/d/train-0": b"x" * 10, "/d/train-1": b"y" * 20, "/secret/": 403, "/secret/f": 403,
            "/broken/f": 400,
        }  # fmt: skip
        self.refuses_head = self.says_no_length = False
        self.asked = 0
        self.pause_s, self.go_on = 0.0, threading.Event()  # before each file, and between two parts of an index page
        self.stalls = False  # in the midst of an index page
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Web

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        if self.server.refuses_head:
            self.send_response(403)
            self.end_headers()
        else:
            self.do_GET()

    def do_GET(self) -> None:
        self.server.asked += 1
        there = self.server.files.get(self.path, 404)
        self.send_response(there if isinstance(there, int) else 200)
        self.send_header("Content-Type", "text/html")
        if isinstance(there, bytes) and not self.server.says_no_length:
            self.send_header("Content-Length", str(len(there)))
        if not self.path.endswith("/"):
            self.server.go_on.wait(self.server.pause_s)
        self.end_headers()
        if isinstance(there, bytes) and self.command == "GET":
            part_bytes = max(1, len(there) // 6)
            with contextlib.suppress(OSError):  # who asked has left
                for at in range(0, len(there), part_bytes):
                    self.wfile.write(there[at : at + part_bytes])
                    self.wfile.flush()
                    self.server.go_on.wait(60 if self.server.stalls else self.server.pause_s)


@pytest.fixture(scope="module", autouse=True)
def loop() -> None:
    """fsspec's one, with its thread and wake-up sockets, is there for good."""
    fsspec.asyn.get_loop()


@pytest.fixture
def web() -> Iterator[Web]:
    with served(Web()) as running:
        yield running


@pytest.fixture
def store(web: Web) -> Iterator[FsspecStore]:
    """Closed before the server, which waits for its connections."""
    opened = FsspecStore.open("http")
    assert opened
    yield opened
    opened.close()


def listed(store: FsspecStore, uri: str) -> list[tuple[str, int]]:
    return [(one.uri, one.size_bytes) for one in expand(uri, lambda _: store)]


@pytest.mark.parametrize("refuses_head", [False, True])
def test_files_have_their_sizes_however_they_are_named(web: Web, store: FsspecStore, refuses_head: bool) -> None:
    """By an index page each was taken for empty, and a data set of them for one without records."""
    web.refuses_head = refuses_head
    both = [(f"{web.url}/d/train-0", 10), (f"{web.url}/d/train-1", 20)]
    assert listed(store, f"{web.url}/d/train-*") == both, "and of a link that leads nowhere nothing"
    assert listed(store, f"{web.url}/d/train-1") == both[1:]


@pytest.mark.parametrize(
    ("path", "said"),
    [("/d/train-7", "that web server has no such file; files in buckets are named gs://BUCKET/..., s3://"),
     ("/d/trian-*", "a web server is asked for its index page, and none is there that links to such files"),
     ("/nowhere/train-*", "name each file whole; files in buckets are named gs://BUCKET/..., s3://BUCKET/")],
)  # fmt: skip
def test_what_is_not_there_is_said_with_what_there_is(web: Web, store: FsspecStore, path: str, said: str) -> None:
    with pytest.raises(errors.NotFoundError) as raised:
        listed(store, web.url + path)
    assert str(raised.value).startswith(f"no match for {web.url}{path}: ") and said in str(raised.value)


@pytest.mark.parametrize("path", ["/secret/f", "/secret/train-*"])
def test_what_is_refused_is_not_called_missing(web: Web, store: FsspecStore, path: str) -> None:
    with pytest.raises(errors.PermissionError_, match="the store refused: the web server says 403 Forbidden"):
        listed(store, web.url + path)


def test_other_answers_are_said_as_they_are(web: Web, store: FsspecStore) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="/broken/f: the web server says 400 Bad Request"):
        listed(store, f"{web.url}/broken/f")
    web.says_no_length = True
    with pytest.raises(errors.InvalidArgumentError, match="does not say how long that is"):
        listed(store, f"{web.url}/d/train-0")


def test_when_one_file_is_refused_the_others_are_not_asked_for(web: Web, store: FsspecStore) -> None:
    """All that the page links to were, and again at each attempt, of a server that may have said 429."""
    web.files |= {"/many/": b"".join(b'<a href="train-%d">-</a>' % number for number in range(300))}
    web.files |= {f"/many/train-{number}": 400 for number in range(300)}
    with pytest.raises(errors.InvalidArgumentError, match="400 Bad Request"):
        listed(store, f"{web.url}/many/train-*")

    async def over() -> None:
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)

    # Not fsspec's `sync`: where it has a deadline, it waits in a task of its own for this one, which would wait for it.
    asyncio.run_coroutine_threadsafe(over(), fsspec.asyn.get_loop()).result(60)
    assert web.asked < 100


@pytest.mark.slow
def test_as_long_as_a_server_goes_on_answering_a_listing_may_take_longer(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some 19 000 files it had not ended after the minute that it had, and was then begun again."""
    monkeypatch.setattr(fsspec_stores, "_LIST_DEADLINE_S", 3.0)
    web.files |= {"/many/": b"".join(b'<a href="train-%d">-</a>' % number for number in range(96))}
    web.files |= {f"/many/train-{number}": b"x" for number in range(96)}
    web.pause_s = 0.6  # the page takes 3.6 s then, and the files as long
    opened = FsspecStore.open("http")
    assert opened
    try:
        assert len(listed(opened, f"{web.url}/many/train-*")) == 96
    finally:
        web.go_on.set()
        opened.close()
    assert web.asked < 106, "none was asked for again"


@pytest.mark.slow
def test_an_index_page_that_stops_coming_is_said_to_have(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsspec_stores, "_LIST_DEADLINE_S", 1.0)
    web.stalls = True
    opened = FsspecStore.open("http")
    assert opened
    try:
        with pytest.raises(errors.UnavailableError, match="nothing more came of the web server's index page"):
            listed(opened, f"{web.url}/d/train-*")
    finally:
        web.go_on.set()
        opened.close()


def test_what_was_asked_for_of_its_sessions_is_so_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fsspec.config.conf, "http", {"client_kwargs": {"trust_env": True}})
    opened = FsspecStore.open("http")
    assert opened
    assert opened._fs.client_kwargs.keys() == {"timeout", "trust_env"}


@pytest.mark.parametrize("name", ["f", "train-*"])
def test_a_server_that_is_away_is_not_called_one_without_the_file(name: str) -> None:
    opened = FsspecStore.open("http")
    assert opened
    try:
        with pytest.raises(errors.UnavailableError, match="Cannot connect"):
            listed(opened, f"http://127.0.0.1:{fixed_ports.free_port()}/{name}")
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("scheme", "missing"), [("ftp", "FTPFileSystem of fsspec has to be told host (FSSPEC_FTP_HOST)"),
                            ("webhdfs", "has to be told host (FSSPEC_WEBHDFS_HOST)"), ("quux", "pip install")]
)  # fmt: skip
def test_a_scheme_that_cannot_be_opened_names_those_that_can(
    scheme: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fsspec.config.conf, scheme, {})
    with pytest.raises(errors.InvalidArgumentError) as raised:
        stores.for_uri(f"{scheme}://host/f")
    said = str(raised.value)
    assert said.startswith(f"no store for {scheme}:// here: ") and missing in said
    assert said.endswith(
        "; there are gs://, s3://, az://, https:// and paths of this machine: copy the files to one of these, or mount "
        "where they are and name them by path"
    )
