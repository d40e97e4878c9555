"""What a node knows of ten thousand names: all once, then what is other, of whichever coordinator, since whenever."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.changes import NamedChanges
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.overview import Overview
from tfquiver.service.node.coordinator_orders.named_list import NamedList, called

MOST = 12


class Coordinator:
    """`tells` may be lost, or taken late."""

    def __init__(self, first_version: int, names: int = 0) -> None:
        self.table, self.steps = NamedTable(lambda record: None), 0
        self.overview = Overview(self.table, first_version)
        self.overview.changes = NamedChanges(first_version, MOST)
        for number in range(names):
            self.scanned(f"n{number}")
        self.overview.update()

    def scanned(self, name: str) -> None:
        self.steps += 1
        spec = pb.DatasetSpec(name=name, sources=["/x"], credentials="env:X")
        life = self.table.get(name) or lifecycle.made(spec, f"life of {name} {self.steps}", "", False, 1)
        again = lifecycle.refresh(life) if life.phase != lifecycle.SCANNING else life
        self.table.put(lifecycle.scanned(again, f"{name} {self.steps}".encode().ljust(32), "n"))

    def step(self, rng: random.Random) -> None:
        for _ in range(rng.choice((1, 1, 2, 5))):
            self.steps += 1
            name = f"n{rng.randrange(30)}"
            life = self.table.get(name)
            match rng.randrange(4):
                case 0 if life is not None:
                    self.table.gone(name)
                case 1 if life is not None and life.phase == lifecycle.READY:
                    self.table.put(lifecycle.prefetch(life))
                case 2 if life is None:  # nobody has scanned it yet
                    spec = pb.DatasetSpec(name=name, sources=["/x"])
                    self.table.put(lifecycle.made(spec, f"life of {name} {self.steps}", "", False, 1))
                case _:
                    self.scanned(name)
        self.overview.update()

    def tells(self, version: int) -> coordinator_pb2.OrdersReply:
        reply = coordinator_pb2.OrdersReply()
        self.overview.tell(reply, version if version in self.overview.changes else 0)
        return coordinator_pb2.OrdersReply.FromString(reply.SerializeToString())


def said(named: Sequence[pb.NamedDigest]) -> list[bytes]:
    return [one.SerializeToString(deterministic=True) for one in named]


@pytest.mark.parametrize("seed", range(5))
def test_whenever_a_node_has_asked_last_and_whom_it_knows_what_the_coordinator_tells_all_of(seed: int) -> None:
    """A standby's history is another, from the same beginning; replies are lost; some nodes are too far behind."""
    rng = random.Random(seed)
    coordinators = Coordinator(1000, names=20), Coordinator(10**9, names=20)
    nodes, parts, alls = [NamedList() for _ in range(6)], 0, 0
    for _ in range(600):
        rng.choice(coordinators).step(rng)
        asked, node = coordinators[rng.random() < 0.1], rng.choice(nodes[: 1 + rng.randrange(6)])
        reply = asked.tells(node.version)
        if rng.random() < 0.2:  # it was on its way when somebody died
            continue
        assert said(node.take(reply)) == said(asked.overview.named)
        assert node.version == asked.overview.changes.version
        parts, alls = parts + bool(reply.named_since), alls + (not reply.named_since)
    assert min(parts, alls) > 20


def test_what_changes_costs_what_has_changed_and_what_is_remembered_of_it_is_bounded() -> None:
    coordinator, node = Coordinator(5, names=1000), NamedList()
    node.take(coordinator.tells(0))
    coordinator.scanned("n7")
    coordinator.table.gone("n8")
    coordinator.overview.update()
    reply = coordinator.tells(node.version)
    assert [one.name for one in reply.named] == ["n7", "n7"] and list(reply.named_gone) == ["n8"]
    kept = node.take(reply)
    assert node.take(coordinator.tells(node.version)) is kept, "nobody has to look through all of them"
    for number in range(MOST + 1):
        coordinator.scanned(f"n{number}")
        coordinator.overview.update()
    assert len(coordinator.overview.changes._changed) == MOST
    assert not coordinator.tells(node.version).named_since


def test_a_coordinator_that_does_not_know_of_versions_tells_all_each_time() -> None:
    newer, node = Coordinator(5, names=3), NamedList()
    node.take(newer.tells(0))
    older = coordinator_pb2.OrdersReply(named=[pb.NamedDigest(digest_id=b"d" * 32, name="other")])
    assert [one.name for one in node.take(older)] == ["other"]
    assert node.version == 0
    assert said(node.take(newer.tells(node.version))) == said(newer.overview.named)


def test_what_is_told_since_another_state_than_the_nodes_is_refused_and_all_is_asked_for() -> None:
    coordinator, node = Coordinator(5, names=3), NamedList()
    before = list(node.take(coordinator.tells(0)))
    coordinator.scanned("n1")
    coordinator.overview.update()
    reply = coordinator.tells(node.version)
    reply.named_since += 1
    with pytest.raises(errors.ProtocolError, match="named_since"):
        node.take(reply)
    assert node.version == 0
    assert said(node.take(coordinator.tells(node.version))) == said(coordinator.overview.named) != said(before)


def test_what_a_node_keeps_is_no_part_of_the_message_it_came_in() -> None:
    """That would stay in memory with the orders of all data sets, for as long as one name of it is there."""
    reply, node = Coordinator(5, names=1).tells(0), NamedList()
    [one] = node.take(reply)
    reply.named[0].name = "other"
    assert one.name == "n0"


@pytest.mark.parametrize(
    ("names", "first_use", "said"),
    [
        (["train"], "first", "data set train"),
        ([], "first", "data set first"),
        ([], "", "a data set that has no name"),
        (["train", "secret"], "first", "content of 2 data sets"),
    ],
)
def test_content_is_called_by_the_name_that_people_gave_it(names: list[str], first_use: str, said: str) -> None:
    """It was by what its first scan had called it, which was another data set's name, or by its number."""
    assert called(names, first_use) == said
