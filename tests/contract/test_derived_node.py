"""A node takes derived shards from trainers, and asks trainers for those that are missing; it believes hashes alone."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import StoreNode
from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.digests.file_entry import FileEntry
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.connections_between_nodes import data_frames
from tfquiver.service.node.derived_shards import computers as computers_module
from tfquiver.service.node.derived_shards.computers import MOST_COMPUTERS, Computers
from tfquiver.service.node.derived_shards.elsewhere import Elsewhere
from tfquiver.service.node.derived_shards.puts import MOST_BYTES, Puts
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher

BODY = b"derived" * 1000
HASH = hashlib.sha256(BODY).digest()
DIGEST = Digest.build(
    "d", [FileEntry("derived://x/f", len(BODY), "1", "none")], [list(HASH)], [0], [0], [len(BODY)], [3]
)


async def of(*messages: object) -> AsyncIterator[object]:
    for message in messages:
        yield message


@contextlib.asynccontextmanager
async def trainer(
    computers: Computers,
    answer: Callable[[pb.ComputeDerivedRequest], Sequence[pb.ComputedDerived]],
    leaves: bool = False,
) -> AsyncIterator[list[int]]:
    """One that answers so; what it was asked."""
    out: asyncio.Queue[pb.ComputedDerived | None] = asyncio.Queue()
    out.put_nowait(pb.ComputedDerived(digest_id=DIGEST.digest_id))
    asked: list[int] = []

    async def messages() -> AsyncIterator[pb.ComputedDerived]:
        while (message := await out.get()) is not None:
            yield message

    async def serve() -> None:
        async for request in computers.serve(messages()):
            asked.append(request.shard)
            for one in answer(request):
                out.put_nowait(one)
            if leaves:
                out.put_nowait(None)

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0.05)
    try:
        yield asked
    finally:
        out.put_nowait(None)
        await serving


def gives(body: bytes) -> Callable[[pb.ComputeDerivedRequest], Sequence[pb.ComputedDerived]]:
    return lambda asked: [
        pb.ComputedDerived(request=asked.request, part=body[:100]),
        pb.ComputedDerived(request=asked.request, part=body[100:], last=True),
    ]


def fails(code: int) -> Callable[[pb.ComputeDerivedRequest], Sequence[pb.ComputedDerived]]:
    return lambda asked: [pb.ComputedDerived(request=asked.request, last=True, error_code=code, error="because")]


@on_loop
async def test_what_a_trainer_makes_is_believed_by_its_hash_alone() -> None:
    computers, ref = Computers(), DIGEST.shard(0)
    with pytest.raises(errors.UnavailableError, match="there is none"):
        await computers.compute(DIGEST, ref)
    async with trainer(computers, gives(b"x" * len(BODY))) as liar:
        with pytest.raises(errors.StaleDigestError, match=r"derived://x/f.*version="):
            await computers.compute(DIGEST, ref)
        async with trainer(computers, gives(BODY)) as honest, trainer(computers, gives(BODY + b"more")):
            for _ in range(6):
                assert (await computers.compute(DIGEST, ref)).raw == BODY
            assert honest
        assert liar
    with pytest.raises(errors.UnavailableError, match="there is none"):
        await computers.compute(DIGEST, ref)


@pytest.mark.parametrize("code", [3, 14, 9999])
@on_loop
async def test_one_that_fails_is_not_the_last_to_be_asked(code: int) -> None:
    computers = Computers()
    async with trainer(computers, fails(code)):
        with pytest.raises(errors.UnavailableError, match="because"):
            await computers.compute(DIGEST, DIGEST.shard(0))
        async with trainer(computers, gives(BODY)):
            assert (await computers.compute(DIGEST, DIGEST.shard(0))).hash == HASH


@on_loop
async def test_one_that_leaves_in_the_middle_is_not_waited_for() -> None:
    computers = Computers()
    async with trainer(computers, lambda asked: [pb.ComputedDerived(request=asked.request, part=b"x")], leaves=True):
        with pytest.raises(errors.UnavailableError, match="gone"):
            await asyncio.wait_for(computers.compute(DIGEST, DIGEST.shard(0)), 10)


@on_loop
async def test_one_that_says_nothing_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped, or was killed and a forked child keeps its connection open; until it says something."""
    monkeypatch.setattr(computers_module, "COMPUTE_S", 0.2)
    computers, ref = Computers(), DIGEST.shard(0)
    async with trainer(computers, lambda asked: []) as silent:
        with pytest.raises(errors.UnavailableError, match=r"within 0\.2 s"):
            await computers.compute(DIGEST, ref)
        with pytest.raises(errors.UnavailableError, match="not answered") as caught:
            await computers.compute(DIGEST, ref)
        assert not isinstance(caught.value, errors.NobodyComputesError), "it may come to itself"
        async with trainer(computers, gives(BODY)) as other:
            for _ in range(3):
                assert (await computers.compute(DIGEST, ref)).raw == BODY
        assert (silent, other) == ([0], [0, 0, 0])


@on_loop
async def test_one_that_answers_after_all_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computers_module, "COMPUTE_S", 0.2)
    computers, ref = Computers(), DIGEST.shard(0)
    asked: list[pb.ComputeDerivedRequest] = []

    def second(request: pb.ComputeDerivedRequest) -> Sequence[pb.ComputedDerived]:
        asked.append(request)
        return gives(BODY)(request) if len(asked) > 1 else []

    out: asyncio.Queue[pb.ComputedDerived] = asyncio.Queue()
    out.put_nowait(pb.ComputedDerived(digest_id=DIGEST.digest_id))

    async def messages() -> AsyncIterator[pb.ComputedDerived]:
        while True:
            yield await out.get()

    async def serve() -> None:
        async for request in computers.serve(messages()):
            for one in second(request):
                out.put_nowait(one)

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0.05)
    with pytest.raises(errors.UnavailableError, match=r"within 0\.2 s"):
        await computers.compute(DIGEST, ref)
    out.put_nowait(pb.ComputedDerived(request=1, part=BODY, last=True))  # too late for who has asked
    await asyncio.sleep(0.05)
    assert (await computers.compute(DIGEST, ref)).raw == BODY
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("first", [[], [pb.ComputedDerived(digest_id=b"short")]])
@on_loop
async def test_a_trainer_says_what_it_can_compute(first: list[pb.ComputedDerived]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="digest_id"):
        await anext(Computers().serve(of(*first)))  # type: ignore[arg-type]


@on_loop
async def test_trainers_are_bounded() -> None:
    computers = Computers()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(trainer(computers, gives(BODY)))
        computers._known[b"others"] = [object()] * (MOST_COMPUTERS - 2)  # type: ignore[list-item]
        with pytest.raises(errors.ResourceExhaustedError):
            await anext(computers.serve(of(pb.ComputedDerived(digest_id=DIGEST.digest_id))))  # type: ignore[arg-type]


async def put(puts: Puts, *messages: pb.PutDerivedRequest) -> bool:
    return await asyncio.wait_for(puts.put(of(*messages)), 20)  # type: ignore[arg-type]


@on_loop
async def test_shards_that_are_given_are_what_has_the_hash() -> None:
    placed: list[VerifiedShard] = []

    def place(shard: VerifiedShard) -> bool:
        placed.append(shard)
        return True

    puts = Puts(place)
    first = pb.PutDerivedRequest(hash=HASH, length_bytes=len(BODY), part=BODY[:10])
    assert await put(puts, first, pb.PutDerivedRequest(part=BODY[10:]))
    assert [shard.raw for shard in placed] == [BODY]
    bad: list[tuple[list[pb.PutDerivedRequest], type[errors.TfquiverError]]] = [
        ([], errors.InvalidArgumentError),
        ([pb.PutDerivedRequest(hash=b"x", length_bytes=1)], errors.InvalidArgumentError),
        ([pb.PutDerivedRequest(hash=HASH, length_bytes=MOST_BYTES + 1)], errors.InvalidArgumentError),
        ([first, pb.PutDerivedRequest(part=BODY)], errors.InvalidArgumentError),
        ([first], errors.DataLossError),
        ([first, pb.PutDerivedRequest(part=b"x" * (len(BODY) - 10))], errors.DataLossError),
    ]
    for messages, kind in bad:
        with pytest.raises(kind):
            await put(puts, *messages)
    assert len(placed) == 1
    assert await put(puts, first, pb.PutDerivedRequest(part=BODY[10:])), "the room of what was refused has come back"


@on_loop
async def test_who_sends_for_ever_keeps_the_room_from_nobody() -> None:
    puts = Puts(lambda shard: True, all_s=0.3)

    async def dribbles() -> AsyncIterator[pb.PutDerivedRequest]:
        yield pb.PutDerivedRequest(hash=HASH, length_bytes=MOST_BYTES)
        while True:
            await asyncio.sleep(0.01)
            yield pb.PutDerivedRequest()

    first, second = asyncio.create_task(puts.put(dribbles())), asyncio.create_task(puts.put(dribbles()))
    for one in (first, second):  # the second waits for the room of the first
        with pytest.raises(errors.DeadlineError, match="the last one did not come"):
            await asyncio.wait_for(one, 10)


class Nodes:
    """Others that answer so, by name."""

    def __init__(self, **bodies: bytes | errors.TfquiverError) -> None:
        self.bodies, self.asked = bodies, []

    def others(self) -> list[str] | None:
        return list(self.bodies)

    async def get_of_its_own(self, node_id: str, digest: Digest, ref: ShardRef) -> ReadyShard:
        self.asked.append(node_id)
        answer = self.bodies[node_id]
        if isinstance(answer, errors.TfquiverError):
            raise answer
        return ReadyShard.from_bytes(answer, 0, "peer")


@on_loop
async def test_what_no_trainer_here_can_compute_one_at_another_node_does() -> None:
    nodes = Nodes(none=errors.UnavailableError("there is none"), damaged=b"x" * len(BODY), able=BODY)
    fetcher = Fetcher(
        Meter(), lambda shard: None, deadline_s=1, compute=Computers().compute, elsewhere=Elsewhere(nodes).compute
    )  # fmt: skip
    for asked in (["none", "damaged", "able"], ["able"]):
        shard = await fetcher.fetch(DIGEST, DIGEST.shard(0), keep=False)
        assert shard is not None
        assert shard.raw == BODY
        assert nodes.asked == asked, "who could the last time comes first"
        nodes.asked.clear()
    assert fetcher.computed == 0, "not here"
    nodes.bodies["able"] = errors.UnavailableError("its trainer has ended")
    with pytest.raises(errors.UnavailableError, match=r"there is none.*called tfquiver\.materialize is there"):
        await fetcher.fetch(DIGEST, DIGEST.shard(0), keep=False)
    assert sorted(nodes.asked) == ["able", "damaged", "none"]
    nodes.asked.clear()
    with pytest.raises(errors.NobodyComputesError, match="there is none") as here:
        await fetcher.fetch(DIGEST, DIGEST.shard(0), keep=False, ask_others=False)
    assert nodes.asked == []
    assert not here.value.everywhere
    await fetcher.close()


def test_that_nobody_is_there_is_told_to_peers() -> None:
    none, other = errors.NobodyComputesError("none"), errors.UnavailableError("nobody computes it, does it?")
    for error in (none, other):
        item = data_frames.no_item(1, 2, data_frames.NOT_HERE, error)
        cls, _ = data_frames.decode_header(data_frames.encode(item)[: data_frames.HEADER_BYTES])
        told = data_frames.decode_payload(cls, data_frames.encode(item)[data_frames.HEADER_BYTES :])
        assert isinstance(told, data_frames.Item)
        assert data_frames.trouble(told) is type(error)


@on_loop
async def test_that_nobody_can_is_known_only_where_all_have_said_so() -> None:
    none, away = errors.NobodyComputesError("none"), errors.UnavailableError("away")
    for others, known in (({}, True), ({"a": none, "b": none}, True), ({"a": none, "b": away}, False)):
        fetcher = Fetcher(
            Meter(), lambda shard: None, deadline_s=1, compute=Computers().compute,
            elsewhere=Elsewhere(Nodes(**others)).compute,
        )  # fmt: skip
        for _ in range(2):  # the second one is answered from memory
            with pytest.raises(errors.UnavailableError, match=r"has data set d from tfquiver\.materialize") as raised:
                await fetcher.fetch(DIGEST, DIGEST.shard(0), keep=False)
            assert (isinstance(raised.value, errors.NobodyComputesError) and raised.value.everywhere) == known
        await fetcher.close()


class NotYetKnown(Nodes):
    def others(self) -> None:
        return None


@on_loop
async def test_what_was_said_a_while_ago_or_by_nobody_yet_does_not_decide_that_nobody_can() -> None:
    none, away = errors.NobodyComputesError("none"), errors.UnavailableError("away")

    async def everywhere(elsewhere: Elsewhere) -> bool:
        fetcher = Fetcher(
            Meter(), lambda shard: None, deadline_s=1, compute=Computers().compute, elsewhere=elsewhere.compute
        )  # fmt: skip
        with pytest.raises(errors.UnavailableError) as raised:
            await fetcher.fetch(DIGEST, DIGEST.shard(0), keep=False)
        await fetcher.close()
        return isinstance(raised.value, errors.NobodyComputesError) and raised.value.everywhere

    asked = Elsewhere(nodes := Nodes(a=none), as_new_s=0)
    assert [await everywhere(asked) for _ in range(3)] == [True, False, False]
    assert nodes.asked == ["a"]
    with pytest.raises(errors.NobodyComputesError):  # but nothing else has been found since
        await asked.compute(DIGEST, DIGEST.shard(0))
    assert not await everywhere(Elsewhere(NotYetKnown()))
    assert not await everywhere(Elsewhere(Nodes(a=away)))


@on_loop
async def test_where_nobody_can_compute_few_are_asked_though_many_shards_are_missing() -> None:
    nodes = Nodes(**{f"n{number}": errors.UnavailableError("there is none") for number in range(10)})
    elsewhere = Elsewhere(nodes)

    async def wanted(times: int) -> list[object]:
        some = (elsewhere.compute(DIGEST, DIGEST.shard(0)) for _ in range(times))
        return await asyncio.gather(*some, return_exceptions=True)

    assert all(isinstance(one, errors.UnavailableError) for one in await wanted(50))
    assert len(nodes.asked) == 10, "each once"
    nodes.bodies["n7"] = BODY
    assert isinstance((await wanted(1))[0], errors.UnavailableError), "not yet"
    elsewhere = Elsewhere(nodes, again_s=0)
    nodes.asked.clear()
    assert {one.raw for one in await wanted(50) if isinstance(one, VerifiedShard)} == {BODY}
    assert (len(nodes.asked), nodes.asked.count("n7")) == (8 + 49, 50), "who was found is asked by all"
    nodes.bodies["n7"] = errors.UnavailableError("its trainer has ended")
    nodes.asked.clear()
    assert isinstance((await wanted(1))[0], errors.UnavailableError)
    nodes.bodies["n3"] = BODY
    assert isinstance((await wanted(1))[0], VerifiedShard), "at once: it may have been for that shard alone"


@on_loop
async def test_nodes_that_ask_one_another_for_the_same_shard_do_not_wait_in_a_circle(tmp_path: Path) -> None:
    """A reader's node asks the owner, and that asks back what the reader's node can compute itself."""
    members: list[types_pb2.NodeInfo] = []
    nodes = [StoreNode(tmp_path / name, [DIGEST], node_id=name, members=members) for name in ("a", "b")]
    async with nodes[0] as reader, nodes[1]:
        for node in nodes:
            node.fetcher._compute = Computers().compute
            node.fetcher._elsewhere = Elsewhere(node.peers).compute
        async with asyncio.timeout(20):
            with pytest.raises(errors.NobodyComputesError) as raised:
                await reader.source.get(DIGEST, 0, owner="b")
        assert raised.value.everywhere
