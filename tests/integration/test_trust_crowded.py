"""Teams of one coordinator, one of which shares, sends or registers more than its part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.store_node import build, write_files
from tfquiver.digests.digest import Digest
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.roles_and_tokens.identity import Role
from tfquiver.roles_and_tokens.tokens import TokenFile, new_token
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.coordinator.grpc_calls import uploads
from tfquiver.service.coordinator.grpc_calls.about_datasets import dataset_calls
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.registering_sharing_removing_datasets import visible
from tfquiver.service.coordinator.server import CoordinatorServer

POLICY = CutPolicy(1024, 2048, 4096)


@pytest.fixture
def digest(tmp_path: Path, request: pytest.FixtureRequest) -> Digest:
    """Of files of this test alone."""
    return build(write_files(tmp_path / "data", files=1, records_each=40), POLICY, request.node.name)


class Apart:
    """A coordinator in this process, and three jobs."""

    def __init__(self, root: Path) -> None:
        self.root, self._address, self.tokens = root, f"unix:{root}/socket", dict[str, str]()

    async def __aenter__(self) -> Apart:
        lines = []
        for name in ("blue", "green", "red"):
            self.tokens[name], line = new_token(Role.JOB, name)
            lines.append(line)
        (self.root / "tokens").write_text("\n".join(lines))
        self._server = CoordinatorServer()
        await self._server.start(
            self.root / "work",
            self._address,
            TokenFile(self.root / "tokens"),
            CoordinatorOptions(max_digest_bytes=6000),
        )
        self._channel = rpc.aio_channel(self._address)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()
        await self._server.stop()

    @property
    def coming_bytes(self) -> int:
        return self._server.coordinator.registry.coming.size_bytes

    def call(self, who: str, method: str, request: Any) -> Any:
        stub = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        return getattr(stub, method)(request, metadata=rpc.metadata(self.tokens[who]), timeout=20.0)

    def register(self, who: str, digest: Digest) -> Any:
        return self.call(who, "RegisterDataset", iter([pb.RegisterDatasetRequest(part=digest.to_bytes())]))


@on_loop
async def test_who_shares_much_does_not_hide_what_others_have(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visible, "LIST_BYTES", 1000)
    async with Apart(tmp_path) as apart:
        await apart.register("blue", digest)
        for number in range(5):
            other = await apart.register("green", build(write_files(tmp_path / f"{number}", 1, 60 + number), POLICY))
            share = pb.ShareDatasetRequest(digest_id=other.digest_id, names=map(str, range(1000)), everybody=True)
            await apart.call("green", "ShareDataset", share)
        listed = (await apart.call("blue", "ListDatasets", pb.ListDatasetsRequest())).datasets
        assert listed[0].digest_id == digest.digest_id and list(listed[0].owners) == ["blue"]
        assert len(listed) > 3, "all of them but for those with whom they are shared"


@on_loop
async def test_who_stops_sending_holds_no_room(tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "UPLOAD_PART_S", 0.3)
    assert len(digest.to_bytes()) < 6000

    async def never_ends() -> AsyncIterator[pb.RegisterDatasetRequest]:
        yield pb.RegisterDatasetRequest(part=bytes(5990))
        await asyncio.Event().wait()

    async with Apart(tmp_path) as apart:
        held = [apart.call(who, "RegisterDataset", never_ends()) for who in ("green", "blue")]
        for call in held:
            with pytest.raises(grpc.RpcError, match="did not come in time"):
                await call
        await apart.register("blue", digest)


@on_loop
async def test_what_there_is_no_room_for_is_refused_before_it_is_sent(tmp_path: Path, digest: Digest) -> None:
    """Of many large ones at once each was read in part, refused, and sent anew."""
    sent = list[int]()

    async def announced(size_bytes: int, goes_on: asyncio.Event) -> AsyncIterator[pb.RegisterDatasetRequest]:
        yield pb.RegisterDatasetRequest(size_bytes=size_bytes)
        await goes_on.wait()
        sent.append(size_bytes)
        yield pb.RegisterDatasetRequest(part=digest.to_bytes())

    def register(apart: Apart, size_bytes: int, goes_on: asyncio.Event, who: str = "green") -> Any:
        return apart.call(who, "RegisterDataset", announced(size_bytes, goes_on))

    go_on, never = asyncio.Event(), asyncio.Event()
    async with Apart(tmp_path) as apart:
        first = [register(apart, 5000, go_on, who) for who in ("green", "blue")]
        while apart.coming_bytes < 10_000:
            await asyncio.sleep(0.005)
        with pytest.raises(grpc.RpcError, match="too many large digests are being registered: try again later"):
            await register(apart, 5000, never, "red")
        with pytest.raises(grpc.RpcError, match=r"a digest larger than 6\.0 kB"):
            await register(apart, 6001, never)
        go_on.set()
        assert {(await call).digest_id for call in first} == {digest.digest_id}
        assert sent == [5000] * 2
        await apart.register("blue", digest)  # the room is there again


@on_loop
async def test_who_announces_the_largest_and_sends_nothing_keeps_nobody_from_registering(
    tmp_path: Path, digest: Digest
) -> None:
    """Two such calls did, for half an hour."""

    async def empty_parts() -> AsyncIterator[pb.RegisterDatasetRequest]:
        yield pb.RegisterDatasetRequest(size_bytes=6000)
        await asyncio.Event().wait()

    async with Apart(tmp_path) as apart:
        held = apart.call("green", "RegisterDataset", empty_parts())
        while apart.coming_bytes < 6000:
            await asyncio.sleep(0.005)
        with pytest.raises(grpc.RpcError, match=r"6\.0 kB of other digests are coming from the same sender"):
            await apart.call("green", "RegisterDataset", empty_parts())
        await apart.register("blue", digest)
        held.cancel()


@on_loop
async def test_who_sends_more_than_was_announced_is_refused(tmp_path: Path, digest: Digest) -> None:
    """Others had been let in by what it said: announced as one byte it took the room of the whole."""
    data = digest.to_bytes()
    async with Apart(tmp_path) as apart:
        for size_bytes in (1, len(data) - 1):
            requests = [pb.RegisterDatasetRequest(size_bytes=size_bytes), pb.RegisterDatasetRequest(part=data)]
            with pytest.raises(grpc.RpcError, match=f"more than the {size_bytes} bytes that size_bytes says"):
                await apart.call("green", "RegisterDataset", iter(requests))
        assert not apart.coming_bytes
        exactly = [pb.RegisterDatasetRequest(size_bytes=len(data), part=data)]
        assert (await apart.call("green", "RegisterDataset", iter(exactly))).digest_id == digest.digest_id


@on_loop
async def test_no_job_fills_the_registry_alone(tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_calls, "MAX_OWNED", 1)
    other = build(write_files(tmp_path / "other", files=1, records_each=60), POLICY)
    async with Apart(tmp_path) as apart:
        await apart.register("blue", digest)
        with pytest.raises(grpc.RpcError, match="tfquiver dataset delete"):
            await apart.register("blue", other)
        await apart.register("green", other)
