"""Wrong or missing credentials, endpoints and buckets: an error at once that says what to do, and never a long wait."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support import fixed_ports
from tests.support.s3_server import S3Server, s3_server
from tfquiver import errors, stores
from tfquiver.data_sources_found_and_registered.store_access import is_due
from tfquiver.node_daemon_and_notes_in_directories import store_environment
from tfquiver.stores.credentials import resolved
from tfquiver.stores.credentials.resolved import Access
from tfquiver.stores.fsspec import FsspecStore

SOON_S = 15.0  # of the 60 s that are allowed; 3 s by itself, more where the machine has much to do
PUBLIC = ("AWS_", "FSSPEC_", "GOOGLE_", "STORAGE_")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        running.put("data/f", b"0123456789")
        yield running


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without credentials: no files, no metadata service."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)


@contextmanager
def soon() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SOON_S


@contextmanager
def opened(scheme: str) -> Iterator[stores.ObjectStore]:
    found = resolved.resolve(scheme)
    assert found is not None
    store = stores.open_with(found)
    try:
        yield store
    finally:
        store.close()


def test_s3_without_credentials() -> None:
    with soon(), pytest.raises(errors.UnauthenticatedError, match="no S3 credentials: set AWS_ACCESS_KEY_ID"):
        resolved.resolve("s3")


def test_an_s3_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with soon(), pytest.raises(errors.UnauthenticatedError, match=r"nobody.*AWS_PROFILE"):
        resolved.resolve("s3")


@pytest.mark.slow
def test_the_librarys_own_way_without_credentials(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of a cluster looks for itself."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    store = FsspecStore.open("s3")
    assert store is not None
    with soon(), pytest.raises(errors.UnauthenticatedError, match=r"no usable S3 credentials.*AWS_ACCESS_KEY_ID"):
        store.read("s3://data/f", 0, 1, "", 60.0)
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("which", ["key", "secret"])
def test_a_wrong_s3_key(server: S3Server, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID" if which == "key" else "AWS_SECRET_ACCESS_KEY", "wrong")
    refused = (errors.UnauthenticatedError, errors.PermissionError_)
    with opened("s3") as store:
        with soon(), pytest.raises(refused, match=r"s3://data/f.*(set AWS_ACCESS_KEY_ID|may list and)"):
            store.list("s3://data/f*")
        with soon(), pytest.raises(refused, match=r"s3://data/f.*(set AWS_ACCESS_KEY_ID|may list and)"):
            store.read("s3://data/f", 0, 1, "", 60.0)


def test_the_right_s3_key(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    with opened("s3") as store:
        (info,) = store.list("s3://data/f*")
        assert store.read(info.uri, 2, 3, info.generation, 10.0) == b"234"
        with soon(), pytest.raises(errors.NotFoundError, match="s3://nobucket: no such bucket"):
            store.list("s3://nobucket/f*")


@pytest.mark.slow
def test_an_s3_endpoint_where_nobody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"http://127.0.0.1:{fixed_ports.free_port()}"
    for name, value in {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(name, value)
    with opened("s3") as store:
        with soon(), pytest.raises(errors.UnavailableError, match=f"check the network and the endpoint .{endpoint}"):
            store.list("s3://data/f*")
        with soon(), pytest.raises(errors.UnavailableError, match="s3://data/f"):
            store.read("s3://data/f", 0, 1, "", 60.0)


def test_s3_endpoints_and_keys_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aws = tmp_path / ".aws"
    aws.mkdir()
    (aws / "credentials").write_text("[lab]\naws_access_key_id = k\naws_secret_access_key = s\naws_session_token = t\n")
    (aws / "config").write_text("[profile lab]\nregion = eu-west-3\nendpoint_url = http://minio:9000\n")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    found = resolved.resolve("s3")
    assert found is not None
    assert found.fields == {
        "key": "k", "secret": "s", "token": "t", "endpoint_url": "http://minio:9000",
        "client_kwargs": {"region_name": "eu-west-3"},
    }  # fmt: skip
    assert found.place == "s3=http://minio:9000"
    assert "k" not in repr(found).removeprefix("Access(s3")
    monkeypatch.setenv("FSSPEC_S3_KEY", "mine")
    monkeypatch.setenv("FSSPEC_S3_SECRET", "hidden")
    monkeypatch.setenv("FSSPEC_S3_ENDPOINT_URL", "http://other")
    changed = resolved.resolve("s3")
    assert changed is not None
    assert (changed.fields["key"], changed.fields["secret"], changed.place) == ("mine", "hidden", "s3=http://other")


def test_gs_without_credentials() -> None:
    with soon(), pytest.raises(errors.UnauthenticatedError, match="no Google credentials: run `gcloud auth"):
        resolved.resolve("gs")


@pytest.mark.parametrize("content", [None, "{", "[]", '{"type": "service_account"}', '{"type": "what"}'])
def test_a_gs_key_file_that_is_missing_or_malformed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    with soon(), pytest.raises(errors.UnauthenticatedError, match=f"GOOGLE_APPLICATION_CREDENTIALS={path}: not usable"):
        resolved.resolve("gs")


def test_a_gs_user_whom_the_token_service_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key.json"
    user = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    path.write_text(json.dumps(user | {"token_uri": f"http://127.0.0.1:{fixed_ports.free_port()}/token"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{fixed_ports.free_port()}")
    with soon(), pytest.raises(errors.UnavailableError, match="Google's token service does not answer"):
        resolved.resolve("gs")


def test_a_gs_emulator_where_nobody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen: nobody else can have the port meanwhile
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with opened("gs") as store:
            for call in (lambda: store.list("gs://b/f*"), lambda: store.read("gs://b/f", 0, 1, "", 60.0)):
                with soon(), pytest.raises(errors.UnavailableError, match="STORAGE_EMULATOR_HOST is http://127"):
                    call()


def test_a_daemons_environment_has_nothing_of_its_starters_stores() -> None:
    secret = {"AWS_PROFILE": "x", "FSSPEC_S3_KEY": "k", "STORAGE_EMULATOR_HOST": "h"}
    found = store_environment.without(secret | {"PATH": "/bin"})
    assert found == {"PATH": "/bin"}


def test_temporary_s3_credentials_are_resolved_with_their_end_and_again_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws, said = tmp_path / ".aws", tmp_path / "said.json"
    aws.mkdir()
    (aws / "config").write_text(f"[profile role]\ncredential_process = cat {said}\n")
    monkeypatch.setenv("AWS_PROFILE", "role")
    found = []
    for number in (1, 2):
        ends = datetime.now(UTC) + timedelta(hours=number)
        keys = {"AccessKeyId": f"k{number}", "SecretAccessKey": "s", "SessionToken": f"t{number}"}
        said.write_text(json.dumps({"Version": 1, "Expiration": ends.isoformat()} | keys))
        made = resolved.resolve("s3")
        assert made is not None
        assert (made.fields["key"], made.fields["token"]) == (f"k{number}", f"t{number}")
        assert abs(made.expires_at_s - ends.timestamp()) < 2
        found.append(made)
    assert not is_due(found[0], time.time())
    assert is_due(found[0], found[0].expires_at_s - 200)
    assert is_due(Access("s3", "{}"), time.time())


class TokenService(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        claims = asked["assertion"][0].split(".")[1]
        scope = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["scope"]
        reply = json.dumps({"access_token": f"token for {scope}", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None: ...


def test_of_a_gs_key_only_a_token_that_can_read_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    with HTTPServer(("127.0.0.1", 0), TokenService) as service:
        thread = threading.Thread(target=service.handle_request)
        thread.start()
        path = tmp_path / "key.json"
        key = {"type": "service_account", "private_key": pem, "private_key_id": "1", "project_id": "p"}
        uri = f"http://127.0.0.1:{service.server_port}/"
        path.write_text(json.dumps(key | {"client_email": "a@p.example", "token_uri": uri}))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        found = resolved.resolve("gs")
        thread.join()
    assert found is not None
    assert found.fields["token"] == "token for https://www.googleapis.com/auth/devstorage.read_only"
    assert "PRIVATE" not in found.options
    assert 3000 < found.expires_at_s - time.time() < 3700
    assert found.place == ""
    store = stores.open_with(found)
    store.close()
