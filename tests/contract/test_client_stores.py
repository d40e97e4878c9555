"""Which credentials a read goes out with: those of a client that uses the data set, never somebody else's."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.s3_server import S3Server, s3_server
from tfquiver import errors, stores
from tfquiver.service.node.reading_the_object_store.client_stores import ClientStores
from tfquiver.stores import ObjectStore
from tfquiver.stores.credentials.resolved import Access

MINE, THEIRS = b"m" * 32, b"t" * 32
URI = "s3://data/f"


@pytest.fixture(scope="module")
def servers() -> Iterator[list[S3Server]]:
    with s3_server() as server:
        server.put("data/f", b"content")
        yield [server]


def way(server: S3Server, key: str, secret: str, expires_at_s: float = 0) -> Access:
    fields = {"endpoint_url": server.url, "key": key, "secret": secret, "client_kwargs": {"region_name": "us-east-1"}}
    return Access("s3", json.dumps(fields), expires_at_s)


class World:
    """ClientStores on clocks of its own. The node's own credentials are nobody's."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.stores = ClientStores(self._own, clock=lambda: self.now_s, now=lambda: self.now_s)

    def _own(self, uri: str) -> ObjectStore:
        raise errors.UnauthenticatedError(f"{uri}: the node's own")

    def read(self, digest_id: bytes) -> bytes:
        return self.stores.of_dataset(URI, digest_id).read(URI, 0, 7, "", 10.0)

    def refused(self, digest_id: bytes, what: str) -> bool:
        with pytest.raises((errors.PermissionError_, errors.UnauthenticatedError), match=what):
            self.read(digest_id)
        return True


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.stores.close()


@pytest.mark.slow
def test_each_data_set_is_read_with_its_own_clients_credentials(world: World, servers: list[S3Server]) -> None:
    (server,) = servers
    right = way(server, server.key, server.secret)
    world.stores.use("wrong", [way(server, "nobody", "nothing")], [THEIRS], 60)
    world.stores.use("right", [right], [MINE], 60)
    assert world.read(MINE) == b"content"
    assert world.refused(THEIRS, "s3://data/f")
    assert world.refused(b"x" * 32, "the node's own")
    world.stores.use("right", [right], [MINE, THEIRS], 60)
    assert world.read(THEIRS) == b"content"  # two use it: the store decides whose credentials are good
    world.stores.use("wrong", [way(server, "nobody", "nothing")], [THEIRS], 60)
    assert world.read(THEIRS) == b"content"


@pytest.mark.slow
def test_other_rights_are_other_rights(world: World, servers: list[S3Server]) -> None:
    (server,) = servers
    world.stores.use("blind", [way(server, *server.new_user("s3:ListBucket"))], [MINE], 60)
    assert world.refused(MINE, "the store refused")
    world.stores.use("blind", [way(server, *server.new_user("s3:GetObject"))], [MINE], 60)
    assert world.read(MINE) == b"content"


def test_what_a_client_said_ends_with_it(world: World, servers: list[S3Server]) -> None:
    (server,) = servers
    world.stores.use("a", [way(server, server.key, server.secret)], [MINE], 60)
    assert world.read(MINE) == b"content"
    world.now_s += 61
    assert world.refused(MINE, "the node's own")
    world.stores.use("a", [way(server, server.key, server.secret)], [MINE], 60)
    assert world.read(MINE) == b"content"
    world.stores.use("a", [], [], 0)
    assert world.refused(MINE, "the node's own")


@pytest.mark.slow
def test_temporary_credentials_are_not_used_after_their_time(world: World, servers: list[S3Server]) -> None:
    (server,) = servers
    world.stores.use("a", [way(server, server.key, server.secret, world.now_s + 30)], [MINE], 600)
    assert world.read(MINE) == b"content"
    world.now_s += 31
    assert world.refused(MINE, "have expired and were not renewed")
    world.stores.use("a", [way(server, server.key, server.secret, world.now_s + 30)], [MINE], 600)
    assert world.read(MINE) == b"content"


@pytest.mark.slow
def test_scans_go_out_with_the_askers_credentials(world: World, servers: list[S3Server]) -> None:
    (server,) = servers
    world.stores.use("a", [way(server, server.key, server.secret)], [], 60)
    assert world.stores.of_client(URI, "a", f"s3={server.url}").read(URI, 0, 7, "", 10.0) == b"content"
    with pytest.raises(errors.UnauthenticatedError, match="the node's own"):
        world.stores.of_client(URI, "", "")


def test_what_cannot_be_is_refused_without_a_word_of_what_it_holds(world: World) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        world.stores.use("a", [Access("s3", "secret stuff")], [], 60)
    assert "secret" not in str(caught.value)
    with pytest.raises(errors.InvalidArgumentError, match="client_id"):
        world.stores.use("", [], [], 60)
    with pytest.raises(errors.InvalidArgumentError, match="digest_ids"):
        world.stores.use("a", [], [b"x"] * 5000, 60)


@pytest.mark.parametrize(
    ("scheme", "options", "place"),
    [
        ("gs", {"token": "t", "quota_project": "p"}, ""),
        ("gs", {"endpoint": "http://e"}, "gs=http://e"),
        ("s3", {"key": "k", "secret": "s", "token": "t", "client_kwargs": {"region_name": "r", "verify": "/ca"}}, ""),
        ("s3", {"anon": True, "config_kwargs": {"s3": {"addressing_style": "path"}}}, ""),
        ("s3", {"key": "k", "secret": "s", "endpoint_url": "http://e"}, "s3=http://e"),
        ("az", {"account_name": "a", "account_key": "k", "client_id": "c", "tenant_id": "t"}, "az=a"),
    ],
)
def test_who_asks_is_no_part_of_the_place(scheme: str, options: dict[str, object], place: str) -> None:
    assert Access(scheme, json.dumps(options)).place == place


@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        ("s3", {"client_kwargs": {"endpoint_url": "http://e"}}),
        ("s3", {"config_kwargs": {"proxies": {"https": "http://e"}}}),
        ("s3", {"endpoint": "http://e"}),
        ("az", {"connection_string": "AccountName=a;AccountKey=k;BlobEndpoint=http://e"}),
        ("az", {"account_name": "a", "account_host": "e"}),
        ("sftp", {"host": "e", "password": "p"}),
    ],
)
def test_whatever_could_lead_elsewhere_is_part_of_the_place(scheme: str, options: dict[str, object]) -> None:
    plain = {name: value for name, value in options.items() if name == "account_name"}
    place = Access(scheme, json.dumps(options)).place
    assert place != Access(scheme, json.dumps(plain)).place
    elsewhere = json.dumps(options).replace('e"', 'f"')
    assert Access(scheme, elsewhere).place != place
    otherwise = json.dumps(options).replace("AccountKey=k", "AccountKey=l").replace('"p"', '"q"')
    assert Access(scheme, otherwise).place == place


@pytest.mark.slow
def test_nobody_waits_for_a_store_that_is_being_opened(servers: list[S3Server]) -> None:
    """Its library may be imported for that. Clients say what they use on the node's loop."""
    opening, go_on = threading.Event(), threading.Event()

    def open_store(access: Access) -> ObjectStore:
        opening.set()
        assert go_on.wait(30)
        return stores.open_with(access)

    client_stores = ClientStores(opened=open_store)
    right = way(servers[0], servers[0].key, servers[0].secret)
    client_stores.use("a", [right], [MINE], 60)
    found: list[bytes] = []
    reading = threading.Thread(
        target=lambda: found.append(client_stores.of_dataset(URI, MINE).read(URI, 0, 7, "", 20.0))
    )
    reading.start()
    assert opening.wait(30)
    others = threading.Thread(
        target=lambda: (client_stores.use("b", [right], [THEIRS], 60), client_stores.place_of(URI, THEIRS)), daemon=True
    )
    others.start()
    others.join(10)
    waits = others.is_alive()
    go_on.set()
    reading.join(30)
    others.join(30)
    client_stores.close()
    assert not waits
    assert found == [b"content"]


def test_where_a_data_set_is_read(world: World) -> None:
    def at(endpoint: str) -> Access:
        return Access("s3", json.dumps({"endpoint_url": endpoint, "key": "k", "secret": "s"}))

    world.stores.use("a", [at("http://a")], [MINE], 60)
    world.stores.use("b", [at("http://b")], [MINE, THEIRS], 60)
    assert world.stores.place_of(URI, MINE) == "s3=http://a, s3=http://b"
    assert world.stores.place_of(URI, THEIRS) == "s3=http://b"
    assert world.stores.place_of(URI, b"x" * 32) == ""
    assert world.stores.place_of("gs://data/f", MINE) == ""
    named = ClientStores(named_place=lambda uri, digest_id: "s3=http://named")
    named.use("a", [at("http://a")], [MINE], 60)
    assert named.place_of(URI, MINE) == "s3=http://named"


@pytest.mark.slow
def test_a_client_whose_store_is_away_or_another_keeps_nobody_from_reading(
    world: World, servers: list[S3Server]
) -> None:
    """The same files in two places make the same data set; so does a client that says so and does not mean well."""
    (server,) = servers
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
    world.stores.use("good", [way(server, server.key, server.secret)], [MINE], 60)
    fields = {"key": "k", "secret": "s", "client_kwargs": {"region_name": "us-east-1"}}
    world.stores.use("away", [Access("s3", json.dumps(fields | {"endpoint_url": away}))], [MINE], 60)
    start = time.monotonic()
    assert world.read(MINE) == b"content"
    assert time.monotonic() - start < 8.0
    start = time.monotonic()
    assert world.read(MINE) == b"content"  # and it is asked last from then on
    assert time.monotonic() - start < 1.0
    world.stores.use("good", [], [], 0)
    with pytest.raises(errors.UnavailableError):
        world.read(MINE)
