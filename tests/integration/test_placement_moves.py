"""Data sets that are kept on chosen nodes: moved there node to node, kept twice, a cache for each rack."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import grpc
import pytest

from tests.support import rotating
from tests.support.cluster import wait_until
from tests.support.racked import Racked
from tests.support.reader_client import Connection
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.mounting.named import digest_of

LABELS = {"a": "rack=r1,disk=nvme", "b": "rack=r1", "c": "rack=r2,disk=nvme"}
MOVED_S = 60.0


def test_a_data_set_moves_to_the_nodes_that_are_chosen_and_back(tmp_path: Path) -> None:
    with Racked(tmp_path, LABELS) as racked:
        dataset, made = racked.scan("a")
        read = racked.store_bytes()
        reply = racked.place(dataset.digest_id, selector="rack=r1")
        assert [list(group.node_ids) for group in reply.places.groups] == [racked.ids("a", "b")]
        assert Counter(racked.read("c", dataset.digest_id)) == Counter(made)  # while it moves
        wait_until(lambda: racked.settled(dataset.digest_id, ("a", "b"), dataset.shards), "moved", MOVED_S)
        racked.place(dataset.digest_id)
        wait_until(lambda: racked.settled(dataset.digest_id, ("a", "b", "c"), dataset.shards), "back", MOVED_S)
        assert min(racked.entries().values()) > dataset.shards // 6
        assert Counter(racked.read("b", dataset.digest_id)) == Counter(made)
        assert racked.store_bytes() == read
        assert racked.status("c").moved > 0


def test_what_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    with Racked(tmp_path, {"a": "rack=r1", "b": "disk=nvme"}) as racked:
        dataset, _ = racked.scan("a", count=50)
        for rule, message in (
            ({"selector": "rack=r9"}, "selector: no node matches 'rack=r9'; labels of those that live: .*rack=r1"),
            ({"selector": "rack=="}, None),
            ({"selector": "rack in r1"}, "selector: 'rack in r1' is not key=value"),
            ({"replicas": 3}, "replicas: 3 are more than the 2 nodes of the rule"),
            ({"rack_local": True}, "rack_local: node .* has no label rack"),
        ):
            with pytest.raises(grpc.RpcError, match=message) as caught:
                racked.place(dataset.digest_id, **rule)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert not racked.placement(dataset.digest_id).HasField("rule")


def test_a_placement_outlives_the_coordinator_and_nothing_moves_for_its_restart(tmp_path: Path) -> None:
    with Racked(tmp_path, LABELS) as racked:
        dataset, made = racked.scan("a")
        racked.place(dataset.digest_id, selector="disk=nvme", stripe=1)
        (group,) = racked.placement(dataset.digest_id).places.groups
        name = next(name for name in LABELS if racked.ids(name) == list(group.node_ids))
        wait_until(lambda: racked.settled(dataset.digest_id, (name,), dataset.shards), "moved", MOVED_S)
        moved = racked.status(name).moved
        racked.coordinator.kill()
        racked.coordinator.restart()
        racked.await_members(3)
        wait_until(lambda: racked.settled(dataset.digest_id, (name,), dataset.shards), "as before", MOVED_S)
        assert racked.placement(dataset.digest_id).rule.stripe == 1
        assert racked.status(name).moved == moved
        assert Counter(racked.read("b", dataset.digest_id)) == Counter(made)


def test_with_replicas_the_loss_of_a_node_costs_no_store_read_and_they_are_made_again(tmp_path: Path) -> None:
    with Racked(tmp_path, LABELS) as racked:
        dataset, made = racked.scan("a")
        racked.place(dataset.digest_id, replicas=2)
        wait_until(
            lambda: racked.settled(dataset.digest_id, ("a", "b", "c"), 2 * dataset.shards), "kept twice", MOVED_S
        )
        read = {name: racked.status(name).store_bytes for name in ("a", "c")}
        racked.nodes["b"].kill()
        assert Counter(racked.read("a", dataset.digest_id)) == Counter(made)  # before anybody has noticed
        wait_until(lambda: sum(racked.entries().values()) == 2 * dataset.shards, "kept twice again", MOVED_S)
        assert Counter(racked.read("c", dataset.digest_id)) == Counter(made)
        assert {name: racked.status(name).store_bytes for name in ("a", "c")} == read


def test_copies_give_their_room_back_when_the_placement_is_taken_away(tmp_path: Path) -> None:
    with Racked(tmp_path, LABELS) as racked:
        dataset, made = racked.scan("a")
        read, names = racked.store_bytes(), tuple(LABELS)
        racked.place(dataset.digest_id, replicas=2)
        wait_until(lambda: racked.settled(dataset.digest_id, names, 2 * dataset.shards), "kept twice", MOVED_S)
        assert racked.anywhere(dataset.digest_id).HasField("rule"), "it says what is still to be given up"
        wait_until(lambda: sum(racked.entries().values()) == dataset.shards, "kept once", MOVED_S)
        wait_until(lambda: not racked.placement(dataset.digest_id).HasField("rule"), "nothing is to be done", MOVED_S)
        assert Counter(racked.read("b", dataset.digest_id)) == Counter(made)
        assert racked.store_bytes() == read


def test_each_rack_is_a_cache_of_its_own(tmp_path: Path) -> None:
    labels = {"a": "rack=r1", "b": "rack=r1", "c": "rack=r2", "d": "rack=r2"}
    with Racked(tmp_path, labels) as racked:
        dataset, made = racked.scan("a")
        read = racked.store_bytes()
        racked.place(dataset.digest_id, rack_local=True)
        wait_until(lambda: racked.placement(dataset.digest_id).settled, "homes have it", MOVED_S)
        before = sum(racked.status(name).cross_rack_bytes for name in labels)
        for name in labels:
            assert Counter(racked.read(name, dataset.digest_id)) == Counter(made)
        crossed = sum(racked.status(name).cross_rack_bytes for name in labels) - before
        assert crossed <= 1.02 * dataset.size_bytes  # each shard once to the rack that is not its home
        for name in labels:
            racked.read(name, dataset.digest_id)
        assert sum(racked.status(name).cross_rack_bytes for name in labels) - before == crossed
        assert racked.store_bytes() == read
        assert sum(racked.entries().values()) == 2 * dataset.shards


def test_what_a_mount_reads_is_kept_in_its_rack(tmp_path: Path) -> None:
    """It was asked of its home for each read anew, also by the node of this rack that was to keep it."""
    with Racked(tmp_path, {"a": "rack=r1", "b": "rack=r1", "c": "rack=r2"}) as racked:
        dataset, _ = racked.scan("a")
        racked.place(dataset.digest_id, rack_local=True)
        wait_until(lambda: racked.placement(dataset.digest_id).settled, "homes have it", MOVED_S)
        digest = digest_of(racked.coordinator.address, "", dataset)
        assert 0 < racked.status("c").entries < dataset.shards
        for is_first in (True, False):
            before = racked.status("c").cross_rack_bytes
            with Connection(racked.nodes["c"].ready["socket"]) as mount:
                mount.hello(frames.ROLE_MOUNT)
                for shard in range(digest.num_shards):
                    mount.send(frames.Get(shard, digest.digest_id, shard, digest.hashes[shard].tobytes()))
                    got, fd = mount.receive()
                    assert isinstance(got, frames.Got)
                    os.close(fd)
            wait_until(lambda: racked.status("c").entries == dataset.shards, "it has all", MOVED_S)
            assert (racked.status("c").cross_rack_bytes > before) == is_first, "what is here is not asked for again"
            racked.nodes["c"].kill()  # else it would have it in memory
            racked.nodes["c"].restart()


@pytest.mark.long
def test_what_is_partly_kept_moves_before_its_smaller_part_is_enforced(tmp_path: Path) -> None:
    """On two nodes of three, three quarters kept: the third gets its part from them, and nothing goes by lot meanwhile.
    Where owners are drawn so that one has more than its share, what has no room there stays where it was."""
    with Racked(tmp_path, LABELS) as racked:
        dataset, _ = racked.scan("a")
        racked.place(dataset.digest_id, selector="rack=r1")
        wait_until(lambda: racked.settled(dataset.digest_id, ("a", "b"), dataset.shards), "moved", MOVED_S)
        kept_bytes = 3 * sum(racked.status(name).node.used_bytes for name in ("a", "b")) // 4
        rotating.set_cache(racked.coordinator.address, dataset, "uniform", allocation_bytes=kept_bytes)
        wait_until(lambda: sum(racked.entries().values()) < dataset.shards, "cut down", MOVED_S)
        racked.place(dataset.digest_id)
        wait_until(lambda: racked.status("c").entries > 0, "some have come", MOVED_S)
        wait_until(lambda: racked.placement(dataset.digest_id).settled, "settled", MOVED_S)
        used_bytes = sum(racked.status(name).node.used_bytes for name in LABELS)
        assert 0.8 * kept_bytes < used_bytes <= kept_bytes
