"""Weights that are being sent: the same by many at once, too many at once, by who is slow, lies or leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contract.test_weights_kept import DIGEST, kept, parts_of, weights
from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient
from tests.support.coordinator_served import served
from tests.support.digests import numbered_digest
from tfquiver import durable, errors
from tfquiver.messages_and_binary_formats.record_weights import (
    HEADER_BYTES,
    RecordWeights,
    checked_values,
    record_weights,
)
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights import coming_weights
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.coming_weights import ComingWeights


class Sender:
    """Sends `data` up to `stop_at`, and on when it is told to; counts what was taken of it."""

    def __init__(self, data: bytes, stop_at: int = 150) -> None:
        self._data, self._stop_at, self.taken_bytes, self.go = data, stop_at, 0, asyncio.Event()
        self.stopped = asyncio.Event()

    async def parts(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._data), 50):
            if at == self._stop_at:
                self.stopped.set()
                await self.go.wait()
            self.taken_bytes += len(self._data[at : at + 50])
            yield self._data[at : at + 50]


@on_loop
async def test_the_same_by_many_at_once_is_read_once(tmp_path: Path) -> None:
    files, data = kept(tmp_path), weights().to_bytes()
    senders = [Sender(data) for _ in range(8)]
    putting = [asyncio.create_task(files.put(sender.parts(), DIGEST)) for sender in senders]
    await senders[0].stopped.wait()
    for sender in senders:
        sender.go.set()
    assert {(await task).weights_id for task in putting} == {weights().weights_id}
    assert [sender.taken_bytes for sender in senders] == [len(data), *[100] * 7]  # 96 say what it is
    late = Sender(data)
    assert (await files.put(late.parts(), DIGEST)).weights_id == weights().weights_id
    assert late.taken_bytes == 100
    assert files._coming._coming_bytes == 0


@on_loop
async def test_who_comes_while_another_one_looks_whether_they_are_here_waits_for_it(tmp_path: Path) -> None:
    """However long that takes each."""
    files, data, looking = kept(tmp_path), weights().to_bytes(), list[asyncio.Event]()
    find = files._coming._find

    async def slowly(weights_id: bytes) -> RecordWeights | None:
        found = await find(weights_id)
        if found is None:
            looking.append(asyncio.Event())
            await looking[-1].wait()
        return found

    files._coming._find = slowly
    senders = [Sender(data) for _ in range(3)]
    for sender in senders:
        sender.go.set()
    putting = [asyncio.create_task(files.put(sender.parts(), DIGEST)) for sender in senders]
    while not looking:
        await asyncio.sleep(0)
    looking[0].set()
    await putting[0]
    for event in looking:
        event.set()
    assert {(await task).weights_id for task in putting} == {weights().weights_id}
    assert [sender.taken_bytes for sender in senders] == [len(data), 100, 100]


@on_loop
async def test_when_the_first_lies_or_leaves_another_one_is_read(tmp_path: Path) -> None:
    files, data = kept(tmp_path), weights().to_bytes()
    liar, leaver, honest = Sender(data[:-1] + b"\x01"), Sender(data), Sender(data)
    putting = [asyncio.create_task(files.put(sender.parts(), DIGEST)) for sender in (liar, leaver, honest)]
    await liar.stopped.wait()
    liar.go.set()
    with pytest.raises(errors.InvalidArgumentError, match="do not have their hash"):
        await putting[0]
    await leaver.stopped.wait()
    putting[1].cancel()
    honest.go.set()
    assert (await putting[2]).weights_id == weights().weights_id
    assert (leaver.taken_bytes, honest.taken_bytes) == (150, len(data))
    assert files._coming._coming_bytes == 0


@on_loop
async def test_who_is_slower_than_a_mebibyte_a_second_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, data = kept(tmp_path), weights().to_bytes()
    slow, other = Sender(data), Sender(data)
    other.go.set()
    first = asyncio.create_task(files.put(slow.parts(), DIGEST))
    await slow.stopped.wait()
    monkeypatch.setattr(coming_weights, "_PATIENCE_S", 0.0)  # 150 bytes more than it has
    assert (await files.put(other.parts(), DIGEST)).weights_id == weights().weights_id
    assert other.taken_bytes == len(data)
    slow.go.set()
    assert (await first).weights_id == weights().weights_id


@on_loop
async def test_all_that_come_at_once_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coming_weights, "_COMING_BYTES", 200)
    files, one = kept(tmp_path), Sender(weights(1).to_bytes())
    putting = asyncio.create_task(files.put(one.parts(), DIGEST))
    await one.stopped.wait()
    with pytest.raises(errors.UnavailableError, match="too many weights are being sent"):
        await files.put(parts_of(weights(2).to_bytes()), DIGEST)
    one.go.set()
    await putting
    await files.put(parts_of(weights(2).to_bytes()), DIGEST)  # what was counted is counted no more


@on_loop
async def test_bytes_count_until_they_are_written_also_when_the_sender_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, writing, go = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    write = durable.write

    def slowly(path: Path, pieces: list[memoryview]) -> None:
        loop.call_soon_threadsafe(writing.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(60)
        write(path, pieces)

    monkeypatch.setattr(durable, "write", slowly)
    monkeypatch.setattr(coming_weights, "_COMING_BYTES", 300)
    files = kept(tmp_path)
    putting = asyncio.create_task(files.put(parts_of(weights(1).to_bytes()), DIGEST))
    await writing.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    with pytest.raises(errors.UnavailableError, match="too many weights are being sent"):
        await files.put(parts_of(weights(2).to_bytes()), DIGEST)
    go.set()
    await files.put(parts_of(weights(1).to_bytes()), DIGEST)  # joins, and is told that it is there
    await files.put(parts_of(weights(2).to_bytes()), DIGEST)
    assert files._coming._coming_bytes == 0


MANY = numbered_digest(2000)


def many_weights() -> RecordWeights:
    values = np.random.default_rng(5).random(2000) + 0.1
    return record_weights(MANY.content_root, checked_values("w", values))


@on_loop
async def test_of_all_ranks_of_a_job_one_sends_over_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, read_bytes = many_weights().to_bytes(), list[int]()
    count = ComingWeights._count

    def counted(self: ComingWeights, upload: Any, size_bytes: int) -> None:
        read_bytes.append(size_bytes)
        count(self, upload, size_bytes)

    monkeypatch.setattr(ComingWeights, "_count", counted)
    begun = asyncio.Barrier(16)  # all have begun before one has sent all
    async with served(tmp_path / "work") as (_, client):
        await client.upload([MANY.to_bytes()])
        sent = [rank_put(client, data, begun) for _ in range(16)]
        assert await asyncio.gather(*sent) == [many_weights().weights_id] * 16
        assert sum(read_bytes) == len(data) + 15 * HEADER_BYTES
        assert await rank_put(client, data, asyncio.Barrier(1)) == many_weights().weights_id
        assert sum(read_bytes) == len(data) + 16 * HEADER_BYTES
        assert len(list((tmp_path / "work" / "weights").iterdir())) == 1


async def rank_put(client: CoordinatorClient, data: bytes, begun: asyncio.Barrier) -> bytes:
    async def requests() -> AsyncIterator[pb.PutWeightsRequest]:
        yield pb.PutWeightsRequest(digest_id=MANY.digest_id, part=data[:HEADER_BYTES])
        await begun.wait()
        for at in range(HEADER_BYTES, len(data), 1000):
            yield pb.PutWeightsRequest(part=data[at : at + 1000])

    return bytes((await client.call("PutWeights", requests())).weights_id)
