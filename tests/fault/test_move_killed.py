"""kill -9 in the middle of a move: afterwards all is where it should be, nothing is read from the store again, and no
quota was exceeded."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cluster import Server, wait_until
from tests.support.racked import Racked

pytestmark = pytest.mark.long

LABELS = {"a": "rack=r1", "b": "rack=r1", "c": "rack=r2"}
SLOW = "--move_bytes_per_s=100kB"  # some seconds for what a node gets
SETTLED_S = 90.0


def _some_have_come(racked: Racked, name: str, before: int) -> None:
    wait_until(lambda: before < racked.status(name).entries, "some have come")


@pytest.mark.parametrize("victim", ["the new owner", "an old owner", "the coordinator"])
def test_a_move_goes_on_after_a_kill(tmp_path: Path, victim: str) -> None:
    with Racked(tmp_path, LABELS, [SLOW]) as racked:
        dataset, made = racked.scan("a")
        servers = {"the new owner": racked.nodes["c"], "an old owner": racked.nodes["a"]}
        server: Server = servers.get(victim, racked.coordinator)
        survivors = [name for name, node in racked.nodes.items() if node is not server]
        read = {name: racked.status(name).store_bytes for name in survivors}
        racked.place(dataset.digest_id, selector="rack=r2")
        _some_have_come(racked, "c", racked.status("c").entries)
        server.kill()
        assert racked.entries().get("c", 0) < dataset.shards, "it was over already"
        server.restart()
        racked.await_members(3)
        wait_until(lambda: racked.settled(dataset.digest_id, ("c",), dataset.shards), "moved", SETTLED_S)
        assert Counter(racked.read("b", dataset.digest_id)) == Counter(made)
        for name in survivors:
            assert racked.status(name).store_bytes == read[name], f"{name} has read the store again"
        if server not in (racked.nodes[name] for name in survivors) and server is not racked.coordinator:
            name = next(name for name, node in racked.nodes.items() if node is server)
            assert racked.status(name).store_bytes == 0  # since it was started again


def test_a_move_without_room_says_so_and_exceeds_no_quota(tmp_path: Path) -> None:
    quota_bytes = 200 << 10
    with Racked(tmp_path, LABELS) as racked:
        dataset, made = racked.scan("a")
        racked.add("d", "rack=r3", f"--quota={quota_bytes}")
        racked.await_members(4)
        most, over = [0], threading.Event()

        def watch() -> None:
            while not over.wait(0.005):
                objects = (tmp_path / "d" / "objects").rglob("*")
                most[0] = max(most[0], sum(_size(path) for path in objects))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            racked.place(dataset.digest_id, selector="rack=r3")
            wait_until(lambda: _no_room(racked, dataset.digest_id), "it says that there is no room")
            wait_until(lambda: racked.placement(dataset.digest_id).settled, "nothing more moves", SETTLED_S)
        finally:
            over.set()
            watching.join()
        assert 0 < most[0] <= quota_bytes
        entries = racked.entries()
        assert entries["d"] > 0
        assert sum(entries.values()) >= dataset.shards  # what finds no room stays where it was
        assert Counter(racked.read("d", dataset.digest_id)) == Counter(made)
        racked.place(dataset.digest_id, selector="rack=r1")
        wait_until(lambda: racked.settled(dataset.digest_id, ("a", "b"), dataset.shards), "out again", SETTLED_S)


def _size(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512 if path.is_file() else 0
    except FileNotFoundError:
        return 0


def _no_room(racked: Racked, digest_id: bytes) -> bool:
    return any(one.report.no_room_shards for one in racked.placement(digest_id).moves)
