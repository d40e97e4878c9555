"""What `tfquiver status` asks a coordinator of data sets that it does not follow, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import parts
from tests.support.coordinator_served import served
from tests.support.digests import numbered_digest
from tfquiver.cli.calls import plain
from tfquiver.cli.status_asked_watched_explained import unfollowed as unfollowed_module
from tfquiver.cli.status_asked_watched_explained.unfollowed import Unfollowed
from tfquiver.digests.digest import Digest
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.resident_share import ResidentShare

SHARDS, SHARD_BYTES = 10, 100


class Asked(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """Which data sets a coordinator was asked to look at, call by call."""

    def __init__(self) -> None:
        self.calls = list[list[str]]()

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        self.calls.append([digest_id.hex() for digest_id in request.looked_at])
        return continuation(details, request)


class Place:
    """A coordinator that was started again: its nodes have told what they hold, and nobody has read anything."""

    def __init__(self, coordinator: Coordinator, address: str) -> None:
        self.coordinator, self._address, self.asked = coordinator, address, Asked()
        self._version = 0

    def hold(self, *digests: Digest) -> None:
        self._version += 1
        request = pb.HeartbeatRequest(incarnation="1", inventory=pb.Inventory(full=True, version=self._version))
        request.node.node_id, request.node.quota_bytes = "n", 1 << 40
        request.inventory.added.extend(hash.tobytes() for digest in digests for hash in digest.hashes)
        self.coordinator.heartbeats.take(request)

    async def listed(self) -> list[dict[str, Any]]:
        return [plain(one) for one in (await asyncio.to_thread(self._list)).datasets]

    async def known(self, unfollowed: Unfollowed, given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        with self._channel() as channel:
            return await asyncio.to_thread(unfollowed.known, channel, given, "", "coordinator")

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        with rpc.channel(self._address) as channel:
            yield grpc.intercept_channel(channel, self.asked)

    def _list(self) -> Any:
        with rpc.channel(self._address) as channel:
            return coordinator_pb2_grpc.CoordinatorStub(channel).ListDatasets(pb.ListDatasetsRequest(), timeout=20)


@asynccontextmanager
async def place(tmp_path: Path, digests: Sequence[Digest]) -> AsyncIterator[Place]:
    async with served(tmp_path) as (server, _client), asyncio.timeout(60):
        for digest in digests:
            await server.coordinator.catalogue.register(digest.name, b"", None, parts(digest))
        found = Place(server.coordinator, f"localhost:{server.bound_port}")
        found.hold(*digests)
        while not server.coordinator.caching.met:
            await asyncio.sleep(0.01)
        yield found


@on_loop
async def test_what_was_found_stands_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of them has a name."""
    first, second = (numbered_digest(SHARDS, name) for name in ("first", "second"))
    async with place(tmp_path, [first, second]) as there:
        given = await there.listed()
        assert not any("resident_bytes" in one for one in given)
        given[1]["resident_bytes"] = 7  # it is followed
        unfollowed = Unfollowed()
        for _ in range(5):
            looked_at, followed = await there.known(unfollowed, given)
            assert (looked_at["resident_bytes"], followed) == (SHARDS * SHARD_BYTES, given[1])
            there.hold()  # nothing any more
        assert there.asked.calls == [[given[0]["digest_id"]]]
        monkeypatch.setattr(unfollowed_module, "_STANDS_S", 0.0)
        assert (await there.known(unfollowed, given))[0]["resident_bytes"] == 0


@on_loop
async def test_what_is_remembered_of_the_last_reader_is_looked_at_too(tmp_path: Path) -> None:
    """Others had taken the room since: of 60 MB of disks 97 were told to be in use."""
    digest = numbered_digest(SHARDS, "read")
    async with place(tmp_path, [digest]) as there:
        all_of_it = ResidentShare(SHARDS * SHARD_BYTES, SHARDS * SHARD_BYTES, SHARDS, 0, 0)
        caching = there.coordinator.caching
        caching._last.remember(digest.digest_id, all_of_it, caching._clock.now() - 240.0)
        there.hold()  # nothing any more
        given = await there.listed()
        assert given[0]["resident_age_ms"] >= 240_000
        [known] = await there.known(Unfollowed(), given)
        assert (known["resident_bytes"], known["resident_age_ms"]) == (0, 0)


@on_loop
async def test_a_damaged_digest_hides_nothing_of_other_data_sets(tmp_path: Path) -> None:
    damaged, sound = (numbered_digest(SHARDS, name) for name in ("damaged", "sound"))
    async with place(tmp_path, [damaged, sound]) as there:
        (found,) = tmp_path.rglob(f"{damaged.digest_id.hex()}.tfqd")
        found.write_bytes(b"damaged")
        its = {one["name"]: one for one in await there.known(Unfollowed(), await there.listed())}
        assert "resident_bytes" not in its["damaged"]
        assert its["sound"]["resident_bytes"] == SHARDS * SHARD_BYTES


@on_loop
async def test_no_more_is_looked_at_than_costs_little(tmp_path: Path) -> None:
    async with place(tmp_path, [numbered_digest(SHARDS, str(number)) for number in range(40)]) as there:
        given = await there.listed()
        found = await there.known(Unfollowed(), given)
        assert sum("resident_bytes" in one for one in found) == sum(map(len, there.asked.calls)) == 32
        given[1]["shards"] = 1 << 20
        found = await there.known(Unfollowed(), given[:3])
        assert ["resident_bytes" in one for one in found] == [True, False, True], "it holds up no other"
        assert there.asked.calls[1:] == [[given[at]["digest_id"] for at in (0, 2)]]


@on_loop
async def test_of_many_each_has_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each look is that of another process, half a minute later."""
    async with place(tmp_path, [numbered_digest(SHARDS, str(number)) for number in range(40)]) as there:
        given = await there.listed()
        watching = Unfollowed()
        assert sum("resident_bytes" in one for one in await there.known(watching, given)) == 32
        monkeypatch.setattr(unfollowed_module, "_STANDS_S", 1e-9)
        found = await there.known(watching, given)
        assert all(one["resident_bytes"] == SHARDS * SHARD_BYTES for one in found), "what was found is shown still"
        monkeypatch.setattr(unfollowed_module, "_STANDS_S", 30.0)
        there.asked.calls.clear()
        for at in (3000.0, 3030.0):
            monkeypatch.setattr(unfollowed_module.time, "time", lambda at=at: at)
            await there.known(Unfollowed(), given)
        assert len({one for asked in there.asked.calls for one in asked}) == 40


def test_a_coordinator_that_does_not_say_keeps_status_from_nothing() -> None:
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)  # it has no such call
        address = f"localhost:{server.add_insecure_port('localhost:0')}"
        server.start()
        try:
            with rpc.channel(address) as channel:
                given = [{"name": "a", "digest_id": "00" * 32, "shards": 1}]
                assert Unfollowed().known(channel, given, "", "coordinator") == given
        finally:
            server.stop(None).wait()
