"""Credentials by reference that are renewed, revoked, or being written just now, against a store that looks at them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.gcs_emulator import GcsEmulator, gcs_emulator, status
from tfquiver import errors
from tfquiver.service.node.reading_the_object_store.named_access import LOOK_AGAIN_S, NamedAccess
from tfquiver.stores.gcs import GcsStore
from tfquiver.stores.object_store import Parts

URI, CONTENT = "gs://bucket/file", bytes(range(100))


@dataclass
class World:
    emulator: GcsEmulator
    secret: Path
    taken: str = "old"
    now_s: float = 1000.0
    access: NamedAccess = field(init=False)

    def __post_init__(self) -> None:
        self.access = NamedAccess(lambda: self.now_s)
        self.write("old")
        self.emulator.weather = lambda: self._refuse_others

    def write(self, token: str, **more: object) -> None:
        self.secret.write_text(json.dumps({"endpoint": self.emulator.address, "token": token, **more}))

    def read(self) -> bytes:
        return self.access.way(f"file:{self.secret}", "train").store_for(URI).read(URI, 10, 20, "", 5.0)

    def _refuse_others(self, handler: Any) -> bool:
        if handler.headers.get("Authorization") == f"Bearer {self.taken}":
            return False
        return status(401)(handler)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with gcs_emulator() as emulator:
        store = GcsStore({"endpoint": emulator.address})
        store._client.bucket("bucket").blob("file").upload_from_string(CONTENT)
        store.close()
        made = World(emulator, tmp_path / "secret.json")
        assert made.read() == CONTENT[10:30]
        yield made
        made.access.close()


def test_what_has_been_renewed_is_used_when_the_old_one_is_refused(world: World) -> None:
    """Also by who has opened the store before, and in the middle of a range."""
    before = world.access.way(f"file:{world.secret}", "train").store_for(URI)
    world.taken = "new"
    world.write("new")
    assert world.read() == CONTENT[10:30]
    parts: list[bytes] = []
    before.read_parts(Parts(URI, 10, [5, 15], ""), 5.0, parts.append)
    assert parts == [CONTENT[10:15], CONTENT[15:30]]


def test_what_is_wrong_is_asked_once_more_only_where_it_says_otherwise(world: World) -> None:
    world.taken = "new"
    asked = len(world.emulator.downloads)
    with pytest.raises(errors.UnauthenticatedError, match=f"credentials file:{world.secret} of data set train"):
        world.read()
    assert len(world.emulator.downloads) == asked + 1


@pytest.mark.parametrize("text", [None, "", '{"endpoint": "http://127'])
def test_what_is_being_written_just_now_is_looked_at_again(world: World, text: str | None) -> None:
    """Not everybody renames; until it is whole what stood there is used, for a minute."""
    world.now_s += LOOK_AGAIN_S
    if text is None:
        world.secret.unlink()
    else:
        world.secret.write_text(text)
    assert world.read() == CONTENT[10:30]
    world.write("new")
    world.taken = "new"
    world.now_s += 10
    assert world.read() == CONTENT[10:30]


def test_what_stays_away_is_used_no_more(world: World) -> None:
    world.secret.unlink()
    world.now_s += 2 * LOOK_AGAIN_S
    assert world.read() == CONTENT[10:30]
    world.now_s += 3 * LOOK_AGAIN_S
    with pytest.raises(errors.NotFoundError, match=f"credentials file:{world.secret}"):
        world.read()


def test_what_says_that_it_expires_is_an_error_when_it_has(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("old", expires_at_s=5000)
    monkeypatch.setattr("time.time", lambda: 4990.0)
    world.now_s += LOOK_AGAIN_S
    assert world.read() == CONTENT[10:30]
    monkeypatch.setattr("time.time", lambda: 5001.0)
    world.now_s += LOOK_AGAIN_S
    with pytest.raises(errors.UnauthenticatedError, match="they have expired: renew what stands there"):
        world.read()
