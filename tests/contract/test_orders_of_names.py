"""Orders about names, as nodes ask for them: each is told what it lacks, many that lack the same are told one thing."""

from __future__ import annotations

from pathlib import Path

from tests.support.aio import on_loop
from tests.support.coordinator_here import started
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.node.coordinator_orders.named_list import NamedList

NAMES = 2000


def name(coordinator: Coordinator, number: int, version: int = 0) -> None:
    spec = pb.DatasetSpec(name=f"dataset-{number:05}", sources=["/x"])
    made = lifecycle.made(spec, f"{number:032}", "", False, 1)
    coordinator.named_table.put(lifecycle.scanned(made, f"{number}-{version}".encode().ljust(32), "n"))
    coordinator.named.to_nodes.look()


@on_loop
async def test_each_node_is_told_what_it_lacks(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        orders = coordinator.node_orders
        for number in range(NAMES):
            name(coordinator, number)
        first, node = await orders.newer(0, 0.0), NamedList()
        assert len(node.take(first)) == NAMES and not first.named_since
        name(coordinator, 7, version=1)
        told = await orders.newer(first.version, 0.0, node.version)
        assert told is await orders.newer(first.version, 0.0, node.version), "made once for all that lack it"
        assert [one.name for one in told.named] == ["dataset-00007"]
        assert told.ByteSize() < first.ByteSize() / 100
        older = await orders.newer(first.version, 0.0)  # a node that does not know of these versions
        assert len(older.named) == NAMES and not older.named_since
        assert sorted(map(str, older.named)) == sorted(map(str, node.take(told)))
        coordinator.caching.settings_set += 1  # something else is ordered
        again = await orders.newer(told.version, 0.0, node.version)
        assert again.version != told.version and not again.named
        name(coordinator, 8, version=1)
        late = await orders.newer(0, 0.0, first.named_version)
        assert [one.name for one in late.named] == ["dataset-00007", "dataset-00008"]


@on_loop
async def test_the_tasks_that_come_with_what_is_told_of_names_are_those_of_the_same_moment(tmp_path: Path) -> None:
    """A node that lacks something else is told later than the others, of the same orders."""
    async with started(tmp_path) as coordinator:
        orders = coordinator.node_orders
        name(coordinator, 1)
        first = await orders.newer(0, 0.0)
        name(coordinator, 2)
        await orders.newer(first.version, 0.0, first.named_version)
        life = coordinator.named_table.get("dataset-00002")
        assert life is not None
        coordinator.named_table.put(lifecycle.evict(life))
        coordinator.named.to_nodes.look()
        told = orders._for(first.named_version)
        assert [task.evict.digest_ids[0] for task in told.tasks] == [life.digest_id]


@on_loop
async def test_a_coordinator_that_was_restarted_tells_everything(tmp_path: Path) -> None:
    """Its history may be another: what was not durable is not, and other things have happened since."""
    async with started(tmp_path) as coordinator:
        name(coordinator, 1)
        before = await coordinator.node_orders.newer(0, 0.0)
    async with started(tmp_path) as coordinator:
        coordinator.named.to_nodes.look()
        after = await coordinator.node_orders.newer(before.version, 0.0, before.named_version)
        assert not after.named_since and [one.name for one in after.named] == ["dataset-00001"]


@on_loop
async def test_replies_for_nodes_of_many_states_are_bounded(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        orders, states = coordinator.node_orders, list[int]()
        for number in range(40):
            name(coordinator, number)
            states.append((await orders.newer(0, 0.0)).named_version)
        for number, state in enumerate(states):
            assert len((await orders.newer(0, 0.0, state)).named) == len(states) - 1 - number
        assert len(orders._replies) <= 16
