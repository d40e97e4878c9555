"""Weights of records at the coordinator: which of them go where room ends, on the disk and in memory."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.contract.test_weights_kept import DIGEST, asking, kept, opening, parts_of, picked, put, weights
from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient
from tests.support.coordinator_served import served
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights import picking, samplings, weight_files
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.weight_files import WeightFiles
from tfquiver.service.coordinator.server import CoordinatorServer

SIZE_BYTES = len(weights().to_bytes())


async def three(files: WeightFiles) -> list[bytes]:
    return [(await files.put(parts_of(weights(seed).to_bytes()), DIGEST)).weights_id for seed in range(3)]


def on_disk(tmp_path: Path) -> set[bytes]:
    return {bytes.fromhex(path.stem) for path in tmp_path.rglob("*.tfqw")}


@on_loop
async def test_what_was_used_last_stays_on_the_disk_whenever_it_was_loaded(tmp_path: Path) -> None:
    files = kept(tmp_path, most_bytes=3 * SIZE_BYTES)
    ids = await three(files)
    for one in (0, 1, 2, 0):  # from memory: the disk is not read, nor is it told again within a minute
        await files.get(ids[one])
    await files.put(parts_of(weights(3).to_bytes()), DIGEST)
    assert on_disk(tmp_path) == {ids[0], ids[2], weights(3).weights_id}


@on_loop
async def test_a_use_long_after_the_loading_counts_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "_NOTED_S", 0.0)
    files = kept(tmp_path)
    ids = await three(files)
    for age, weights_id in enumerate(ids):
        os.utime(tmp_path / "weights" / f"{weights_id.hex()}.tfqw", (age, age))
    await files.get(ids[0])
    again = kept(tmp_path, most_bytes=3 * SIZE_BYTES)
    await again.put(parts_of(weights(3).to_bytes()), DIGEST)
    assert on_disk(tmp_path) == {ids[0], ids[2], weights(3).weights_id}


@on_loop
async def test_memory_keeps_what_is_in_use_and_where_all_is_what_was_used_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    in_use = set[bytes]()
    monkeypatch.setattr(weight_files, "_OPEN_BYTES", 2 * 80)
    files = WeightFiles(tmp_path / "weights", lambda: in_use)
    first = await files.put(parts_of(weights(0).to_bytes()), DIGEST)
    in_use.add(first.weights_id)
    second = await files.put(parts_of(weights(1).to_bytes()), DIGEST)
    third = await files.put(parts_of(weights(2).to_bytes()), DIGEST)  # the second goes, though it was used later
    assert await files.get(first.weights_id) is first
    assert await files.get(third.weights_id) is third
    assert (again := await files.get(second.weights_id)) is not second  # read again; the third is needed by nobody
    assert not caplog.records
    in_use |= {second.weights_id, third.weights_id}
    assert await files.get(first.weights_id) is first
    await files.get(third.weights_id)  # all are in use, and two have room: the second was used longest ago
    (told,) = caplog.records
    assert "3 sets of weights of records are needed at once, more than fit into 160 bytes" in told.getMessage()
    assert await files.get(first.weights_id) is first
    assert await files.get(second.weights_id) is not again


@on_loop
async def test_jobs_between_two_epochs_keep_their_weights_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path / "work") as (server, client):
        coordinator = server.coordinator
        await client.upload([DIGEST.to_bytes()])
        await put(client, weights().to_bytes())
        assert needed(coordinator) == set()
        await client.call("AskSampling", asking(weights().weights_id))
        assert needed(coordinator) == {weights().weights_id}  # a model is made meanwhile
        monkeypatch.setattr(samplings, "AWAITED_S", 0.0)
        assert needed(coordinator) == set()
        opened = await client.call("OpenReader", opening(knows_picks=True))
        assert needed(coordinator) == {weights().weights_id}
        await read_all(client, opened)
        assert next(iter(coordinator.sessions)).ended
        assert needed(coordinator) == {weights().weights_id}  # the next epoch may begin
        coordinator.weights._most_bytes = SIZE_BYTES
        with pytest.raises(errors.ResourceExhaustedError, match="by jobs between two epochs"):
            await put(client, weights(1).to_bytes())
        monkeypatch.setattr(picking, "BETWEEN_S", 0.0)
        assert needed(coordinator) == set()
        await put(client, weights(1).to_bytes())
    monkeypatch.undo()
    again = CoordinatorServer()
    await again.start(tmp_path / "work", "localhost:0")
    async with again:
        assert needed(again.coordinator) == {weights().weights_id}  # since when it was asked for is not written down


@on_loop
async def test_many_who_ask_which_records_leave_threads_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, go, inside = asyncio.get_running_loop(), threading.Event(), list[str]()
    enough = asyncio.Event()

    def slowly(*_: object) -> list[bytes]:
        inside.append(threading.current_thread().name)
        loop.call_soon_threadsafe(enough.set)
        assert go.wait(60)
        return [b"\x01\x01\x01"]

    monkeypatch.setattr(picking, "_planes", slowly)
    async with served(tmp_path / "work") as (_, client):
        await client.upload([DIGEST.to_bytes()])
        await put(client, weights().to_bytes())
        await client.call("AskSampling", asking(weights().weights_id))
        opened = await client.call("OpenReader", opening(knows_picks=True))
        asked = [asyncio.create_task(picked(client, opened.session_id, [0])) for _ in range(64)]
        await enough.wait()
        # What the loop's own pool does is done: were those in it, nobody would be left for this.
        await asyncio.gather(*(asyncio.to_thread(len, "") for _ in range(64)))
        assert set(inside) <= {"picks_0", "picks_1"}
        go.set()
        assert await asyncio.gather(*asked) == [[b"\x01\x01\x01"]] * 64
        assert len(inside) == 64


def needed(coordinator: Coordinator) -> set[bytes]:
    return coordinator.weights._in_use()


async def read_all(client: CoordinatorClient, opened: pb.OpenReaderReply) -> None:
    sequence, draws = 1, list[int]()
    while True:
        reply = await client.call(
            "Lease",
            pb.LeaseRequest(
                session_id=opened.session_id, reader_id="r", sequence=sequence, max_shards=100, max_bytes=1 << 40,
                acked=draws,
            ),
        )  # fmt: skip
        sequence, draws = sequence + 1, [lease.shard for lease in reply.leases]
        if reply.state == pb.LeaseReply.STATE_END:
            break
    await client.call("CloseReader", pb.CloseReaderRequest(session_id=opened.session_id, reader_id="r", complete=True))
