"""What `tfquiver up` has said of itself, when the disk takes no more: nothing of it is what was so before."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.disks import fill, tmpfs
from tests.support.privileges import needs_mounts
from tfquiver import durable, errors
from tfquiver.local_cluster import scrape_targets
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.up_file import Given, Ports

pytestmark = needs_mounts
PORTS = Ports(5040, 5050, [1, 2])
AWAY = {"node": "SIGKILL"}


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Path]:
    """An `up` runs there."""
    with tmpfs(tmp_path / "disk", 1 << 20) as disk:
        lock = durable.lock_file(disk / up_file.LOCK_FILE)
        assert durable.try_lock(lock)
        yield disk
        os.close(lock)


def test_a_server_that_is_back_is_not_said_to_be_away(at: Path) -> None:
    up_file.write(at, PORTS, Given(2, "1GiB"), AWAY)
    fill(at)
    up_file.write(at, Ports(5041, 5050, [1]), Given(1, "1GiB"))
    assert up_file.away(at) == {}
    assert (up_file.read(at), up_file.read_given(at)) == (Ports(5041, 5050, [1]), Given(1, "1GiB"))
    up_file.write(at, Ports(5041, 5050, [1]), Given(1, "1GiB"), {"dispatcher": "exit code 1"})
    assert up_file.away(at) == {"dispatcher": "exit code 1"}
    (at / "others").unlink()
    up_file.write(at, PORTS)
    assert up_file.read(at) == PORTS
    assert not list(at.glob(".*"))


def test_what_has_no_room_in_its_block_says_nothing(at: Path) -> None:
    up_file.write(at, PORTS, away=AWAY)
    fill(at)
    with pytest.raises(OSError) as raised:
        up_file.write(at, PORTS, Given(flags={"node": ["--labels=" + "x" * 4096]}))
    assert raised.value.errno == errno.ENOSPC
    assert up_file.away(at) == {} and up_file.read(at) == Ports()
    assert not list(at.glob(".*"))


def test_a_link_in_its_place_is_not_written_through(at: Path) -> None:
    (at / "theirs").write_bytes(b"theirs")
    (at / up_file.UP_FILE).symlink_to("theirs")
    fill(at)
    with pytest.raises(OSError):
        up_file.write(at, PORTS)
    assert (at / "theirs").read_bytes() == b"theirs"


def test_prometheus_is_told_of_no_metrics_that_are_gone(at: Path) -> None:
    targets = at / "targets.json"
    scrape_targets.write(targets, at, {"node": "localhost:1", "coordinator": "localhost:2"})
    fill(at)
    scrape_targets.write(targets, at, {})
    assert json.loads(targets.read_bytes()) == []
    with (at / "others").open("r+b") as others:
        others.truncate(4096)
    targets.unlink()
    fill(at)
    with pytest.raises(errors.ResourceExhaustedError, match=f"--prometheus={targets}: No space left"):
        scrape_targets.write(targets, at, {})
