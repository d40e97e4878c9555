"""The GCS store against a server that fails."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.gcs_emulator import (
    Fault,
    GcsEmulator,
    another_range,
    cut_off,
    gcs_emulator,
    range_ignored,
    reset,
    status,
    whole_object,
)
from tests.support.http_thread import served
from tfquiver import errors
from tfquiver.stores.gcs import GcsStore

CONTENT = b"0123456789" * 100


@pytest.fixture
def emulator() -> Iterator[GcsEmulator]:
    with gcs_emulator() as running:
        yield running


@pytest.fixture
def store(emulator: GcsEmulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[GcsStore]:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator.address)
    opened = GcsStore()
    opened._client.bucket("bucket").blob("f").upload_from_string(CONTENT)
    yield opened
    opened.close()


_TRANSIENT = [*map(status, (408, 429, 500, 503, 204, 304)), reset, cut_off, whole_object, another_range, range_ignored]


@pytest.mark.parametrize("fault", _TRANSIENT)
def test_transient_failures_are_tried_again(emulator: GcsEmulator, store: GcsStore, fault: Fault) -> None:
    info = store.stat("gs://bucket/f")
    emulator.faults += [fault, fault]
    assert store.read(info.uri, 10, 10, info.generation, 20.0) == CONTENT[10:20]
    assert len(emulator.downloads) == 3
    assert all(f"generation={info.generation}" in asked and "bytes=10-19" in asked for asked in emulator.downloads)


def test_a_store_that_goes_on_failing_is_named_in_time(emulator: GcsEmulator, store: GcsStore) -> None:
    emulator.faults += [status(503)] * 100
    start = time.monotonic()
    with pytest.raises(errors.UnavailableError, match=r"gs://bucket/f: .*503.*tried \d+ times"):
        store.read("gs://bucket/f", 0, 10, "", 1.0)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("code", [401, 403])
def test_a_refusal_is_final_and_names_the_object(emulator: GcsEmulator, store: GcsStore, code: int) -> None:
    emulator.faults += [status(code)]
    kind = errors.UnauthenticatedError if code == 401 else errors.PermissionError_
    with pytest.raises(kind, match=r"gs://bucket/f: the (store refused|credentials are not taken)"):
        store.read("gs://bucket/f", 0, 10, "", 20.0)
    assert len(emulator.downloads) == 1


@pytest.mark.parametrize("code", [412, 416])
def test_conditions_that_fail_mean_a_stale_digest(emulator: GcsEmulator, store: GcsStore, code: int) -> None:
    info = store.stat("gs://bucket/f")
    emulator.faults += [status(code)]
    with pytest.raises(errors.StaleDigestError, match="gs://bucket/f"):
        store.read(info.uri, 0, 10, info.generation, 20.0)


class _SamePage(BaseHTTPRequestHandler):
    """Of a store whose listing says of each page that it is the next one."""

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        body = json.dumps({"items": [{"name": "f", "size": "1", "generation": "1"}], "nextPageToken": "t"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_a_listing_whose_next_page_is_always_the_same_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took memory for as long as there was some."""
    with served(ThreadingHTTPServer(("127.0.0.1", 0), _SamePage)) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
        store = GcsStore()
        try:
            with pytest.raises(errors.UnavailableError, match=r"gs://bucket/f\*: its listing does not end"):
                store.list("gs://bucket/f*")
        finally:
            store.close()


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free_port = taken.getsockname()[1]
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{free_port}")
    store = GcsStore()
    with pytest.raises(errors.UnavailableError, match="gs://bucket/f: "):
        store.read("gs://bucket/f", 0, 10, "", 0.5)
    store.close()
    with pytest.raises(errors.CancelledError_, match="closed"):
        store.read("gs://bucket/f", 0, 10, "", 0.5)


@pytest.mark.parametrize("uri", ["gs://bucket", "gs://bucket/", "gs:///f", "gs://buck*/f"])
def test_uris_that_cannot_be(store: GcsStore, uri: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="gs://bucket/name"):
        store.list(uri)


def test_a_bucket_that_is_not_there(store: GcsStore) -> None:
    with pytest.raises(errors.NotFoundError, match="gs://nobucket"):
        store.list("gs://nobucket/train-*")
