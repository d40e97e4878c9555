"""Weights that several send at once, of whom the first fails late, finds no room, or stalls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.test_weights_coming import MANY, Sender, many_weights, rank_put
from tests.contract.test_weights_kept import DIGEST, kept, parts_of, put, weights
from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient
from tests.support.coordinator_served import served
from tfquiver import errors
from tfquiver.messages_and_binary_formats.record_weights import HEADER_BYTES
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights import coming_weights


class Ahead:
    """The loop's clock, which can be put forward."""

    def __init__(self) -> None:
        loop, self.by_s = asyncio.get_running_loop(), 0.0
        time = loop.time
        loop.time = lambda: time() + self.by_s  # type: ignore[method-assign]


def senders_of(data: bytes, count: int) -> list[Sender]:
    """They send all without waiting to be told."""
    senders = [Sender(data) for _ in range(count)]
    for sender in senders:
        sender.go.set()
    return senders


@on_loop
async def test_who_waited_for_long_is_late_only_by_what_it_does_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coming_weights, "_SLOWEST_BYTES_PER_S", 1)
    clock, files, data = Ahead(), kept(tmp_path), weights().to_bytes()
    first, others = Sender(data), senders_of(data, 3)
    putting = [asyncio.create_task(files.put(sender.parts(), DIGEST)) for sender in (first, *others)]
    await first.stopped.wait()
    clock.by_s = 120.0  # the first one's bytes, of which it has 150, may take so long; 100 may not
    putting[0].cancel()
    assert {(await task).weights_id for task in putting[1:]} == {weights().weights_id}
    assert sorted(sender.taken_bytes for sender in others) == [100, 100, len(data)]


@on_loop
async def test_what_there_is_no_room_for_is_not_read(tmp_path: Path) -> None:
    data = weights().to_bytes()
    files, senders = kept(tmp_path, most_bytes=len(data) - 1), senders_of(data, 4)
    for refused in await asyncio.gather(*(files.put(one.parts(), DIGEST) for one in senders), return_exceptions=True):
        assert isinstance(refused, errors.ResourceExhaustedError), refused
    assert [sender.taken_bytes for sender in senders] == [100] * 4
    assert files._coming._coming_bytes == 0


@on_loop
async def test_who_waits_is_told_that_there_was_no_room_for_the_first(tmp_path: Path) -> None:
    data, in_use = weights().to_bytes(), set[bytes]()
    files = kept(tmp_path, most_bytes=len(data))
    files._in_use = lambda: in_use
    there = await files.put(parts_of(weights(1).to_bytes()), DIGEST)
    first, others = Sender(data), senders_of(data, 3)
    putting = [asyncio.create_task(files.put(sender.parts(), DIGEST)) for sender in (first, *others)]
    await first.stopped.wait()
    in_use.add(there.weights_id)  # after its first bytes were let in
    first.go.set()
    for task in putting:
        with pytest.raises(errors.ResourceExhaustedError, match="are in use by"):
            await task
    assert [sender.taken_bytes for sender in others] == [100] * 3
    in_use.clear()
    assert (await files.put(Sender(data, stop_at=-1).parts(), DIGEST)).weights_id == weights().weights_id


@on_loop
async def test_who_stalls_makes_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, files, mine = Ahead(), kept(tmp_path), weights(9).to_bytes()
    monkeypatch.setattr(coming_weights, "_COMING_BYTES", 300 + len(mine) - 1)
    stalled = [Sender(weights(seed).to_bytes()) for seed in (1, 2)]
    putting = [asyncio.create_task(files.put(sender.parts(), DIGEST)) for sender in stalled]
    for sender in stalled:
        await sender.stopped.wait()
    with pytest.raises(errors.UnavailableError, match="too many weights are being sent"):
        await files.put(parts_of(mine), DIGEST)  # they are not late yet
    clock.by_s = 20.0
    assert (await files.put(parts_of(mine), DIGEST)).weights_id == weights(9).weights_id
    with pytest.raises(errors.UnavailableError, match="slower than 1 MiB/s"):
        await putting[0]
    stalled[1].go.set()  # one was enough
    assert (await putting[1]).weights_id == weights(2).weights_id
    assert files._coming._coming_bytes == 0


@on_loop
async def test_who_stalls_is_told_over_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, never = many_weights().to_bytes(), asyncio.Barrier(2)
    monkeypatch.setattr(coming_weights, "_COMING_BYTES", len(data) + HEADER_BYTES - 1)
    monkeypatch.setattr(coming_weights, "_PATIENCE_S", 0.0)
    async with served(tmp_path / "work") as (server, client):
        await client.upload([MANY.to_bytes()])
        await client.upload([DIGEST.to_bytes()])
        stalled = asyncio.create_task(put_in_parts(client, weights().to_bytes(), never))
        while not server.coordinator.weights._coming._uploads:
            await asyncio.sleep(0)
        assert await rank_put(client, data, asyncio.Barrier(1)) == many_weights().weights_id
        with pytest.raises(errors.UnavailableError, match="slower than 1 MiB/s"):
            await asyncio.wait_for(stalled, 30)
        assert server.coordinator.weights._coming._coming_bytes == 0
        assert await put(client, weights().to_bytes()) == weights().weights_id


async def put_in_parts(client: CoordinatorClient, data: bytes, then: asyncio.Barrier) -> None:
    async def requests() -> AsyncIterator[pb.PutWeightsRequest]:
        yield pb.PutWeightsRequest(digest_id=DIGEST.digest_id, part=data[:HEADER_BYTES])
        await then.wait()

    await client.call("PutWeights", requests())
