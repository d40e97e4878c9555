"""`tfquiver dataset place | suggest | show` and `status`, as a person types them; scores over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from tests.support.cluster import wait_until
from tests.support.command_tool import Tool, as_json
from tests.support.racked import Racked
from tests.support.reader_client import ReaderClient
from tfquiver.cli.dataset_commands import placing
from tfquiver.cli.main import main
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2

LABELS = {"a": "rack=r1,host=one", "b": "rack=r1,host=two", "c": "rack=r2,host=three"}


@pytest.fixture(scope="module")
def racked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Racked, types_pb2.Dataset]]:
    with Racked(tmp_path_factory.mktemp("racked"), LABELS) as racked:
        dataset, _ = racked.scan("a", count=1500)
        yield racked, dataset


@pytest.fixture
def tool(racked: tuple[Racked, types_pb2.Dataset], capsys: pytest.CaptureFixture[str]) -> Tool:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--service", racked[0].coordinator.address])
        return code, *capsys.readouterr()

    return call


def test_a_person_places_a_data_set_and_sees_where_it_is(tool: Tool, racked: tuple[Racked, types_pb2.Dataset]) -> None:
    world, dataset = racked
    assert "any node" in tool("dataset", "place", "test")[1]
    told = as_json(tool, "dataset", "place", "test", "--nodes", "rack=r2", "--stripe", "1")
    assert told["rule"]["selector"] == "rack=r2"
    assert told["places"]["groups"][0]["node_ids"] == world.ids("c")
    wait_until(lambda: world.settled(dataset.digest_id, ("c",), dataset.shards), "moved", 60.0)
    assert as_json(tool, "dataset", "place", "test")["settled"] is True
    code, out, _ = tool("dataset", "show", "test")
    assert code == 0
    assert f"kept on:    {words.short(world.ids('c')[0])} (rack=r2, at most 1)" in out
    assert "moving:" not in out
    nodes = {node["labels"]["host"]: node for node in as_json(tool, "status")["nodes"]}
    assert nodes["three"]["labels"] == {"rack": "r2", "host": "three"}
    out = tool("status")[1]
    assert "host=three,rack=r2" in out
    (listed,) = as_json(tool, "dataset", "list")["datasets"]
    assert listed["placement"]["selector"] == "rack=r2"
    assert listed["moving_shards"] == 0
    assert as_json(tool, "dataset", "place", "test", "--anywhere")["rule"] is None
    assert "placement" not in as_json(tool, "dataset", "show", "test")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--nodes", "rack=r9"), "--nodes: no node matches 'rack=r9'"),
        (("--nodes", "rack>1"), "--nodes: 'rack>1' is not key=value"),
        (("--replicas", "4"), "--replicas: 4 are more than the 3 nodes"),
        (("--anywhere", "--stripe", "2"), "--anywhere takes the placement away"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(tool: Tool, arguments: tuple[str, ...], said: str) -> None:
    code, _, err = tool("dataset", "place", "test", *arguments)
    assert code == 1
    assert said in err


def test_what_is_not_named_stays_as_it_is(tool: Tool) -> None:
    def rule(*arguments: str) -> tuple[str, int, int, bool]:
        said = as_json(tool, "dataset", "place", "test", *arguments)["rule"]
        return said["selector"], said["stripe"], said["replicas"], said["rack_local"]

    try:
        assert rule("--nodes", "rack=r1", "--replicas", "2") == ("rack=r1", 0, 2, False)
        assert rule("--nodes", "rack==r1") == ("rack==r1", 0, 2, False)
        assert tool("dataset", "place", "test", "--replicas", "5")[0] == 1
        assert rule() == ("rack==r1", 0, 2, False), "what is refused changes nothing"
        assert rule("--stripe", "2") == ("rack==r1", 2, 2, False)
        assert rule("--nodes", "") == ("", 2, 2, False)
        assert rule("--replicas", "1", "--rack-local") == ("", 2, 1, True)
        assert rule("--stripe", "0", "--no-rack-local") == ("", 0, 1, False)
    finally:
        tool("dataset", "place", "test", "--anywhere")


def test_of_two_at_once_neither_undoes_what_the_other_has_named(
    tool: Tool, racked: tuple[Racked, types_pb2.Dataset]
) -> None:
    world, dataset = racked
    answered = []

    def ask(method: Callable[..., Any], request: Any, timeout_s: float = 20.0) -> Any:
        try:
            reply = method(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise rpc.from_rpc_error(error, "the coordinator") from error
        if not answered:  # between looking and setting
            world.place(dataset.digest_id, selector="rack=r1")
        answered.append(type(request))
        return reply

    try:
        with rpc.channel(world.coordinator.address) as channel:
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            rule = placing.change(ask, stub, dataset.digest_id, {"replicas": 2}).rule
        assert (rule.selector, rule.replicas) == ("rack=r1", 2)
    finally:
        tool("dataset", "place", "test", "--anywhere")


def test_jobs_are_sent_to_their_data(tool: Tool, racked: tuple[Racked, types_pb2.Dataset]) -> None:
    world, dataset = racked
    world.place(dataset.digest_id, selector="host=three")
    wait_until(lambda: world.settled(dataset.digest_id, ("c",), dataset.shards), "moved", 60.0)
    told = as_json(tool, "dataset", "suggest", "test", "--candidates", "two,three,elsewhere")
    assert [one["name"] for one in told["scores"]] == ["three", "two", "elsewhere"]
    assert told["scores"][0]["node_bytes"] == told["size_bytes"] == dataset.size_bytes
    assert told["scores"][0]["node_id"] == world.ids("c")[0]
    assert told["scores"][1]["elsewhere_bytes"] == dataset.size_bytes
    code, out, _ = tool("dataset", "suggest", "test")
    assert code == 0
    assert "1.00" in out
    request = pb.SuggestPlacementRequest(digest_id=dataset.digest_id)
    request.candidates.add(name="a machine", labels={"rack": "r2"})
    request.candidates.add(name="another", labels={"rack": "r1"})
    first, second = world.call("SuggestPlacement", request).scores
    assert (first.name, first.rack_bytes, second.elsewhere_bytes) == (
        "a machine", dataset.size_bytes, dataset.size_bytes,
    )  # fmt: skip
    reader = ReaderClient(world.nodes["a"].ready["socket"], dataset.digest_id, credit_bytes=200_000)
    records = reader.records()
    next(records)
    assert as_json(tool, "explain", "test")["placement"]["nodes"] == world.ids("c")
    assert "kept on 1 node, those of host=three" in tool("explain", "test")[1]
    assert len(list(records)) == 1499
    reader.close()
    for bad, code in (
        (pb.SuggestPlacementRequest(), grpc.StatusCode.INVALID_ARGUMENT),
        (pb.SuggestPlacementRequest(job="nobody's"), grpc.StatusCode.NOT_FOUND),
        (pb.SuggestPlacementRequest(digest_id=bytes(32)), grpc.StatusCode.NOT_FOUND),
        (pb.SuggestPlacementRequest(digest_id=dataset.digest_id, candidates=[pb.Candidate()]), None),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            world.call("SuggestPlacement", bad)
        assert caught.value.code() is (code or grpc.StatusCode.INVALID_ARGUMENT)


def test_who_holds_what_is_told_of_the_placement_of_now_only(racked: tuple[Racked, types_pb2.Dataset]) -> None:
    world, _ = racked
    version = world.call("Orders", pb.OrdersRequest()).places_version
    reply = world.call("Holders", pb.HoldersRequest(prefixes=[1, 2], node_ids=["x", "y"], places_version=version))
    assert (list(reply.held), reply.places_version) == ([b"\0", b"\0"], version)
    stale = world.call("Holders", pb.HoldersRequest(prefixes=[1], node_ids=["x"], places_version=version + 9))
    assert (list(stale.held), stale.places_version) == ([], version)
    with pytest.raises(grpc.RpcError, match="prefixes: "):
        world.call("Holders", pb.HoldersRequest(prefixes=[0] * 3000, node_ids=["x"] * 3000))


def test_what_is_cached_by_chunks_has_neither_racks_nor_replicas(tool: Tool) -> None:
    try:
        for first, second in (
            (("set-cache", "test", "cooperative"), ("place", "test", "--replicas", "2")),
            (("place", "test", "--rack-local"), ("set-cache", "test", "cooperative")),
        ):
            assert tool("dataset", *first)[0] == 0
            code, _, said = tool("dataset", *second)
            assert code == 1
            assert "cooperative) has one copy of each" in said
            assert tool("dataset", "set-cache", "test", "auto")[0] == 0
    finally:
        tool("dataset", "set-cache", "test", "auto")
        tool("dataset", "place", "test", "--anywhere")
